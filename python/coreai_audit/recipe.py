"""Recipes: what to convert, and under which names.

A recipe is a function without arguments, named on the command line or in the manifest as
``path.py:name``, that returns a :class:`Recipe`. It is called in a worker process, so it may import
torch, read files and take its time; nothing here does.
"""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

__all__ = ["Call", "Recipe", "RecipeError"]

_KINDS = ("module", "exported", "program", "asset")
# What an exporter of one's own decides already.
_OF_THE_EXPORT = ("dynamic_shapes", "strict", "training")
_OF_THE_CONVERSION = (
    "args", "kwargs", "calls", "input_names", "output_names", "state_names", "entrypoint_name", "functions",
)  # fmt: skip
_WITHOUT_EFFECT = {
    "exported": _OF_THE_EXPORT,
    "program": _OF_THE_EXPORT + _OF_THE_CONVERSION,
    "asset": _OF_THE_EXPORT + _OF_THE_CONVERSION,
}
_WHERE_INSTEAD = {
    "exported": "give it to torch.export.export where the program is exported",
    "program": "give it to the exporter and to add_exported_program where the program is made",
    "asset": "the asset is read as it is",
}


class RecipeError(ValueError):
    """A recipe that cannot be used as it is; the message says which field and what to change."""


@dataclass
class Call:
    """One call of ``forward`` for the reference trace."""

    args: Sequence[Any] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class Recipe:
    """How to make one asset, or one entry point of it.

    Exactly one of ``module``, ``exported``, ``program`` and ``asset`` says what is converted:

    * ``module`` with ``args`` and ``kwargs``: exported, decomposed and converted by the tool;
    * ``exported``: an ``ExportedProgram`` (or a callable that returns one), decomposed or not;
    * ``program``: an ``AIProgram``, or a callable that returns one, for people with an exporter of
      their own (externalised composites, custom lowerings);
    * ``asset``: the path of an ``.aimodel`` made elsewhere; nothing is converted.

    Names are pinned by ``input_names``, ``output_names`` and ``state_names``. ``None`` leaves them to
    PyTorch's tracer, which is reported (``default-names``); an empty list asserts that there are none.
    """

    module: torch.nn.Module | None = None
    #: Example arguments, positional and by keyword. The keyword order decides the order of the
    #: graph's arguments, so write it as ``forward`` does.
    args: Sequence[Any] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    #: As for ``torch.export.export``.
    dynamic_shapes: Any = None
    #: As for ``torch.export.export``. It decides the order of states: registration order without,
    #: order of first use with it.
    strict: bool = False
    #: Arguments that are not mutated, in ``forward`` order.
    input_names: Sequence[str] | None = None
    #: Returned values, in the order in which ``forward`` returns them.
    output_names: Sequence[str] | None = None
    #: Mutated buffers first, in registration order, then mutated arguments, in ``forward`` order.
    state_names: Sequence[str] | None = None
    entrypoint_name: str = "main"
    #: The calls of the reference trace; each an argument tuple, a :class:`Call`, or a dictionary of
    #: keyword arguments. Default: the example, repeated.
    calls: Sequence[Call | Sequence[Any] | Mapping[str, Any]] | None = None
    #: Seed of torch, ``random`` and numpy before the recipe function is called.
    seed: int = 0
    #: Export in training mode. The default is evaluation mode.
    training: bool = False
    #: Further entry points of the same asset, in order; each with its own ``entrypoint_name``. Entry
    #: points that have ``functions`` of their own are followed by them.
    functions: Sequence[Recipe | Mapping[str, Any]] = ()
    exported: Any = None
    program: Any = None
    asset: str | os.PathLike[str] | None = None

    def __post_init__(self) -> None:
        kinds = [k for k in _KINDS if getattr(self, k) is not None]
        if len(kinds) != 1:
            given = " and ".join(kinds) if kinds else "none of them"
            raise RecipeError(f"Recipe: give exactly one of module, exported, program and asset; got {given}")
        [kind] = kinds
        self._check_fields(kind)
        self._check_source(kind)
        for name in ("input_names", "output_names", "state_names"):
            _check_names(name, getattr(self, name))
        # A repeated output name converts, and loses a value: that is found in the asset. A repeated
        # argument name does not convert.
        _check_unique("input_names and state_names", [*(self.input_names or ()), *(self.state_names or ())])
        _check_name("entrypoint_name", self.entrypoint_name)
        _check_arguments("args", self.args, "kwargs", self.kwargs)
        for name in ("strict", "training"):
            if not isinstance(getattr(self, name), bool):
                raise RecipeError(f"Recipe: {name} must be True or False, got {_short(getattr(self, name))}")
        if isinstance(self.seed, bool) or not isinstance(self.seed, int) or not _is_seed(self.seed):
            raise RecipeError(f"Recipe: seed must be an integer of 64 bits, got {_short(self.seed)}")
        self._check_calls()
        self._check_functions()

    def _check_fields(self, kind: str) -> None:
        """A field that would be ignored is a mistake: what it asks for does not happen."""
        ignored = [
            f.name
            for f in fields(self)
            if f.name in _WITHOUT_EFFECT.get(kind, ()) and not _is_default(f, getattr(self, f.name))
        ]
        if ignored:
            raise RecipeError(
                f"Recipe: {' and '.join(ignored)} {'have' if len(ignored) > 1 else 'has'} no effect with "
                f"{kind}; {_WHERE_INSTEAD[kind]}"
            )

    def _check_source(self, kind: str) -> None:
        torch = sys.modules.get("torch")
        value = getattr(self, kind)
        is_module = torch is not None and isinstance(value, torch.nn.Module)
        if kind == "module" and torch is not None and not is_module:
            hint = "; call the class to make one" if isinstance(value, type) else ""
            raise RecipeError(f"Recipe: module must be a torch.nn.Module, got {_short(value)}{hint}")
        if kind == "exported" and (is_module or not callable(value)):
            hint = "; give it as module=" if is_module else ""
            raise RecipeError(
                "Recipe: exported must be an ExportedProgram or a callable that returns one, "
                f"got {type(value).__name__}{hint}"
            )
        if kind == "asset":
            path = os.fspath(value) if isinstance(value, (str, os.PathLike)) else None
            if not isinstance(path, str) or not path or "\0" in path:
                raise RecipeError(
                    f"Recipe: asset must be the path of an .aimodel folder, got {_short(value)}"
                )

    def _check_calls(self) -> None:
        if self.calls is None:
            return
        if isinstance(self.calls, (str, bytes)) or not isinstance(self.calls, Sequence) or not self.calls:
            what = "an empty one" if isinstance(self.calls, (list, tuple)) else type(self.calls).__name__
            raise RecipeError(
                f"Recipe: calls must be a list with at least one call, got {what}; "
                "leave it out to repeat the example"
            )
        for i, call in enumerate(self.calls):
            as_call(call, i)

    def _check_functions(self) -> None:
        if isinstance(self.functions, (str, bytes, Mapping)) or not isinstance(self.functions, Sequence):
            raise RecipeError(
                f"Recipe: functions must be a list of Recipe, got {type(self.functions).__name__}; "
                "write functions=[recipe] for a single one"
            )
        made: list[Recipe] = []
        for i, function in enumerate(self.functions):
            if isinstance(function, Mapping):
                function = from_mapping(function, f"Recipe: functions[{i}]")
            if not isinstance(function, Recipe):
                raise RecipeError(
                    f"Recipe: functions[{i}] must be a Recipe or a dictionary of its fields, "
                    f"got {type(function).__name__}"
                )
            if function.module is None and function.exported is None:
                kind = "program" if function.program is not None else "asset"
                raise RecipeError(
                    f"Recipe: functions[{i}] gives {kind}; a further entry point needs module or exported"
                )
            made.append(function)
        self.functions = made
        names = [f.entrypoint_name for f in self.entry_points()]
        repeated = sorted({n for n in names if names.count(n) > 1})
        if repeated:
            raise RecipeError(
                f"Recipe: entrypoint_name {repeated[0]!r} is used by {names.count(repeated[0])} "
                "functions; each entry point needs a name of its own"
            )

    def entry_points(self) -> list[Recipe]:
        """This recipe and its further entry points, in the order of the asset.

        An entry point may have ``functions`` of its own; they follow it.
        """
        further = [f.entry_points() for f in self.functions if isinstance(f, Recipe)]
        return [self, *(e for entries in further for e in entries)]

    def reference_calls(self) -> list[Call]:
        """The calls of the reference trace (the example alone when none were given)."""
        if self.calls is None:
            return [Call(tuple(self.args), dict(self.kwargs))]
        return [as_call(c, i) for i, c in enumerate(self.calls)]


