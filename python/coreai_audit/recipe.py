"""Recipes: what to convert, and under which names.

A recipe is a function without arguments, named on the command line or in the manifest as
``path.py:name``, that returns a :class:`Recipe`. It is called in a worker process, so it may import
torch, read files and take its time; nothing here does.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

__all__ = ["Call", "Recipe", "RecipeError"]


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
    #: Seed given to ``torch.manual_seed`` before the recipe function is called.
    seed: int = 0
    #: Export in training mode. The default is evaluation mode.
    training: bool = False
    #: Further entry points of the same asset, in order; each with its own ``entrypoint_name``.
    functions: Sequence[Recipe | Mapping[str, Any]] = ()
    exported: Any = None
    program: Any = None
    asset: str | os.PathLike[str] | None = None

    def __post_init__(self) -> None:
        kinds = [k for k in ("module", "exported", "program", "asset") if getattr(self, k) is not None]
        if len(kinds) != 1:
            given = " and ".join(kinds) if kinds else "none of them"
            raise RecipeError(f"Recipe: give exactly one of module, exported, program and asset; got {given}")
        for name in ("input_names", "output_names", "state_names"):
            _check_names(name, getattr(self, name))
        # A repeated output name converts, and loses a value: that is found in the asset. A repeated
        # argument name does not convert.
        _check_unique("input_names and state_names", [*(self.input_names or ()), *(self.state_names or ())])
        if isinstance(self.args, (str, bytes)) or not isinstance(self.args, Sequence):
            raise RecipeError(
                "Recipe: args must be a tuple of example arguments, got "
                f"{type(self.args).__name__}; write args=(x,) for a single one"
            )
        if not isinstance(self.kwargs, Mapping):
            raise RecipeError(f"Recipe: kwargs must be a dictionary, got {type(self.kwargs).__name__}")
        if not isinstance(self.entrypoint_name, str) or not self.entrypoint_name:
            raise RecipeError("Recipe: entrypoint_name must be a non-empty string")
        functions = [f if isinstance(f, Recipe) else Recipe(**f) for f in self.functions]
        self.functions = functions
        if functions and kinds[0] in ("program", "asset"):
            raise RecipeError(f"Recipe: functions cannot be combined with {kinds[0]}")
        names = [self.entrypoint_name, *(f.entrypoint_name for f in functions)]
        repeated = sorted({n for n in names if names.count(n) > 1})
        if repeated:
            raise RecipeError(
                f"Recipe: entrypoint_name {repeated[0]!r} is used by {names.count(repeated[0])} "
                "functions; each entry point needs a name of its own"
            )

    def entry_points(self) -> list[Recipe]:
        """This recipe and its further entry points, in the order of the asset."""
        return [self, *(f for f in self.functions if isinstance(f, Recipe))]

    def reference_calls(self) -> list[Call]:
        """The calls of the reference trace (the example alone when none were given)."""
        if self.calls is None:
            return [Call(tuple(self.args), dict(self.kwargs))]
        return [as_call(c) for c in self.calls]


def as_call(call: Call | Sequence[Any] | Mapping[str, Any] | Any) -> Call:
    """Read one entry of ``Recipe.calls``."""
    if isinstance(call, Call):
        return call
    if isinstance(call, Mapping):
        return Call((), dict(call))
    if isinstance(call, Sequence) and not isinstance(call, (str, bytes)):
        return Call(tuple(call), {})
    raise RecipeError(
        "Recipe: each entry of calls must be a tuple of arguments, a dictionary of keyword "
        f"arguments or a Call; got {type(call).__name__}"
    )


def _check_names(field_name: str, names: Sequence[str] | None) -> None:
    if names is None:
        return
    if isinstance(names, str) or not isinstance(names, Sequence):
        raise RecipeError(f"Recipe: {field_name} must be a list of strings, got {type(names).__name__}")
    for i, name in enumerate(names):
        if not isinstance(name, str) or not name:
            raise RecipeError(f"Recipe: {field_name}[{i}] must be a non-empty string, got {name!r}")


def _check_unique(field_name: str, names: list[str]) -> None:
    for i, name in enumerate(names):
        if name in names[:i]:
            raise RecipeError(
                f"Recipe: {field_name} use {name!r} twice; every input and state needs a name of its own"
            )


#: What a recipe function looks like.
RecipeFunction = Callable[[], Recipe]
