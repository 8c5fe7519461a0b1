"""Programs of single ops, for what no module reaches (see `ops.py`)."""

from __future__ import annotations

import itertools
import pathlib
import zlib
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
from ops import Case

# Element types as programs write them, and as arrays hold them.
ELEMENTS = {
    "f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f64": np.float64, "si8": np.int8, "si16": np.int16,
    "si32": np.int32, "si64": np.int64, "ui8": np.uint8, "ui16": np.uint16, "ui32": np.uint32, "ui64": np.uint64, "i1": np.bool_,
    "complex<f32>": np.complex64, "f8E4M3FN": ml_dtypes.float8_e4m3fn, "f8E5M2": ml_dtypes.float8_e5m2,
    "f8E8M0FNU": ml_dtypes.float8_e8m0fnu,
}  # fmt: skip
FLOATS = ["f32", "f16", "bf16", "f64"]
SIGNED = ["si8", "si16", "si32", "si64"]
UNSIGNED = ["ui8", "ui16", "ui32", "ui64"]
INTS = SIGNED + UNSIGNED
REAL = FLOATS + INTS
SPECIAL = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3e38, 1e-40, 1e-7, 88.8, -88.8, 7.999, 1e4, 65504]


def special(element: str) -> np.ndarray:
    """Values where an element type's arithmetic shows."""
    dtype = ELEMENTS[element]
    if element == "i1":
        return np.array([True, False])
    if element.startswith("complex"):
        return np.array([1 + 2j, -0.5j, 0, 3 - 1j, -2 + 0j, 1e3 + 1e3j], dtype)
    if element in ("si8", "si16", "si32", "si64", "ui8", "ui16", "ui32", "ui64"):
        info = np.iinfo(dtype)
        return np.array([info.min, info.min + 1, info.max, info.max - 1, 0, 1, 2, 3, 7, 100] + ([-1, -2, -7] if info.min else []), dtype)
    with np.errstate(all="ignore"):
        return np.array(SPECIAL, np.float64).astype(dtype)


def pairs(element: str, divide: bool = False) -> list[np.ndarray]:
    e = special(element)
    a, b = np.repeat(e, len(e)), np.tile(e, len(e))
    if divide and element in INTS:
        keep = b != 0
        if element in SIGNED:
            keep &= ~((a == e.min()) & (b == -1))
        a, b = a[keep], b[keep]
    return [a, b]


