"""Names for the leaves of nested arguments and results, as a reader would write them."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any


def leaf_paths(tree_spec: Any) -> list[tuple[Any, ...]]:
    """The key path of every leaf of a pytree spec, in leaf order."""
    from torch.utils import _pytree as pytree

    tree = pytree.tree_unflatten(list(range(tree_spec.num_leaves)), tree_spec)
    leaves, _ = pytree.tree_flatten_with_path(tree)
    by_index = {leaf: tuple(path) for path, leaf in leaves}
    return [by_index[i] for i in range(tree_spec.num_leaves)]


def key_text(key: Any) -> str:
    """One step of a path: ``[0]``, ``['k']`` or ``.k``."""
    if hasattr(key, "idx"):
        return f"[{key.idx}]"
    if hasattr(key, "key"):
        return f"[{key.key!r}]"
    if hasattr(key, "name"):
        return f".{key.name}"
    return f"[{key}]"


def argument_paths(
    in_spec: Any, forward: Callable[..., Any] | None, names: list[str] | None = None
) -> list[tuple[str, int | None]]:
    """For each input leaf its path (``cache['k']``) and the rank of its parameter in ``forward``.

    ``names`` are those of the top-level arguments, for a program that came without its ``forward``.
    """
    parameters = (names or []) if forward is None else _parameters(forward)
    ranks = {p: i for i, p in enumerate(parameters)}
    result: list[tuple[str, int | None]] = []
    for path in leaf_paths(in_spec):
        where, first, rest = path[0], path[1], path[2:]
        if getattr(where, "idx", None) == 0:
            position = int(first.idx)
            name = parameters[position] if position < len(parameters) else f"args[{position}]"
        else:
            name = str(getattr(first, "key", first))
        result.append((name + "".join(key_text(k) for k in rest), ranks.get(name)))
    return result


def recorded_names(program: Any) -> list[str] | None:
    """The argument names of ``forward`` that an ExportedProgram keeps; ``None`` if it has none."""
    for entry in getattr(program, "module_call_graph", None) or ():
        if entry.fqn == "" and entry.signature is not None and entry.signature.forward_arg_names:
            return [str(name) for name in entry.signature.forward_arg_names]
    return None


def return_paths(out_spec: Any) -> list[str]:
    """For each returned leaf its path below the return value (``[0]``, ``['logits']``, ```` alone)."""
    return ["".join(key_text(k) for k in path) for path in leaf_paths(out_spec)]


def _parameters(forward: Callable[..., Any] | None) -> list[str]:
    if forward is None:
        return []
    try:
        signature = inspect.signature(forward)
    except (TypeError, ValueError):
        return []
    return [p.name for p in signature.parameters.values() if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]


def register_dataclasses(value: Any) -> None:
    """Let torch flatten the dataclasses inside ``value``; without it they are opaque leaves."""
    import torch
    from torch.utils import _pytree as pytree

    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        if type(value) not in pytree.SUPPORTED_NODES:
            torch.export.register_dataclass(type(value))
        for field in dataclasses.fields(value):
            register_dataclasses(getattr(value, field.name))
    elif isinstance(value, Mapping):
        for item in value.values():
            register_dataclasses(item)
    elif isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        for item in value:
            register_dataclasses(item)
