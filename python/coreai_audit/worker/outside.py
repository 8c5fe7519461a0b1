"""What the code of a module reaches outside of it: globals, closures, default arguments, classes.

A copy of a module shares all of that with the module. Whoever calls a copy must put it back, or the next
caller starts from somewhere else; and what changes there from call to call is lost in an export.
"""

from __future__ import annotations

import contextlib
import sys
import sysconfig
import types
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

# Functions, and values in what they reach, that are looked at.
_MOST_FUNCTIONS = 1000
_MOST_VALUES = 20_000
# Tensors above this many bytes together are not copied.
_MOST_BYTES = 2**28
_LIBRARIES = tuple(
    {sysconfig.get_path(p) for p in ("stdlib", "platstdlib", "purelib", "platlib")} | {"<frozen"}
)


class Place:
    """Something that holds a value: a global, a closure's variable, a default, an attribute of a class."""

    def __init__(self, name: str, value: Any, put: Callable[[Any], None] | None) -> None:
        self.name = name
        self.value = value
        #: Makes it hold another value; ``None`` where that cannot be.
        self.put = put


def places(module: Any) -> Iterator[Place]:
    """Every place that the code of ``module`` and of its submodules names, each once."""
    waiting: deque[types.FunctionType] = deque()
    classes = {c for sub in module.modules() for c in type(sub).__mro__ if not of_library(c.__module__)}
    for cls in classes:
        for key, value in list(vars(cls).items()):
            function = function_behind(value)
            if function is not None:
                waiting.append(function)
            elif not key.startswith("__"):
                yield Place(f"{cls.__name__}.{key}", value, _setter(cls, key))
    seen: set[int] = set()
    given: set[tuple[int, str]] = set()
    while waiting and len(seen) < _MOST_FUNCTIONS:
        function = waiting.popleft()
        if id(function) in seen or of_library(function.__module__ or "builtins"):
            continue
        seen.add(id(function))
        for place, holder in _named(function):
            inner = function_behind(place.value)
            if inner is not None:
                waiting.append(inner)
            elif (holder, place.name) not in given:
                given.add((holder, place.name))
                yield place


def reached(function: types.FunctionType) -> list[Any]:
    """The values a function names; of a library's function those that it was given, not its globals."""
    if not of_library(function.__module__ or "builtins"):
        return [place.value for place, _ in _named(function)]
    cells = []
    for cell in function.__closure__ or ():
        with contextlib.suppress(ValueError):  # A variable without a value.
            cells.append(cell.cell_contents)
    return [*cells, *(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]


def _named(function: types.FunctionType) -> Iterator[tuple[Place, int]]:
    """What a function names, and the identity of what holds it."""
    names = _names(function.__code__)
    scope = function.__globals__
    for name in sorted(names & scope.keys()):
        value = scope[name]
        if isinstance(value, types.ModuleType):
            if not of_library(value.__name__) and _own_file(value):
                for key in sorted(names & vars(value).keys()):
                    yield Place(f"{name}.{key}", vars(value)[key], _entry(vars(value), key)), id(value)
        elif isinstance(value, type):
            if not of_library(value.__module__):
                for key in sorted(names & vars(value).keys()):
                    yield Place(f"{name}.{key}", vars(value)[key], _setter(value, key)), id(value)
        else:
            yield Place(name, value, _entry(scope, name)), id(scope)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):  # A variable without a value.
            yield Place(name, cell.cell_contents, _setter(cell, "cell_contents")), id(cell)
    code = function.__code__
    positional = code.co_varnames[: code.co_argcount]
    defaults = function.__defaults__ or ()
    for name, value in zip(positional[len(positional) - len(defaults) :], defaults, strict=True):
        yield Place(name, value, None), id(function)
    for name, value in (function.__kwdefaults__ or {}).items():
        yield Place(name, value, None), id(function)


def _names(code: types.CodeType) -> set[str]:
    found = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found |= _names(constant)
    return found


