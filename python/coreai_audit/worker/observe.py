"""Call the module twice in eager mode and see what it changes.

Whatever changes here and is no state of the asset is lost on the way: torch.export records writes to
registered buffers and to arguments, and drops the rest without a word.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from ..recipe import Call, Recipe
from . import paths, values

# Parameters above this many bytes are shared with the copy instead of copied.
_COPY_PARAMETERS_BELOW = 256 * 2**20


def observe(recipe: Recipe) -> dict[str, Any]:
    """What two eager calls of a copy of the module change.

    ``changed`` lists ``name``, ``kind`` (buffer, parameter, attribute, python) and, for tensors, the
    dtype; ``error`` carries the message when eager PyTorch refuses the call.
    """
    arrived_in_training = bool(recipe.module is not None and recipe.module.training)
    result: dict[str, Any] = {
        "mode": "train" if arrived_in_training else "eval",
        "changed": [],
        "error": None,
    }
    module = _copy(recipe.module)
    restore = _class_attributes(module)
    try:
        calls = recipe.reference_calls()
        first, second = calls[0], calls[1] if len(calls) > 1 else calls[0]
        before = _watch(module)
        error = _call(module, first)
        between = _watch(module)
        if error is None:
            error = _call(module, second)
        after = _watch(module)
    finally:
        for cls, key, value in restore:
            setattr(cls, key, value)
    if error is not None:
        result["error"] = error
        return result
    result["changed"] = _changes(before, between, after)
    return result


def _changes(
    before: dict[str, tuple[str, Any]],
    between: dict[str, tuple[str, Any]],
    after: dict[str, tuple[str, Any]],
) -> list[dict[str, Any]]:
    changed = []
    for name, (kind, value) in after.items():
        # An attribute that changes once is a cache filled at first use; one that changes again is
        # state. A buffer is state as soon as it changes.
        reference = between if kind in ("attribute", "python") else before
        old = reference.get(name)
        if old is not None and values.same(old[1], value):
            continue
        if old is None and kind in ("attribute", "python"):
            continue
        changed.append(
            {
                "name": name,
                "kind": kind,
                "dtype": _dtype(value),
                "appeared": old is None or old[1] is None,
            }
        )
    return changed


def _dtype(value: Any) -> str | None:
    dtype = getattr(value, "dtype", None)
    return None if dtype is None else str(dtype).removeprefix("torch.")


def _copy(module: Any) -> Any:
    size = sum(p.numel() * p.element_size() for p in module.parameters())
    memo: dict[int, Any] = {}
    if size > _COPY_PARAMETERS_BELOW:
        memo = {id(p): p for p in module.parameters()}
    return copy.deepcopy(module, memo)


def _class_attributes(module: Any) -> list[tuple[type, str, Any]]:
    """Attributes of the module's classes that hold tensors or scalars; a deep copy shares them."""
    import torch

    found: list[tuple[type, str, Any]] = []
    for cls in {type(m) for m in module.modules()}:
        for base in cls.__mro__:
            if base.__module__.partition(".")[0] in ("torch", "builtins"):
                continue
            for key, value in list(vars(base).items()):
                if key.startswith("__"):
                    continue
                if isinstance(value, torch.Tensor):
                    found.append((base, key, value))
                elif isinstance(value, (bool, int, float, list, dict)):
                    found.append((base, key, copy.copy(value)))
    return found


def _watch(module: Any) -> dict[str, tuple[str, Any]]:
    seen: dict[str, tuple[str, Any]] = {}
    for prefix, sub in module.named_modules(remove_duplicate=False):
        for key, value in sub._buffers.items():
            name = f"{prefix}.{key}" if prefix else key
            seen[name] = ("buffer", None if value is None else values.freeze(value))
    parameters = dict(module.named_parameters())
    small = sum(p.numel() * p.element_size() for p in parameters.values()) < _COPY_PARAMETERS_BELOW
    for name, parameter in parameters.items():
        seen[name] = ("parameter", values.freeze(parameter) if small else parameter._version)
    for name, value in values.reachable(module):
        import torch

        kind = "attribute" if isinstance(value, torch.Tensor) else "python"
        seen.setdefault(name, (kind, values.freeze(value)))
    return seen


def _call(module: Any, call: Call) -> str | None:
    import torch

    args, kwargs = clone_arguments(call)
    try:
        with torch.no_grad():
            result = module(*args, **kwargs)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    paths.register_dataclasses(result)
    return None


def clone_arguments(call: Call) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Fresh tensors for one call: ``forward`` may write into its arguments."""
    memo: dict[int, Any] = {}
    args = tuple(_clone(a, memo) for a in call.args)
    kwargs = {k: _clone(v, memo) for k, v in call.kwargs.items()}
    return args, kwargs


def _clone(value: Any, memo: dict[int, Any]) -> Any:
    import torch

    if isinstance(value, torch.Tensor):
        # One tensor given twice stays one tensor.
        return memo.setdefault(id(value), value.detach().clone())
    if isinstance(value, Mapping):
        return type(value)({k: _clone(v, memo) for k, v in value.items()})  # type: ignore[call-arg]
    if isinstance(value, list):
        return [_clone(v, memo) for v in value]
    if type(value) is tuple:
        return tuple(_clone(v, memo) for v in value)
    return copy.deepcopy(value)
