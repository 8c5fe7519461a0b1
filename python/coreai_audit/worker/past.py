"""Whether the code of a copy reaches the module it was copied from.

``copy.deepcopy`` leaves functions and weak references as they are: a closure, a hook, a replaced ``forward``
or a registry still means the original. Such a copy writes one thing and reads another, and calling it
changes what it was made from.
"""

from __future__ import annotations

import functools
import types
import weakref
from collections import deque
from typing import Any

from . import outside

# Values that are looked at.
_MOST_VALUES = 50_000
# Run once, when the module is made.
_MAKERS = ("__init__", "__new__")


class Reached(Exception):
    """A copy whose code reaches its original."""

    def __init__(self) -> None:
        super().__init__("a closure, hook, weak reference or global of its code still means the original")


def check(modules: list[Any], memo: dict[int, Any]) -> None:
    """Raise :class:`Reached` if ``modules``, copied by ``copy.deepcopy`` with ``memo``, reach originals."""
    seen: set[int] = set()
    # What is made while looking stays alive, so that no identity is given twice.
    alive: list[Any] = []
    waiting: deque[Any] = deque(modules)
    while waiting and len(alive) < _MOST_VALUES:
        value = waiting.popleft()
        if id(value) in seen:
            continue
        seen.add(id(value))
        alive.append(value)
        if memo.get(id(value), value) is not value:
            raise Reached
        waiting.extend(_inside(value))


def _inside(value: Any) -> list[Any]:
    """What a value leads to, whether or not a copy is made of it."""
    import torch

    if isinstance(value, types.FunctionType):
        return outside.reached(value)
    if isinstance(value, types.MethodType):
        return [value.__self__, value.__func__]
    if isinstance(value, types.BuiltinMethodType):
        return [value.__self__] if isinstance(value.__self__, torch.Tensor) else []
    if isinstance(value, functools.partial):
        return [value.func, value.args, value.keywords]
    if isinstance(value, weakref.ref):
        return [value()]
    if isinstance(value, (torch.Tensor, type, types.ModuleType)):
        return []
    if isinstance(value, dict):
        return [*value.keys(), *value.values()]
    if isinstance(value, (list, tuple, set, frozenset, deque)):
        return list(value)
    fields = getattr(value, "__dict__", None)
    found: list[Any] = [fields] if isinstance(fields, dict) else []
    for cls in type(value).__mro__ if found else ():
        if not outside.of_library(cls.__module__):
            methods = (outside.function_behind(v) for k, v in list(vars(cls).items()) if k not in _MAKERS)
            found.extend(m for m in methods if m is not None)
    return found