def function_behind(value: Any) -> types.FunctionType | None:
    """The Python function behind a method, a property or a wrapper."""
    if isinstance(value, (staticmethod, classmethod)):
        value = value.__func__
    if isinstance(value, property):
        value = value.fget
    value = getattr(value, "__wrapped__", value) if callable(value) else value
    return value if isinstance(value, types.FunctionType) else None


def of_library(name: str) -> bool:
    return name.partition(".")[0] in ("torch", "builtins", "numpy", "coreai_torch", "coreai", "coreai_audit")


def _own_file(module: types.ModuleType) -> bool:
    file = getattr(module, "__file__", None)
    return bool(file) and not str(file).startswith(_LIBRARIES)


def _setter(holder: Any, key: str) -> Callable[[Any], None]:
    return lambda value: setattr(holder, key, value)


def _entry(holder: dict[str, Any], key: str) -> Callable[[Any], None]:
    return lambda value: holder.__setitem__(key, value)


@contextlib.contextmanager
def untouched(*modules: Any) -> Iterator[None]:
    """Puts back, at the end, what the code of the modules reaches outside of them."""
    found = [place for module in modules for place in places(module)]
    own = {id(sub) for module in modules for sub in module.modules()}
    saved = _Saved(own)
    for place in found:
        saved.keep(place.value)
    try:
        yield
    finally:
        saved.restore()
        for place in found:
            if place.put is not None:
                with contextlib.suppress(AttributeError, TypeError):
                    place.put(place.value)


def _refill(container: Any, fill: Callable[[], None]) -> Callable[[], None]:
    def refill() -> None:
        container.clear()
        fill()

    return refill


class _Saved:
    """The contents of containers, objects and tensors, and how to give them back."""

    def __init__(self, own: set[int]) -> None:
        self.seen = own
        self.left = _MOST_BYTES
        self.undo: list[Callable[[], None]] = []
        # What is here stays alive, so that no identity is given twice.
        self.alive: list[Any] = []

    def keep(self, value: Any) -> None:
        waiting = [value]
        while waiting and len(self.alive) < _MOST_VALUES:
            value = waiting.pop()
            if id(value) in self.seen or isinstance(value, (type, types.FunctionType, types.ModuleType)):
                continue
            self.seen.add(id(value))
            self.alive.append(value)
            waiting.extend(self._one(value))

    def _one(self, value: Any) -> list[Any]:
        """Saves one value; returns what is inside it."""
        import torch

        if isinstance(value, torch.Tensor):
            self._tensor(value)
            return []
        numpy = sys.modules.get("numpy")
        if numpy is not None and isinstance(value, numpy.ndarray):
            self._array(value)
            return []
        if isinstance(value, dict):
            entries = dict(value)
            self.undo.append(_refill(value, lambda: value.update(entries)))
            return list(entries.values())
        if isinstance(value, (list, deque)):
            items = list(value)
            self.undo.append(_refill(value, lambda: value.extend(items)))
            return items
        if isinstance(value, set):
            members = set(value)
            self.undo.append(_refill(value, lambda: value.update(members)))
            return []
        if isinstance(value, tuple):
            return list(value)
        fields = getattr(value, "__dict__", None)
        library = of_library(type(value).__module__) and not isinstance(value, torch.nn.Module)
        if isinstance(fields, dict) and not library:
            return [fields]
        return []

    def _tensor(self, value: Any) -> None:
        import torch

        size = value.numel() * value.element_size()
        if value.layout != torch.strided or size > self.left:
            return
        self.left -= size
        copied = value.detach().clone()

        def put_back() -> None:
            with torch.no_grad():
                if value.shape == copied.shape and not torch.equal(value, copied):
                    value.copy_(copied)

        self.undo.append(put_back)

    def _array(self, value: Any) -> None:
        if value.nbytes > self.left or not value.flags.writeable:
            return
        self.left -= value.nbytes
        copied = value.copy()

        def put_back() -> None:
            if value.shape == copied.shape:
                value[...] = copied

        self.undo.append(put_back)

    def restore(self) -> None:
        for undo in self.undo:
            with contextlib.suppress(RuntimeError, TypeError, AttributeError):
                undo()
