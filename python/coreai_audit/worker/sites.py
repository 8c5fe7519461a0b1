"""Where in the user's code an argument or buffer is written in place.

Read off the program as exported, before decomposition: there the in-place ops still stand, each with
its stack trace. Decomposition turns them into functional ops.
"""

from __future__ import annotations

import re
from typing import Any

# Ops that take an integer operand to the floating type of the other.
_PROMOTING = {"add", "sub", "mul", "div"}
# Ops that return a view of their first argument: a write through one reaches the original.
_VIEWS = {
    "alias", "as_strided", "chunk", "detach", "diagonal", "expand", "narrow", "permute", "real",
    "select", "slice", "split", "split_with_sizes", "squeeze", "swapaxes", "t", "transpose",
    "unbind", "unflatten", "unfold", "unsqueeze", "view", "view_as", "view_as_real", "movedim",
    "reshape", "flatten", "contiguous", "to",
}  # fmt: skip
# Ops that draw random numbers whatever their arguments.
_RANDOM = {
    "bernoulli", "bernoulli_", "exponential_", "multinomial", "normal", "normal_", "poisson", "rand",
    "rand_like", "randint", "randint_like", "randn", "randn_like", "randperm", "uniform_",
}  # fmt: skip
_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<function>\S+)\n\s*(?P<code>[^\n]*)')


def mutation_sites(program: Any) -> dict[str, list[dict[str, Any]]]:
    """Placeholder name → the in-place ops that reach it, in program order."""
    sites: dict[str, list[dict[str, Any]]] = {}
    for node in program.graph.nodes:
        if node.op != "call_function":
            continue
        for argument in _written(node):
            origin = _origin(argument)
            if origin is not None:
                sites.setdefault(origin, []).append({**_site(node), **_value(node)})
    return sites


