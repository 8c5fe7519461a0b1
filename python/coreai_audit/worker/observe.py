"""Call the module twice in eager mode and see what it changes.

Whatever changes here and is no state of the asset is lost on the way: torch.export records writes to
registered buffers and to arguments, and drops the rest without a word.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from ..recipe import Call, Recipe
from . import outside, past, paths, values

# Parameters above this many bytes are shared with the copy instead of copied.
_COPY_PARAMETERS_BELOW = 256 * 2**20


def observe(recipe: Recipe, again: Callable[[], AbstractContextManager[Recipe]]) -> dict[str, Any]:
    """What two eager calls of a copy of the module change.

    ``again`` makes the same recipe once more, for a module that cannot be copied. ``changed`` lists
    ``name``, ``kind`` (buffer, parameter, attribute, python), ``once`` and, for tensors, the dtype; ``error``
    carries the message when eager PyTorch refuses the call, ``skipped`` why nothing was observed.
    """
    arrived_in_training = bool(recipe.module is not None and recipe.module.training)
    result: dict[str, Any] = {
        "mode": "train" if arrived_in_training else "eval",
        "changed": [],
        "error": None,
        "skipped": None,
    }
    with contextlib.ExitStack() as stack:
        try:
            observed, module = recipe, _copy(recipe.module)
        except Exception as uncopied:
            try:
                observed = stack.enter_context(again())
                module = observed.module
            except Exception as failed:
                result["skipped"] = (
                    f"the module cannot be copied ({text(uncopied)}), and the recipe function "
                    f"fails when it is called once more ({text(failed)})"
                )
                return result
        try:
            result.update(_observe(observed, module))
        except Exception as error:
            # Values that cannot be compared, in the module or in a class of its own.
            result["skipped"] = f"what the module holds cannot be compared ({text(error)})"
    return result


def _observe(recipe: Recipe, module: Any) -> dict[str, Any]:
    """Two calls of ``module``, which nobody else uses."""
    calls = recipe.reference_calls()
    first, second = 0, min(1, len(calls) - 1)
    with outside.untouched(module):
        before = _watch(module)
        failed, error = first, _call(module, calls[first])
        between = _watch(module)
        if error is None:
            failed, error = second, _call(module, calls[second])
        after = _watch(module)
    if error is not None:
        where = f"call {failed + 1} of calls: " if recipe.calls is not None else ""
        return {"error": where + error}
    return {"changed": _changes(before, between, after)}


def text(error: Exception) -> str:
    """The exception in one line."""
    message = " ".join(str(error).split())
    return f"{type(error).__name__}: {message[:300]}" if message else type(error).__name__


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
        once = False
        if old is not None and values.same(old[1], value):
            # A Python value that the first call alone changes is a cache as a rule, and the cause only
            # where values are seen to differ from the second call on.
            first = before.get(name)
            once = kind == "python" and first is not None and not values.same(first[1], value)
            if not once:
                continue
        if old is None and kind in ("attribute", "python"):
            continue
        changed.append(
            {
                "name": name,
                "kind": kind,
                "dtype": _dtype(value),
                "appeared": old is None or old[1] is None,
                "once": once,
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
    copied = copy.deepcopy(module, memo)
    past.check([copied], memo)
    return copied


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


def clone_arguments(call: Call, memo: dict[int, Any] | None = None) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Fresh tensors for one call: ``forward`` may write into its arguments.

    With one ``memo`` for several calls a tensor that is given in several of them stays one tensor.
    """
    memo = {} if memo is None else memo
    args = tuple(_clone(a, memo) for a in call.args)
    kwargs = {k: _clone(v, memo) for k, v in call.kwargs.items()}
    return args, kwargs


def _clone(value: Any, memo: dict[int, Any]) -> Any:
    from torch.utils import _pytree as pytree

    leaves, spec = pytree.tree_flatten(value)
    return pytree.tree_unflatten([_clone_leaf(leaf, memo) for leaf in leaves], spec)


def _clone_leaf(value: Any, memo: dict[int, Any]) -> Any:
    import torch

    if isinstance(value, torch.Tensor):
        # One tensor given twice stays one tensor.
        return memo.setdefault(id(value), value.detach().clone())
    try:
        return copy.deepcopy(value, memo)
    except Exception:
        # A lock, an open file, a generator: the call gets the value itself.
        return value