def as_call(call: Call | Sequence[Any] | Mapping[str, Any] | Any, position: int = 0) -> Call:
    """Read entry ``position`` of ``Recipe.calls``."""
    if isinstance(call, Mapping):
        call = Call((), call)
    elif isinstance(call, Sequence) and not isinstance(call, (str, bytes)):
        call = Call(tuple(call), {})
    if not isinstance(call, Call):
        raise RecipeError(
            f"Recipe: calls[{position}] must be a tuple of arguments, a dictionary of keyword "
            f"arguments or a Call; got {type(call).__name__}"
        )
    _check_arguments(f"calls[{position}].args", call.args, f"calls[{position}].kwargs", call.kwargs)
    return Call(tuple(call.args), dict(call.kwargs))


def from_mapping(value: Mapping[Any, Any], where: str) -> Recipe:
    """A :class:`Recipe` from a dictionary of its fields; errors begin with ``where``."""
    known = [f.name for f in fields(Recipe)]
    for key in value:
        if key not in known:
            near = difflib.get_close_matches(str(key), known, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise RecipeError(f"{where}: unknown field {key!r}{hint} (fields: {', '.join(known)})")
    return Recipe(**value)


def _is_default(described: Field[Any], value: Any) -> bool:
    if described.default_factory is not MISSING:
        return isinstance(value, Mapping) and not value
    if isinstance(described.default, tuple):
        return isinstance(value, Sequence) and not value
    return value is described.default or (isinstance(value, str) and value == described.default)


def _is_seed(value: int) -> bool:
    # What torch.manual_seed accepts.
    return -(2**63) <= value < 2**64


def _check_arguments(args_field: str, args: Any, kwargs_field: str, kwargs: Any) -> None:
    if isinstance(args, (str, bytes)) or not isinstance(args, Sequence):
        raise RecipeError(
            f"Recipe: {args_field} must be a tuple of example arguments, got "
            f"{type(args).__name__}; write args=(x,) for a single one"
        )
    if not isinstance(kwargs, Mapping):
        raise RecipeError(f"Recipe: {kwargs_field} must be a dictionary, got {type(kwargs).__name__}")
    for key in kwargs:
        if not isinstance(key, str):
            raise RecipeError(f"Recipe: {kwargs_field} must have strings as keys, got {_short(key)}")


def _check_names(field_name: str, names: Sequence[str] | None) -> None:
    if names is None:
        return
    if isinstance(names, (str, bytes)) or not isinstance(names, Sequence):
        raise RecipeError(f"Recipe: {field_name} must be a list of strings, got {type(names).__name__}")
    for i, name in enumerate(names):
        _check_name(f"{field_name}[{i}]", name)


def _check_name(field_name: str, name: Any) -> None:
    if not isinstance(name, str) or not name:
        raise RecipeError(f"Recipe: {field_name} must be a non-empty string, got {_short(name)}")
    # The asset stores names as UTF-8, and its readers take them up to a NUL.
    if "\0" in name or any("\ud800" <= c <= "\udfff" for c in name):
        raise RecipeError(
            f"Recipe: {field_name} must be text that UTF-8 can hold, without NUL and lone surrogates; "
            f"got {_short(name)}"
        )


def _check_unique(field_name: str, names: list[str]) -> None:
    for i, name in enumerate(names):
        if name in names[:i]:
            raise RecipeError(
                f"Recipe: {field_name} use {name!r} twice; every input and state needs a name of its own"
            )


def _short(value: Any) -> str:
    """What was given, for a message: plain values as they are, everything else by its type."""
    if value is None or isinstance(value, (bool, int, float, str, bytes)):
        # ascii() because a message must itself be text that can be printed.
        text = ascii(value) if isinstance(value, (str, bytes)) else repr(value)
        return text if len(text) <= 80 else text[:77] + "..."
    return f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__


#: What a recipe function looks like.
RecipeFunction = Callable[[], Recipe]
