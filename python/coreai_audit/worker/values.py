"""What a watched value was: tensors and arrays by content, Python scalars by value, iterators by position.

Used to see what a module changes when it is called in eager mode. Only values a module can reach
through its own attributes, containers and classes are watched; hooks and torch's own bookkeeping
are left out.
"""

from __future__ import annotations

import itertools
import operator
import sys
from collections import deque
from collections.abc import Iterator
from typing import Any

from . import outside

_MAX_DEPTH = 4
_MAX_ITEMS = 4096
_SCALARS = (bool, int, float, complex, str, type(None))
# Bookkeeping of nn.Module itself; parameters, buffers and submodules are watched by name.
_MODULE_FIELDS = {
    "_parameters",
    "_buffers",
    "_modules",
    "_non_persistent_buffers_set",
    "training",
    "_is_full_backward_hook",
    "call_super_init",
}


def reachable(module: Any) -> Iterator[tuple[str, Any]]:
    """Tensors, arrays, iterators and scalars in plain attributes of a module and its submodules, and in what
    their code reaches outside of them."""
    for prefix, sub in module.named_modules():
        for key, value in list(vars(sub).items()):
            if key in _MODULE_FIELDS or "_hooks" in key:
                continue
            yield from _walk(f"{prefix}.{key}" if prefix else key, value, _MAX_DEPTH, set())
    own = {id(sub) for sub in module.modules()}
    for place in outside.places(module):
        yield from _walk(place.name, place.value, _MAX_DEPTH, set(own), foreign=True)


def _walk(
    name: str, value: Any, depth: int, seen: set[int], foreign: bool = False
) -> Iterator[tuple[str, Any]]:
    """Tensors and scalars in a value; of a module only where it is another's (``foreign``)."""
    import torch

    if isinstance(value, (torch.Tensor, *_SCALARS, *_numpy())):
        yield name, value
        return
    if isinstance(value, Iterator) and not hasattr(value, "__dict__"):
        # Where it stands, told without taking anything from it.
        yield name, repr(value) if isinstance(value, itertools.count) else operator.length_hint(value, -1)
        return
    if depth == 0 or id(value) in seen or (isinstance(value, torch.nn.Module) and not foreign):
        return
    seen.add(id(value))
    if isinstance(value, torch.nn.Module):
        for key, tensor in [*value.named_buffers(), *value.named_parameters()]:
            yield f"{name}.{key}", tensor
        for key, item in list(vars(value).items()):
            if key not in _MODULE_FIELDS and "_hooks" not in key:
                yield from _walk(f"{name}.{key}", item, depth - 1, seen, foreign)
        return
    if isinstance(value, (list, tuple, deque)):
        yield f"len({name})", len(value)
        for i, item in enumerate(list(value)[:_MAX_ITEMS]):
            yield from _walk(f"{name}[{i}]", item, depth - 1, seen, foreign)
    elif isinstance(value, dict):
        yield f"len({name})", len(value)
        for key, item in list(value.items())[:_MAX_ITEMS]:
            yield from _walk(f"{name}[{key!r}]", item, depth - 1, seen, foreign)
    elif hasattr(value, "__dict__") and not callable(value) and not isinstance(value, type):
        for key, item in list(vars(value).items()):
            yield from _walk(f"{name}.{key}", item, depth - 1, seen, foreign)


def freeze(value: Any) -> Any:
    """A copy that later changes cannot reach."""
    import torch

    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if isinstance(value, _numpy()):
        copied: Any = value
        return copied.copy()
    return value


def same(a: Any, b: Any) -> bool:
    """Equal content; NaN equals NaN."""
    import torch

    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        if a.shape != b.shape or a.dtype != b.dtype:
            return False
        if a.is_floating_point() or a.is_complex():
            return bool(((a == b) | ((a != a) & (b != b))).all())
        return bool(torch.equal(a, b))
    if isinstance(a, torch.Tensor) or isinstance(b, torch.Tensor):
        return False
    if isinstance(a, _numpy()) or isinstance(b, _numpy()):
        return _same_arrays(a, b)
    return bool(a == b or (a != a and b != b))


def _same_arrays(a: Any, b: Any) -> bool:
    if getattr(a, "shape", None) != getattr(b, "shape", None) or type(a) is not type(b):
        return False
    equal = (a == b) | ((a != a) & (b != b))
    return bool(a.dtype == b.dtype and equal.all())


def _numpy() -> tuple[type, ...]:
    """numpy's arrays and scalars, where it is loaded."""
    numpy = sys.modules.get("numpy")
    return () if numpy is None else (numpy.ndarray, numpy.generic)
