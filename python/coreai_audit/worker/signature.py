"""The facts of one exported function, as plain data.

The graph signature says what every placeholder and output of the program *is*: that is what gives a
state its source. Node names are the tracer's and are kept only to join the lists with each other.
"""

from __future__ import annotations

from typing import Any

from ..recipe import Recipe
from . import paths, sites, values


def dtype_name(tensor: Any) -> str:
    """torch's name without the prefix: ``float32``."""
    return str(tensor.dtype).removeprefix("torch.")


def shape_of(tensor: Any) -> list[int | None]:
    """Extents; ``None`` where symbolic."""
    return [d if type(d) is int else _static(d) for d in tensor.shape]


def _static(extent: Any) -> int | None:
    """The value of a symbolic extent that was specialised to a constant."""
    expression = getattr(getattr(extent, "node", None), "expr", None)
    return int(expression) if expression is not None and expression.is_number else None


def module_facts(recipe: Recipe) -> dict[str, Any]:
    """What can be said of the module before it is exported."""
    module = recipe.module
    facts: dict[str, Any] = {
        "name": recipe.entrypoint_name,
        "strict": recipe.strict if module is not None else None,
        "training": recipe.training,
        "names": {
            "inputs": _names(recipe.input_names),
            "outputs": _names(recipe.output_names),
            "states": _names(recipe.state_names),
        },
        "buffers": [],
        "aliases": [],
        "shared_arguments": [],
        "program": None,
    }
    if module is None:
        return facts
    groups: dict[int, list[str]] = {}
    for name, buffer in module.named_buffers(remove_duplicate=False):
        groups.setdefault(id(buffer), []).append(name)
        facts["buffers"].append({**_tensor_facts(name, buffer), "key": str(id(buffer))})
    buffers = {id(b): n for n, b in module.named_buffers()}
    for name, value in values.reachable(module):
        if id(value) in buffers:
            groups[id(value)].append(name)
    facts["storages"] = _shared_memory(module)
    facts["aliases"] = [names for names in groups.values() if len(names) > 1]
    facts["parameters"] = [n for n, _ in module.named_parameters()]
    facts["shared_arguments"] = _shared_arguments(recipe)
    return facts


def _shared_memory(module: Any) -> list[list[str]]:
    """Groups of buffers and attributes that are different tensors over the same memory."""
    import torch

    groups: dict[int, dict[str, int]] = {}
    named = [*module.named_buffers(remove_duplicate=False), *values.reachable(module)]
    for name, value in named:
        if isinstance(value, torch.Tensor) and value.numel() > 0 and value.layout == torch.strided:
            memory = value.untyped_storage().data_ptr()
            groups.setdefault(memory, {})[name] = id(value)
    return [list(group) for group in groups.values() if len(set(group.values())) > 1]


def _names(names: Any) -> list[str] | None:
    return None if names is None else [str(n) for n in names]


def _tensor_facts(name: str, tensor: Any) -> dict[str, Any]:
    return {"name": name, "dtype": dtype_name(tensor), "shape": shape_of(tensor)}


def _shared_arguments(recipe: Recipe) -> list[list[str]]:
    """Example arguments that are one and the same tensor."""
    import torch
    from torch.utils import _pytree as pytree

    example = (tuple(recipe.args), dict(recipe.kwargs))
    leaves, spec = pytree.tree_flatten(example)
    module = recipe.module
    names = paths.argument_paths(spec, module.forward if module is not None else None)
    groups: dict[int, list[str]] = {}
    for leaf, (name, _) in zip(leaves, names, strict=True):
        if isinstance(leaf, torch.Tensor):
            groups.setdefault(id(leaf), []).append(name)
    return [g for g in groups.values() if len(g) > 1]


def program_facts(
    program: Any, module: Any | None, written: dict[str, list[dict[str, Any]]]
) -> dict[str, Any]:
    """Placeholders, outputs, arguments and returned values of a decomposed ExportedProgram."""
    signature = program.graph_signature
    forward = module.forward if module is not None else None
    arguments = paths.argument_paths(program.call_spec.in_spec, forward, paths.recorded_names(program))
    returns = paths.return_paths(program.call_spec.out_spec)
    nodes = {n.name: n for n in program.graph.nodes}
    leaves = iter(arguments)
    placeholders = []
    for spec in signature.input_specs:
        entry = _placeholder(spec, nodes)
        if entry["kind"] == "user_input":
            path, rank = next(leaves, (entry["node"], None))
            entry.update(path=path, rank=rank)
        entry["sites"] = written.get(entry["node"], [])
        placeholders.append(entry)
    outputs = []
    leaf_paths = iter(returns)
    for spec in signature.output_specs:
        entry = _output(spec, nodes)
        if entry["kind"] == "user_output":
            entry["path"] = next(leaf_paths, None)
        outputs.append(entry)
    return {
        "placeholders": placeholders,
        "outputs": outputs,
        "ops": sites.first_sites(program),
        "histogram": sites.histogram(program),
    }


def _placeholder(spec: Any, nodes: dict[str, Any]) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "node": getattr(spec.arg, "name", None),
        "kind": spec.kind.name.lower(),
        "target": spec.target,
        "persistent": spec.persistent,
        "used": bool(getattr(nodes.get(getattr(spec.arg, "name", "")), "users", None)),
        "dtype": None,
        "shape": None,
        "constant": None,
    }
    value = nodes[entry["node"]].meta.get("val") if entry["node"] in nodes else None
    if hasattr(value, "dtype"):
        entry.update(dtype=dtype_name(value), shape=shape_of(value))
    else:
        # A Python value in the example is baked into the program: no tensor, no port.
        entry["constant"] = repr(getattr(spec.arg, "value", value))
    return entry


def _output(spec: Any, nodes: dict[str, Any]) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "node": getattr(spec.arg, "name", None),
        "kind": spec.kind.name.lower(),
        "target": spec.target,
        "dtype": None,
        "shape": None,
        "constant": None,
    }
    value = nodes[entry["node"]].meta.get("val") if entry["node"] in nodes else None
    if hasattr(value, "dtype"):
        entry.update(dtype=dtype_name(value), shape=shape_of(value))
    else:
        entry["constant"] = repr(getattr(spec.arg, "value", value))
    return entry