def by_qualified_name(program: Any, written: dict[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """The sites under the names that users know: qualified names of buffers and parameters."""
    signature = program.graph_signature
    names = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
    return [
        {
            "name": names.get(node, node),
            "sites": [{**site, "value_origin": _named(names, site.get("value_origin"))} for site in found],
        }
        for node, found in written.items()
    ]


def _named(names: dict[str, str], node: str | None) -> str | None:
    return None if node is None else names.get(node, node)


def _value(node: Any) -> dict[str, Any]:
    """What a ``copy_`` writes: its node, its shape, and the placeholder it is a view of, if it is one."""
    if node.target._schema.name != "aten::copy_" or len(node.args) < 2:
        return {}
    written = node.args[1]
    if not hasattr(written, "meta"):
        return {}
    shape = getattr(written.meta.get("val"), "shape", None)
    return {
        "value": written.name,
        "value_origin": _origin(written),
        "value_shape": None if shape is None else [d if type(d) is int else None for d in shape],
    }


def first_sites(program: Any) -> dict[str, dict[str, Any]]:
    """ATen op (``aten.remainder.Scalar``) → where the user's code first needs it."""
    found: dict[str, dict[str, Any]] = {}
    for node in program.graph.nodes:
        if node.op == "call_function" and hasattr(node.target, "_schema"):
            name = str(node.target)
            if name not in found:
                found[name] = _site(node)
    return found


def cast_pairs(program: Any) -> list[dict[str, Any]]:
    """Values that go from a floating type through an integer one back to a floating type.

    The converter drops both casts, and with them the truncation.
    """
    pairs = []
    for node in program.graph.nodes:
        for source, before, after in _back(node):
            while source.op == "call_function" and _base(source) in _VIEWS and _cast(source) is None:
                source = source.args[0]
            there = _cast(source)
            if there is None or not (there[0].is_floating_point and not there[1].is_floating_point):
                continue
            names = [str(d).removeprefix("torch.") for d in (there[0], before, after)]
            pairs.append({"from": names[0], "via": names[1], "to": names[2], "site": _site(node)})
    return pairs


def _back(node: Any) -> list[tuple[Any, Any, Any]]:
    """Integers a node takes to a floating type, by a cast or by promotion: the operand, and both dtypes."""
    back = _cast(node)
    if back is not None:
        becomes_float = back[1].is_floating_point and not back[0].is_floating_point
        return [(node.args[0], *back)] if becomes_float else []
    to = getattr(node.meta.get("val"), "dtype", None)
    if node.op != "call_function" or _base(node).rstrip("_") not in _PROMOTING:
        return []
    if to is None or not to.is_floating_point:
        return []
    operands = [a for a in node.args[:2] if hasattr(a, "meta")]
    dtypes = [getattr(a.meta.get("val"), "dtype", None) for a in operands]
    return [
        (a, d, to) for a, d in zip(operands, dtypes, strict=True) if d is not None and not d.is_floating_point
    ]


def random_ops(program: Any) -> list[dict[str, Any]]:
    """Ops that draw random numbers, dropout among them where it is not switched off."""
    found = []
    for node in program.graph.nodes:
        base = _base(node)
        if not base:
            continue
        what = base if base in _RANDOM else None
        given = {a.name: v for a, v in zip(node.target._schema.arguments, node.args, strict=False)}
        given.update(node.kwargs)
        probability = given.get("dropout_p", given.get("p"))
        if "dropout" in base or "dropout_p" in given:
            switched_on = given.get("train", given.get("training", True)) is not False
            if switched_on and isinstance(probability, (int, float)) and probability > 0:
                name = "dropout_p" if "dropout_p" in given else "p"
                what = f"{base}, {name} {probability}"
        if what is not None:
            found.append({"what": what, "site": _site(node)})
    return found


def _cast(node: Any) -> tuple[Any, Any] | None:
    """The dtypes before and after an op that changes nothing else."""
    if node.op != "call_function" or not node.args or not hasattr(node.args[0], "meta"):
        return None
    if _base(node) not in ("to", "_to_copy", "type_as"):
        return None
    before = getattr(node.args[0].meta.get("val"), "dtype", None)
    after = getattr(node.meta.get("val"), "dtype", None)
    return None if before is None or after is None or before == after else (before, after)


def _base(node: Any) -> str:
    schema = getattr(node.target, "_schema", None)
    return "" if schema is None else str(schema.name.partition("::")[2])


def histogram(program: Any) -> dict[str, int]:
    """ATen op (``aten.add.Tensor``) → how often the program calls it."""
    counts: dict[str, int] = {}
    for node in program.graph.nodes:
        if node.op == "call_function" and hasattr(node.target, "_schema"):
            counts[str(node.target)] = counts.get(str(node.target), 0) + 1
    return counts


def _written(node: Any) -> list[Any]:
    schema = getattr(node.target, "_schema", None)
    if schema is None or not schema.is_mutable:
        return []
    written = []
    for position, argument in enumerate(schema.arguments):
        if argument.alias_info is None or not argument.alias_info.is_write:
            continue
        if argument.name in node.kwargs:
            written.append(node.kwargs[argument.name])
        elif position < len(node.args):
            written.append(node.args[position])
    return [w for w in written if hasattr(w, "op")]


def _origin(node: Any) -> str | None:
    """The placeholder (or lifted attribute) behind a chain of views and in-place ops."""
    for _ in range(1000):
        if node.op in ("placeholder", "get_attr"):
            return str(node.name)
        if node.op != "call_function":
            return None
        if str(node.target) == "<built-in function getitem>":
            node = node.args[0]
            continue
        schema = getattr(node.target, "_schema", None)
        if schema is None or not node.args or not hasattr(node.args[0], "op"):
            return None
        base = schema.name.partition("::")[2]
        if base not in _VIEWS and not schema.is_mutable:
            return None
        node = node.args[0]
    return None


def _site(node: Any) -> dict[str, Any]:
    schema = node.target._schema
    site: dict[str, Any] = {"op": schema.name.partition("::")[2], "file": None, "line": None, "code": None}
    frames = list(_FRAME.finditer(node.meta.get("stack_trace") or ""))
    own = [f for f in frames if "site-packages" not in f["file"]] or frames
    if own:
        site.update(
            file=own[-1]["file"],
            line=int(own[-1]["line"]),
            code=own[-1]["code"].strip(),
        )
    stack = node.meta.get("nn_module_stack") or {}
    if stack:
        path, cls = list(stack.values())[-1]
        site["module"] = path.removeprefix("L['self'].")
        site["class"] = cls if isinstance(cls, str) else f"{cls.__module__}.{cls.__qualname__}"
    return site