def data(rng: np.random.Generator, element: str, shape: tuple[int, ...]) -> np.ndarray:
    dtype = ELEMENTS[element]
    if element == "i1":
        return np.asarray(rng.random(shape) > 0.5)
    if element.startswith("complex"):
        return np.asarray(rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(dtype)
    if element in INTS:
        return np.asarray(rng.integers(0 if element in UNSIGNED else -9, 10, shape)).astype(dtype)
    return np.asarray(rng.standard_normal(shape) * 2).astype(dtype)


def element_of(a: np.ndarray) -> str:
    return next(e for e, d in ELEMENTS.items() if np.dtype(d) == a.dtype)


def save(asset: pathlib.Path, types: list[str], body: Callable[..., Any]) -> None:
    from coreai._compiler.context import Context
    from coreai._compiler.dialects import coreai
    from coreai._compiler.ir import InsertionPoint, Location, Module, Type
    from coreai.authoring import AIProgram

    with Context()._mlir_context, Location.unknown():
        module = Module.parse("module {}")
        with InsertionPoint(module.body):
            names = [f"x{i}" for i in range(len(types))]
            graph = coreai.GraphOp(
                "main", input_types=[Type.parse(f"tensor<{t}>") for t in types], result_types=[], input_names=names, result_names=[]
            )
            with graph.block:
                found = body(*graph.arguments)
                coreai.OutputOp(list(found) if not hasattr(found, "type") else [found])
            graph.outputs_spec = [(f"y{i}", v) for i, (_, v) in enumerate(graph.outputs_spec)]
        AIProgram._from_mlir_module(module).save_asset(asset)


def typed(*shape: int, element: str) -> Any:
    from coreai._compiler.ir import Type

    return Type.parse(f"tensor<{''.join(f'{d if d >= 0 else chr(63)}x' for d in shape)}{element}>")


def case(name: str, body: Callable[..., Any], inputs: list[np.ndarray] | Callable[..., Any], types: list[str] | None = None, more: list[Any] | None = None, tolerance: Any = None) -> Case:
    """A program of `body`, applied to values of the inputs' types."""

    def build(asset: pathlib.Path) -> Any:
        rng = np.random.default_rng(zlib.crc32(name.encode()))
        values = inputs(rng) if callable(inputs) else inputs
        declared = types or ["".join(f"{d}x" for d in v.shape) + element_of(v) for v in values]
        save(asset, declared, body)
        return [values, *(more or [])], None

    return Case(f"ir-{name}", build, tolerance)


def u(*values: int) -> np.ndarray:
    return np.array(values, np.uint32)


def cases(seed: int) -> list[Case]:
    """Every case."""
    import coreai.authoring  # noqa: F401 - before the dialects: they import each other
    from coreai._compiler.dialects import coreai as c
    from coreai._compiler.ir import Attribute

    out: list[Case] = []

    def add(*a: Any, **k: Any) -> None:
        out.append(case(*a, **k))

    unary = ["abs_", "acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "erf", "exp", "log", "relu", "round_", "rsqrt", "sigmoid", "silu", "sin", "sinh", "sqrt", "tan", "tanh", "not_"]
    for name in unary:
        for e in ELEMENTS:
            add(f"unary/{name}-{e}", getattr(c, name), [special(e)])
            if e in ("f32", "f16"):
                add(f"unary/{name}-{e}-rank0", getattr(c, name), lambda g, e=e: [data(g, e, ())])

    def many(e: str) -> Callable[..., list[np.ndarray]]:
        return lambda g: [(g.standard_normal(600) * np.exp2(g.integers(-6, 5, 600))).astype(ELEMENTS[e])]

    for name, e in itertools.product(unary, FLOATS):
        add(f"unary/{name}-{e}-many", getattr(c, name), many(e))
    for how in ("none", "tanh", "sigmoid"):
        for e in FLOATS:
            add(f"unary/gelu-{how}-{e}-many", lambda x, how=how: c.gelu(x, approximate=how), many(e))
            add(f"unary/gelu-{how}-{e}", lambda x, how=how: c.gelu(x, approximate=how), [special(e)])
    binary = ["add", "sub", "mul", "divide", "floor_divide", "modulo", "pow", "maximum", "minimum", "bitwise_and", "bitwise_or", "bitwise_xor", "and", "or", "xor", "equal", "not_equal", "greater"]
    for name in binary:
        divide = name in ("divide", "floor_divide", "modulo")
        plain = getattr(c, {"and": "and_", "or": "or_", "xor": "xor_", "pow": "pow_"}.get(name, name))
        wide = getattr(c, f"broadcasting_{name}")
        for e in ELEMENTS:
            add(f"binary/{name}-{e}", plain, pairs(e, divide))
            if e in FLOATS:
                add(f"binary/{name}-{e}-many", plain, lambda g, e=e: [*many(e)(g), *many(e)(g)])
            if e in INTS:
                low = np.array([7, 250, 3, 100, -1, 0]).astype(ELEMENTS[e])
                add(f"binary/{name}-{e}-probe", plain, [low, np.array([2, 3, 5, 3, 1, 2], ELEMENTS[e])])
            add(f"binary/b_{name}-{e}", wide, lambda g, e=e, d=divide: [data(g, e, (2, 1, 3)), data(g, e, (4, 1)) if not d else np.abs(data(g, e, (4, 1))) + np.ones((), ELEMENTS[e])])
            if divide and e in INTS:
                add(f"bounds/{name}-{e}-zero", plain, [np.ones(2, ELEMENTS[e]), np.array([1, 0], ELEMENTS[e])])
    for e in ELEMENTS:
        add(f"where/{e}", c.where, lambda g, e=e: [data(g, "i1", (3, 4)), data(g, e, (3, 4)), data(g, e, (3, 4))])
        add(f"where/b_{e}", c.broadcasting_where, lambda g, e=e: [data(g, "i1", (4,)), data(g, e, (3, 1)), data(g, e, ())])
    for a, b in itertools.product(ELEMENTS, [*ELEMENTS, "si4", "ui4"]):
        if a in INTS:
            info = np.iinfo(ELEMENTS[a])
            probe = np.array([0, 1, info.max, info.min, info.max // 2 + 1, min(255, info.max), min(300, info.max)]).astype(ELEMENTS[a])
            add(f"cast/{a}-{b}-probe", lambda x, b=b: c.CastOp(typed(*x.type.shape, element=b), x).result, [probe])
        elif a in FLOATS:
            add(f"cast/{a}-{b}-many", lambda x, b=b: c.CastOp(typed(*x.type.shape, element=b), x).result, lambda g, a=a: [(g.standard_normal(900) * np.exp2(g.integers(-30, 20, 900))).astype(ELEMENTS[a])])
        add(f"cast/{a}-{b}", lambda x, b=b: c.CastOp(typed(*x.type.shape, element=b), x).result, [special(a)])
    for name in ["reduce_sum", "reduce_mean", "reduce_max", "reduce_min", "reduce_product", "all_", "any_"]:
        f = getattr(c, name)
        for e in ELEMENTS:
            for axes in ([0], [-1], [0, 2], [2, 1, 0], [1]):
                if e not in ("f32", "si32", "i1") and axes != [0, 2]:
                    continue
                add(f"reduce/{name}-{e}-{axes}", lambda x, f=f, a=axes: f(x, a), lambda g, e=e: [data(g, e, (2, 3, 4))])
            add(f"reduce/{name}-{e}-special", lambda x, f=f: f(x, [0]), [np.stack(pairs(e))])
            add(f"reduce/{name}-{e}-dyn", lambda x, f=f: f(x, [0]), lambda g, e=e: [data(g, e, (3, 4))], types=[f"?x4x{e}"])
    for e in ELEMENTS:
        for axis in (0, 1, -1):
            add(f"argmax/{e}-{axis}", lambda x, a=axis: c.argmax(x, np.int32(a)), lambda g, e=e: [data(g, e, (3, 4))])
            for desc in (False, True):
                for stable in (False, True):
                    add(f"sort/{e}-{axis}-{desc}-{stable}", lambda x, a=axis, d=desc, s=stable: c.sort(x, a, d, s), lambda g, e=e: [data(g, e, (5, 6))])
                    add(f"argsort/{e}-{axis}-{desc}-{stable}", lambda x, a=axis, d=desc, s=stable: c.argsort(x, a, d, s), lambda g, e=e: [data(g, e, (5, 6))])
        add(f"sort/{e}-special", lambda x: c.sort(x, 0, False, True), [special(e)])
        add(f"sort/{e}-specialdesc", lambda x: c.sort(x, 0, True, True), [special(e)])
        add(f"argsort/{e}-special", lambda x: c.argsort(x, 0, False, True), [special(e)])
        add(f"argsort/{e}-specialdesc", lambda x: c.argsort(x, 0, True, True), [special(e)])
        add(f"argmax/{e}-special", lambda x: c.argmax(x, np.int32(0)), [special(e)])
        for how, back in itertools.product(("sum", "product", "min", "max"), (False, True)):
            add(f"scan/{e}-{how}-{back}", lambda x, h=how, b=back: c.scan(x, np.uint32(1), b, combiner=h), lambda g, e=e: [data(g, e, (2, 5))])
            add(f"scan/{e}-{how}-{back}-0", lambda x, h=how, b=back: c.scan(x, np.uint32(0), b, combiner=h), lambda g, e=e: [data(g, e, (4, 2, 3))])
            add(f"scan/{e}-{how}-{back}-special", lambda x, h=how, b=back: c.scan(x, np.uint32(0), b, combiner=h), [special(e)])
        add(f"softmax/{e}", lambda x: c.softmax(x, 1), lambda g, e=e: [data(g, e, (3, 4))])
        add(f"softmax/{e}-0", lambda x: c.softmax(x, 0), lambda g, e=e: [data(g, e, (3, 4))])
        add(f"softmax/{e}-special", lambda x: c.softmax(x, 1), [np.stack(pairs(e), 1)])
        for one, two in [((3, 4), (4, 2)), ((2, 3, 4), (2, 4, 2)), ((2, 1, 3, 4), (3, 4, 2))]:
            add(f"matmul/{e}-{len(one)}", c.broadcasting_batch_matmul if len(one) != len(two) else c.batch_matmul, lambda g, e=e, a=one, b=two: [data(g, e, a), data(g, e, b)])
        add(f"matmul/{e}-special", c.batch_matmul, [special(e)[None, :], special(e)[:, None]])
        for mode in ("constant", "reflect", "replicate", "symmetric", "circular"):
            for amounts in ([0, 0, 1, 2], [1, 1, 2, 0], [0, 2, 0, 0], [2, 2, 3, 3]):
                add(f"pad/{e}-{mode}-{amounts}", lambda x, v, m=mode, a=amounts: c.pad(x, np.array(a, np.uint32), v, m), lambda g, e=e: [data(g, e, (3, 4)), data(g, e, ())])
        add(f"layout/concat-{e}", lambda x, y: c.concat(1, [x, y, x]), lambda g, e=e: [data(g, e, (2, 3)), data(g, e, (2, 1))])
        add(f"layout/split-{e}", lambda x: list(c.split(x, np.array([1, 3], np.uint32), np.int32(1))), lambda g, e=e: [data(g, e, (2, 4))])
        add(f"layout/tile-{e}", lambda x: c.tile(x, np.array([2, 3], np.uint32)), lambda g, e=e: [data(g, e, (2, 3))])
        add(f"layout/reverse-{e}", lambda x: c.reverse(x, [0, -1]), lambda g, e=e: [data(g, e, (2, 3, 2))])
        add(f"layout/transpose-{e}", lambda x: c.transpose(x, np.array([2, 0, 1], np.uint32)), lambda g, e=e: [data(g, e, (2, 3, 4))])
        add(f"layout/reshape-{e}", lambda x: c.reshape(x, [4, -1]), lambda g, e=e: [data(g, e, (2, 3, 4))])
        add(f"layout/expand-{e}", lambda x: c.expand_dims(x, [0, -1, 2]), lambda g, e=e: [data(g, e, (2, 3))])
        add(f"layout/shrink-{e}", lambda x: c.shrink_dims(x, [0, -1]), lambda g, e=e: [data(g, e, (1, 3, 1))])
        add(f"layout/broadcast_to-{e}", lambda x: c.broadcast_to(x, [4, 2, 3]), lambda g, e=e: [data(g, e, (2, 1))])
        add(f"layout/broadcast_in-{e}", lambda x: c.broadcast_in_dims(x, np.array([4, 5], np.uint32), np.array([0, 2], np.int32)), lambda g, e=e: [data(g, e, (1, 2, 1))])
        add(f"layout/slice-{e}", lambda x: c.slice_(x, [1, 0], [4, 9], [2, 1]), lambda g, e=e: [data(g, e, (5, 3))])
        add(f"layout/slice-neg-{e}", lambda x: c.slice_(x, [-3, 0], [-1, 2], [1, 1]), lambda g, e=e: [data(g, e, (5, 3))])
        add(f"layout/slice-back-{e}", lambda x: c.slice_(x, [4, 2], [0, 0], [-2, -1]), lambda g, e=e: [data(g, e, (5, 3))])
        add(f"layout/update-{e}", lambda x, u: c.slice_update(x, [1, 0], [3, 2], [1, 1], u), lambda g, e=e: [data(g, e, (5, 3)), data(g, e, (2, 2))])
        add(f"layout/update-step-{e}", lambda x, u: c.slice_update(x, [0, 0], [5, 3], [2, 2], u), lambda g, e=e: [data(g, e, (5, 3)), data(g, e, (3, 2))])
        add(f"layout/update-neg-{e}", lambda x, u: c.slice_update(x, [-2, -2], [5, 3], [1, 1], u), lambda g, e=e: [data(g, e, (5, 3)), data(g, e, (2, 2))])
        add(f"layout/shape-{e}", c.get_shape, lambda g, e=e: [data(g, e, (5, 3))])
        add(f"layout/shape-dyn-{e}", c.get_shape, lambda g, e=e: [data(g, e, (5, 3))], types=[f"?x3x{e}"])
        add(f"gather/nonzero-{e}", c.non_zero, lambda g, e=e: [data(g, e, (3, 4))])
        add(f"gather/nonzero-special-{e}", c.non_zero, [special(e)])
        for kind in ("si32", "ui32", "si64", "si16", "si8", "ui8", "ui16", "ui64"):
            if kind not in ("si32", "ui32") and e != "f32":
                continue
            k = ELEMENTS[kind]
            add(f"gather/nd-{e}-{kind}", c.gather_nd, lambda g, e=e, k=k: [data(g, e, (3, 4)), np.array([[0, 1], [2, 3]], k)])
            add(f"gather/nd1-{e}-{kind}", c.gather_nd, lambda g, e=e, k=k: [data(g, e, (3, 4)), np.array([[[0], [2]]], k)])
            add(f"gather/along-{e}-{kind}", lambda x, i: c.gather_along_axis(x, i, np.int32(1)), lambda g, e=e, k=k: [data(g, e, (2, 4)), np.array([[0, 3, 1], [2, 2, 0]], k)])
            add(f"gather/along-neg-{e}-{kind}", lambda x, i: c.gather_along_axis(x, i, np.int32(-2)), lambda g, e=e, k=k: [data(g, e, (4, 2)), np.array([[0, 3], [2, 2], [1, 0]], k)])
            for mode in ("update", "add", "sub", "mul", "div", "min", "max"):
                if e not in ("f32", "f16", "si32", "ui8", "si8", "bf16", "i1") or (kind != "si32" and mode != "update"):
                    continue
                attr = lambda m=mode: Attribute.parse(f"#coreai.scatter_mode<{m}>")  # noqa: E731
                add(f"scatter/along-{mode}-{e}-{kind}", lambda x, i, u, attr=attr: c.scatter_along_axis(x.type, x, i, u, np.int32(1), attr()), lambda g, e=e, k=k: [data(g, e, (2, 4)), np.array([[0, 3, 0], [2, 2, 0]], k), data(g, e, (2, 3))])
                add(f"scatter/along0-{mode}-{e}-{kind}", lambda x, i, u, attr=attr: c.scatter_along_axis(x.type, x, i, u, np.int32(0), attr()), lambda g, e=e, k=k: [data(g, e, (4, 2)), np.array([[0, 3], [2, 2]], k), data(g, e, (2, 2))])
            add(f"scatter/nd-{e}-{kind}", c.scatter_nd, lambda g, e=e, k=k: [data(g, e, (3, 4)), np.array([[0, 1], [2, 3], [0, 1]], k), data(g, e, (3,))])
            add(f"scatter/nd1-{e}-{kind}", c.scatter_nd, lambda g, e=e, k=k: [data(g, e, (3, 4)), np.array([[0], [2]], k), data(g, e, (2, 4))])
        for kind in ("si8", "si16", "si32", "si64", "ui8"):
            add(f"layout/indices-{e}-{kind}", lambda x, a, b, s: c.slice_(x, a, b, s), lambda g, e=e, k=kind: [data(g, e, (6,)), np.array([1], ELEMENTS[k]), np.array([5], ELEMENTS[k]), np.array([2], ELEMENTS[k])])
        for start, stop, step in [(0, 5, 1), (1, 9, 3), (5, 0, -2), (0, 0, 1), (3, 1, 1), (0, 1, 0.1), (0.5, 3, 0.5)]:
            if e in REAL and (step > 0 or e not in UNSIGNED) and (isinstance(step, int) or e in FLOATS):
                add(f"range/{e}-{start}-{stop}-{step}", c.range_, [np.array(v, ELEMENTS[e]) for v in (start, stop, step)])
                add(f"range/const-{e}-{start}-{stop}-{step}", lambda x, v=(start, stop, step), e=e: (c.range_(*[np.array(a, ELEMENTS[e]) for a in v]), x), [np.ones(1, np.float32)])
        for n in (2, 3):
            conv, back = getattr(c, f"conv{n}d"), getattr(c, f"conv_transpose{n}d")
            pool, sums = getattr(c, f"maxpool{n}d"), getattr(c, f"sumpool{n}d")
            for i, (stride, dilation, groups) in enumerate([(1, 1, 1), (2, 1, 1), (1, 2, 2), (2, 2, 4)]):
                add(f"conv/{n}d-{e}-{i}", lambda x, w, f=conv, s=stride, d=dilation, g=groups, n=n: f(x, w, [s] * n, [d] * n, g), lambda g, e=e, n=n, gr=groups: [data(g, e, (1, 4, *[5] * n)), data(g, e, (4, 4 // gr, *[2] * n))])
                for p, o in ((0, 0), (1, 0), (1, 1)):
                    add(f"convt/{n}d-{e}-{i}-{p}-{o}", lambda x, w, f=back, s=stride, d=dilation, g=groups, n=n, p=p, o=o: f(x, w, u(*[s] * n), u(*[p] * n), u(*[d] * n), u(*[o] * n), np.uint32(g)), lambda g, e=e, n=n, gr=groups: [data(g, e, (1, 4, *[3] * n)), data(g, e, (4, 2, *[2] * n))])
            for k, s, d, ceil in [(2, 2, 1, False), (2, 2, 1, True), (3, 2, 1, True), (2, 1, 2, False), (3, 3, 1, True), (2, 3, 1, True)]:
                size = lambda m, k=k, s=s, d=d, ceil=ceil: int((np.ceil if ceil else np.floor)((m - d * (k - 1) - 1) / s)) + 1  # noqa: E731
                add(f"pool/max{n}-{e}-{k}-{s}-{d}-{ceil}", lambda x, f=pool, k=k, s=s, d=d, ceil=ceil, n=n, size=size, e=e: f(typed(1, 2, *[size(5)] * n, element=e), x, u(*[k] * n), u(*[s] * n), u(*[d] * n), ceil), lambda g, e=e, n=n: [data(g, e, (1, 2, *[5] * n))])
                if not ceil:
                    add(f"pool/sum{n}-{e}-{k}-{s}-{d}", lambda x, f=sums, k=k, s=s, d=d, n=n: f(x, u(*[k] * n), u(*[s] * n), c.constant(u(*[d] * n))), lambda g, e=e, n=n: [data(g, e, (1, 2, *[5] * n))])
        for mode in ("linear", "nearest_neighbor"):
            attr2 = lambda m=mode: Attribute.parse(f"#coreai.interpolation_mode<{m}>")  # noqa: E731
            for i, (shape, scale, offset) in enumerate([((1, 2, 6, 8), (1, 1, 2, 2), (0, 0, 0, 0)), ((1, 2, 3, 3), (1, 1, 1, 0.75), (0, 0, 0, 0)), ((1, 2, 7, 5), (1, 1, 7 / 3, 5 / 4), (0, 0, 0.1, -0.3)), ((1, 2, 2, 2), (1, 1, 0.5, 0.5), (0, 0, 0.5, 0.5)), ((2, 4, 3, 4), (2, 2, 1, 1), (0, 0, 0, 0)), ((1, 2, 9, 4), (1, 1, 3, 1), (0, 0, -1, 0)), ((1, 2, 3, 4), (1, 1, 1, 1), (0, 0, 0, 0))]):
                add(f"interp/{mode}-{e}-{i}", lambda x, s=shape, sc=scale, o=offset, a=attr2: c.interpolate(x, list(s), [float(v) for v in sc], [float(v) for v in o], interpolation_mode=a()), lambda g, e=e: [data(g, e, (1, 2, 3, 4))])
                if e in FLOATS or (e in INTS and mode != "linear"):
                    add(f"interp/{mode}-{e}-{i}-special", lambda x, s=shape, sc=scale, o=offset, a=attr2: c.interpolate(x, list(s), [float(v) for v in sc], [float(v) for v in o], interpolation_mode=a()), lambda g, e=e: [g.permutation(np.append(special(e)[:6], data(g, e, (18,)))).reshape(1, 2, 3, 4).astype(ELEMENTS[e])])
            for k in (1, 2, 3):
                add(f"interp/coords-{mode}-{e}-{k}", lambda x, p, a=attr2: c.interpolate_coordinates(x, p, a()), lambda g, e=e, k=k: [data(g, e, (4,) * k), (g.random((9, k)) * 6 - 1.5).astype(np.float32)])
            add(f"interp/coords-half-{mode}-{e}", lambda x, p, a=attr2: c.interpolate_coordinates(x, p, a()), lambda g, e=e: [data(g, e, (4,)), np.array([[0.5], [1.5], [2.5], [-0.5], [3.5], [3.0]], np.float32)])
        for rt in ("si8", "ui8", "si16", "si32"):
            for rng_ in ([-8, 7], [-128, 127], [0, 255], [-7, 7]):
                if (rt == "ui8") != (rng_[0] == 0) and not (rng_[0] == 0 and rt in ("si16", "si32")):
                    continue
                for axis in (0, 1):
                    if e not in FLOATS:
                        continue
                    r = np.array(rng_, ELEMENTS[rt]) if max(rng_) <= np.iinfo(ELEMENTS[rt]).max else None
                    if r is None:
                        continue
                    add(f"stats/sym-{e}-{rt}-{rng_}-{axis}", lambda x, r=r, a=axis: c.symmetric_quant_stats(x, r, np.int32(a)), lambda g, e=e: [data(g, e, (2, 6))])
                    add(f"stats/asym-{e}-{rt}-{rng_}-{axis}", lambda x, r=r, a=axis: c.asymmetric_quant_stats(x, r, np.int32(a)), lambda g, e=e: [data(g, e, (2, 6))])
        for qt in ("si8", "ui8", "si16", "si32", "f8E4M3FN", "f8E5M2"):
            if e not in FLOATS:
                continue
            for per in (0, 1):
                sizes = lambda g, e=e, per=per: (np.abs(data(g, e, (3,) if per else ())).astype(np.float64) * 0.1 + 0.05).astype(ELEMENTS[e])  # noqa: E731
                zp = lambda g, qt=qt, per=per: data(g, qt, (3,) if per else ())  # noqa: E731
                mv = lambda g, e=e, per=per: data(g, e, (3,) if per else ())  # noqa: E731
                add(f"quant/q-{e}-{qt}-{per}", lambda x, s, z, m: c.quantize(x, s, z, m, np.int32(1)), lambda g, e=e, s=sizes, z=zp, m=mv: [data(g, e, (4, 3)), s(g), z(g), m(g)])
                add(f"quant/dq-{e}-{qt}-{per}", lambda x, s, z, m: c.dequantize(x, s, z, m, np.int32(1)), lambda g, e=e, s=sizes, z=zp, m=mv, qt=qt: [data(g, qt, (4, 3)), s(g), z(g), m(g)])
                add(f"quant/q-{e}-{qt}-{per}-special", lambda x, s, z, m: c.quantize(x, s, z, m, np.int32(1)), lambda g, e=e, s=sizes, z=zp, m=mv: [np.stack([special(e)] * 3, 1), s(g), z(g), m(g)])
            add(f"quant/block-{e}-{qt}", c.blockwise_shift_scale, lambda g, e=e, qt=qt: [data(g, qt, (4, 6)), data(g, e, (2, 3)), data(g, qt, (2, 3)), data(g, e, (2, 3))])
            add(f"quant/block1-{e}-{qt}", c.blockwise_shift_scale, lambda g, e=e, qt=qt: [data(g, qt, (4, 6)), data(g, e, (1, 1)), data(g, qt, (1, 1)), data(g, e, (1, 1))])
        add(f"complex/parts-{e}", lambda x: (c.real_part(x), c.imaginary_part(x)), lambda g, e=e: [data(g, e, (2, 3))])
        add(f"complex/create-{e}", lambda x, y: c.create_complex(x, y), lambda g, e=e: [data(g, e, (2, 3)), data(g, e, (2, 3))])
        add(f"complex/back-{e}", lambda x, y: c.abs_(c.create_complex(x, y)), lambda g, e=e: [data(g, e, (2, 3)), data(g, e, (2, 3))])
    for one, two in [((2, 3), (3,)), ((1,), (4, 1)), ((), (2,))]:
        add(f"layout/shapes-{one}-{two}", lambda x, y: c.broadcast_shapes(c.get_shape(x), c.get_shape(y)), lambda g, a=one, b=two: [data(g, "f32", a), data(g, "f32", b)])
    for places in ([[5]], [[-3]], [[-4]]):
        add(f"bounds/gather_nd-{places}", c.gather_nd, [np.arange(3, dtype=np.float32), np.array(places, np.int32)])
    for value in (3, -3, -4, 99):
        add(f"bounds/along-{value}", lambda x, i: c.gather_along_axis(x, i, np.int32(0)), [np.arange(3, dtype=np.float32), np.array([0, value], np.int32)])
    # Values of a type whose extents are not declared, against every attribute given as a value.
    for target in ([3, 4], [12], [-1], [2, -1], [2, 6], [5, 2]):
        add(f"bounds/reshape-{target}", c.reshape, [np.arange(12, dtype=np.float32), np.array(target, np.int32)])
    names = [k.name for k in out]
    assert len(set(names)) == len(names), [n for n in names if names.count(n) > 1][:5]
    return out
