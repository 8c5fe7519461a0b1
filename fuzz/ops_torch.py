"""Modules for every operator the converter lowers (see `ops.py`)."""

from __future__ import annotations

import itertools
import pathlib
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from ops import Case
from torch import nn

torch.set_num_threads(1)

FLOATS = [torch.float32, torch.float16, torch.bfloat16]
INTS = [torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8]
NAMES = {
    torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16", torch.float64: "f64", torch.int8: "i8",
    torch.int16: "i16", torch.int32: "i32", torch.int64: "i64", torch.uint8: "u8", torch.bool: "bool",
    torch.complex64: "c64",
}  # fmt: skip
EDGE = [float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, -1.5, 2.5, 3e38, -3e38, 1e-40,
        1e-7, 88.8, -88.8, 104.0, 65504.0, 7.999, 1e4]  # fmt: skip


class Of(nn.Module):
    """A function as a module."""

    def __init__(self, f: Callable[..., Any]):
        super().__init__()
        self.f = f

    def forward(self, *args: torch.Tensor) -> Any:
        return self.f(*args)


class Without(nn.Module):
    """A module without the arguments that are None: the converter knows only tensors."""

    def __init__(self, inner: nn.Module, args: tuple[Any, ...]):
        super().__init__()
        self.inner = inner
        self.given = [a is not None for a in args]

    def forward(self, *args: torch.Tensor) -> Any:
        rest = iter(args)
        return self.inner(*[next(rest) if given else None for given in self.given])


def without(model: nn.Module, args: tuple[Any, ...]) -> tuple[nn.Module, tuple[Any, ...]]:
    if all(a is not None for a in args):
        return model, args
    return Without(model, args), tuple(a for a in args if a is not None)


def numpy(t: torch.Tensor, narrow: bool) -> np.ndarray:
    """The values as the asset takes or gives them."""
    t = t.detach().contiguous().cpu()
    if narrow:
        if t.dtype == torch.int64:
            t = t.clamp(-(2**31), 2**31 - 1).to(torch.int32)
        if t.dtype == torch.float64:
            t = t.to(torch.float32)
    if t.dtype == torch.bfloat16:
        import ml_dtypes

        return np.asarray(t.view(torch.uint16).numpy().view(ml_dtypes.bfloat16))
    if t.dtype in (torch.float8_e4m3fn, torch.float8_e5m2):
        import ml_dtypes

        kind = ml_dtypes.float8_e4m3fn if t.dtype == torch.float8_e4m3fn else ml_dtypes.float8_e5m2
        return np.asarray(t.view(torch.uint8).numpy().view(kind))
    return np.asarray(t.numpy().copy())


def convert(model: nn.Module, args: tuple[Any, ...], asset: pathlib.Path, **options: Any) -> None:
    import coreai_torch

    program = torch.export.export(model, args=args, **options)
    program = program.run_decompositions(coreai_torch.get_decomp_table())
    converter = coreai_torch.TorchConverter(mode=coreai_torch.TorchConverter.Mode.RELEASE)
    converter.add_exported_program(program).to_coreai().save_asset(asset)


def case(
    name: str,
    make: Callable[..., Any],
    args: Callable[..., Any] | tuple[Any, ...],
    *,
    module: bool = False,
    more: tuple[Any, ...] = (),
    tolerance: tuple[float, float] | None = None,
    seed: int = 0,
    **options: Any,
) -> Case:
    """A case of a function of tensors, or (`module`) of what makes a module."""

    def build(asset: pathlib.Path) -> Any:
        number = zlib.crc32(name.encode()) + seed
        torch.manual_seed(number)
        generator = torch.Generator().manual_seed(number)
        model = make() if module else Of(make)
        model.eval()
        model, given = without(model, args(generator) if callable(args) else args)
        calls = [given, *[m(generator) if callable(m) else m for m in more]]
        flat = [torch.utils._pytree.tree_leaves(c) for c in calls]
        values = [[numpy(t, True) for t in c if isinstance(t, torch.Tensor)] for c in flat]
        reference: list[list[np.ndarray]] = []
        refused = False
        with torch.no_grad():
            for call in calls:
                try:
                    out = model(*torch.utils._pytree.tree_map(clone, call))
                except Exception:
                    # Some dtypes exist for export alone.
                    refused = True
                    break
                leaves = [t for t in torch.utils._pytree.tree_leaves(out) if isinstance(t, torch.Tensor)]
                reference.append([numpy(t, False) for t in leaves])
        convert(model, given, asset, **options)
        return values, None if refused else reference

    return Case(f"torch/{name}" if "/" not in name else name, build, tolerance)


def clone(t: Any) -> Any:
    return t.clone() if isinstance(t, torch.Tensor) else t


def normal(*shape: int, dtype: torch.dtype = torch.float32, scale: float = 1.0) -> Callable[..., Any]:
    return lambda g: (data(shape, dtype, g, scale),)


def data(shape: tuple[int, ...], dtype: torch.dtype, g: torch.Generator, scale: float = 1.0) -> torch.Tensor:
    if dtype == torch.bool:
        return torch.rand(shape, generator=g) > 0.5
    if dtype.is_complex:
        return torch.complex(torch.randn(shape, generator=g), torch.randn(shape, generator=g)).to(dtype)
    if dtype.is_floating_point:
        return (torch.randn(shape, generator=g) * scale).to(dtype)
    low = 0 if dtype == torch.uint8 else -int(9 * scale)
    return torch.randint(low, int(9 * scale) + 1, shape, generator=g).to(dtype)


def edge(dtype: torch.dtype) -> torch.Tensor:
    if dtype == torch.bool:
        return torch.tensor([True, False])
    if dtype.is_floating_point:
        return torch.tensor(EDGE).to(dtype)
    low, high = torch.iinfo(dtype).min, torch.iinfo(dtype).max
    if dtype == torch.int64:
        low, high = -(2**31), 2**31 - 1
    return torch.tensor([low, low + 1, -1 if low else 1, 0, 1, 2, 7, high - 1, high], dtype=dtype)


def pairs(dtype: torch.dtype, divisor: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
    """Every edge value with every other."""
    e = edge(dtype)
    a, b = e.repeat_interleave(len(e)), e.repeat(len(e))
    if divisor and not dtype.is_floating_point and dtype != torch.bool:
        keep = (b != 0) & ~((a == e.min()) & (b == -1))
        a, b = a[keep], b[keep]
    return a, b


SHAPES = [(), (1,), (5,), (2, 3), (1, 4, 1), (2, 1, 3, 2), (1, 2, 1, 2, 3)]


def elementwise() -> list[Case]:
    unary = {
        n: getattr(torch, n)
        for n in ["abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "ceil", "cos", "cosh", "erf", "exp", "exp2", "expm1", "floor", "log", "log10", "log1p", "log2", "neg", "reciprocal", "round", "rsqrt", "sigmoid", "sign", "sin", "sinh", "sqrt", "tan", "tanh", "trunc", "relu", "isinf", "isnan", "isfinite", "logical_not", "square", "erfc", "frac", "positive", "signbit", "nan_to_num", "deg2rad", "rad2deg", "logit", "sgn", "angle", "sinc", "digamma", "lgamma", "erfinv", "i0", "bitwise_not"]
    }  # fmt: skip
    unary.update({
        n: getattr(F, n)
        for n in ["silu", "gelu", "hardsigmoid", "hardswish", "hardtanh", "leaky_relu", "elu", "selu", "celu", "mish", "softplus", "softsign", "relu6", "hardshrink", "softshrink", "tanhshrink", "logsigmoid"]
    })  # fmt: skip
    unary.update(
        gelu_tanh=lambda x: F.gelu(x, approximate="tanh"),
        leaky2=lambda x: F.leaky_relu(x, 0.2),
        hardtanh2=lambda x: F.hardtanh(x, -2.0, 0.5),
        elu2=lambda x: F.elu(x, 0.5),
        threshold=lambda x: F.threshold(x, 0.1, 20.0),
        softplus2=lambda x: F.softplus(x, 2.0, 5.0),
        clamp=lambda x: torch.clamp(x, -1, 2),
        clamp_min=lambda x: torch.clamp(x, min=0),
        clamp_max=lambda x: torch.clamp(x, max=1),
        clamp_swapped=lambda x: torch.clamp(x, 2, -1),
        clampf=lambda x: torch.clamp(x, -0.5, 1.7),
        round2=lambda x: torch.round(x, decimals=2),
        roundm1=lambda x: torch.round(x, decimals=-1),
        pow2=lambda x: x**2,
        pow3=lambda x: x**3,
        pow05=lambda x: x**0.5,
        powm1=lambda x: x**-1.0,
        pow25=lambda x: x**2.5,
        pow0=lambda x: x**0,
        rpow=lambda x: 2**x,
        rpowf=lambda x: 1.5**x,
        addc=lambda x: x + 3,
        addf=lambda x: x + 2.5,
        subc=lambda x: x - 3,
        rsub=lambda x: 3 - x,
        rsub_alpha=lambda x: torch.rsub(x, 5, alpha=2),
        mulc=lambda x: x * 3,
        mulf=lambda x: x * 0.3,
        divc=lambda x: x / 3,
        rdiv=lambda x: 3 / x,
        divfloor=lambda x: torch.div(x, 3, rounding_mode="floor"),
        divtrunc=lambda x: torch.div(x, 3, rounding_mode="trunc"),
        divtruncf=lambda x: torch.div(x, -2.5, rounding_mode="trunc"),
        floordiv=lambda x: x // 3,
        floordivn=lambda x: x // -3,
        remainder=lambda x: x % 3,
        remaindern=lambda x: x % -3,
        remainderf=lambda x: torch.remainder(x, 2.5),
        fmod=lambda x: torch.fmod(x, 3),
        fmodn=lambda x: torch.fmod(x, -2.5),
        eqs=lambda x: x == 1,
        nes=lambda x: x != 1,
        gts=lambda x: x > 1,
        ges=lambda x: x >= 1,
        lts=lambda x: x < 0.5,
        les=lambda x: x <= 1,
        ands=lambda x: x & 3,
        ors=lambda x: x | 3,
        xors=lambda x: x ^ 3,
        shl=lambda x: x << 1,
        shr=lambda x: x >> 1,
        glu=lambda x: F.glu(torch.stack([x, x * 2], 0), 0),
        where0=lambda x: torch.where(x > 0, x, 0),
        masked_fill=lambda x: x.masked_fill(x > 0, 1),
        full_like=lambda x: torch.full_like(x, 2),
        zeros_like=lambda x: torch.zeros_like(x) + x,
        ones_like=lambda x: torch.ones_like(x) * x,
        fillinf=lambda x: x.masked_fill(x > 0, float("-inf")),
        heaviside=lambda x: torch.heaviside(x, x),
    )
    out = []
    for name, f in unary.items():
        for dtype in [*FLOATS, *INTS, torch.bool]:
            out.append(case(f"unary/{name}-{NAMES[dtype]}-edge", f, (edge(dtype),)))
        out.append(case(f"unary/{name}-rank0", f, normal()))
        out.append(case(f"unary/{name}-3d", f, normal(2, 3, 4)))
        if name in ("exp", "relu", "silu", "round", "clamp", "floordiv"):
            for i, s in enumerate(SHAPES):
                out.append(case(f"unary/{name}-shape{i}", f, normal(*s, dtype=torch.float16)))
    binary = {
        n: getattr(torch, n)
        for n in ["add", "sub", "mul", "div", "maximum", "minimum", "pow", "fmod", "remainder", "floor_divide", "atan2", "eq", "ne", "gt", "ge", "lt", "le", "logical_and", "logical_or", "logical_xor", "bitwise_and", "bitwise_or", "bitwise_xor", "fmax", "fmin", "hypot", "copysign", "logaddexp", "logaddexp2", "xlogy", "true_divide", "gcd", "ldexp", "nextafter", "bitwise_left_shift", "bitwise_right_shift"]
    }  # fmt: skip
    binary.update(
        add_alpha=lambda x, y: torch.add(x, y, alpha=2),
        sub_alpha=lambda x, y: torch.sub(x, y, alpha=3),
        divfloor=lambda x, y: torch.div(x, y, rounding_mode="floor"),
        divtrunc=lambda x, y: torch.div(x, y, rounding_mode="trunc"),
        where=lambda x, y: torch.where(x > y, x, y),
        clampt=lambda x, y: torch.clamp(x, y, y + 1),
        clamptmin=lambda x, y: torch.clamp(x, min=y),
        lerp=lambda x, y: torch.lerp(x, y, 0.3),
        isclose=torch.isclose,
        addcmul=lambda x, y: torch.addcmul(x, y, y, value=0.5),
        addcdiv=lambda x, y: torch.addcdiv(x, y, y, value=0.5),
        dist=lambda x, y: ((x - y) ** 2).sum().sqrt(),
        prelu=lambda x, y: F.prelu(x, torch.tensor([0.3], dtype=x.dtype)),
        mse=F.mse_loss,
        l1=F.l1_loss,
    )
    dividing = {"floor_divide", "divfloor", "divtrunc", "fmod", "remainder"}
    for name, f in binary.items():
        for dtype in [*FLOATS, *INTS, torch.bool]:
            out.append(case(f"binary/{name}-{NAMES[dtype]}-edge", f, pairs(dtype, name in dividing)))
        for i, (a, b) in enumerate([((), ()), ((3,), ()), ((), (2, 3)), ((2, 1, 3), (4, 1)), ((1,), (2, 2)), ((2, 3, 1, 2), (3, 2, 1))]):
            out.append(case(f"binary/{name}-broadcast{i}", f, lambda g, a=a, b=b: (data(a, torch.float32, g), data(b, torch.float32, g))))
        for d, e in [(torch.float32, torch.int32), (torch.int8, torch.int32), (torch.uint8, torch.int8), (torch.float16, torch.float32),
                     (torch.bool, torch.int32), (torch.bool, torch.float32), (torch.float16, torch.bfloat16), (torch.int32, torch.float16),
                     (torch.int64, torch.int32), (torch.int16, torch.uint8)]:  # fmt: skip
            divisor = 1 if name in dividing else 0
            out.append(
                case(
                    f"promote/{name}-{NAMES[d]}-{NAMES[e]}",
                    f,
                    lambda g, d=d, e=e, divisor=divisor: (
                        data((4, 3), d, g),
                        data((4, 3), e, g) if not divisor else data((4, 3), e, g).abs() + torch.ones(1, dtype=e),
                    ),
                )
            )
    kinds = [*FLOATS, *INTS, torch.bool, torch.float64]
    for a, b in itertools.product(kinds, kinds):
        if a != torch.float64:
            out.append(case(f"cast/{NAMES[a]}-{NAMES[b]}", lambda x, b=b: x.to(b), (edge(a),)))
            out.append(case(f"cast/{NAMES[a]}-{NAMES[b]}-back", lambda x, a=a, b=b: (x.to(b) + torch.ones((), dtype=b)).to(a), (edge(a),)))
    return out


def reductions() -> list[Case]:
    out = []
    many = {
        "sum": torch.sum, "mean": torch.mean, "amax": torch.amax, "amin": torch.amin, "any": torch.any, "all": torch.all,
        "logsumexp": torch.logsumexp, "var": torch.var, "std": torch.std, "nansum": torch.nansum,
        "count_nonzero": None, "norm": torch.linalg.vector_norm,
    }  # fmt: skip
    for name, f in many.items():
        for dtype in [*FLOATS, *INTS, torch.bool]:
            for axes, keep in [((0,), False), ((-1,), True), ((0, 2), False), ((1, -1), True), ((0, 1, 2), False)]:
                if f is None:
                    if not keep:
                        out.append(case(f"reduce/{name}-{NAMES[dtype]}-{axes}", lambda x, a=axes: torch.count_nonzero(x, a), normal(2, 3, 4, dtype=dtype)))
                    continue
                call = lambda x, f=f, a=axes, k=keep: f(x, dim=a, keepdim=k)  # noqa: E731
                if dtype in (torch.int8, torch.int64, torch.bfloat16, torch.int16) and axes != (0, 2):
                    continue
                out.append(case(f"reduce/{name}-{NAMES[dtype]}-{axes}-{keep}", call, normal(2, 3, 4, dtype=dtype)))
            if f:
                out.append(case(f"reduce/{name}-{NAMES[dtype]}-edge", lambda x, f=f: f(x, dim=-1, keepdim=True) if f is not torch.linalg.vector_norm else f(x, 2.0, -1, True), (edge(dtype),)))
                pairs_of = torch.stack(pairs(dtype), 1)
                out.append(case(f"reduce/{name}-{NAMES[dtype]}-pairs", lambda x, f=f: f(x, dim=-1), (pairs_of,)))
        if f and name not in ("amax", "amin", "logsumexp", "norm"):
            out.append(case(f"reduce/{name}-all", lambda x, f=f: f(x), normal(3, 4)))
            out.append(case(f"reduce/{name}-rank0", lambda x, f=f: f(x), normal()))
    one = {
        "prod": torch.prod, "max": lambda x, d, k: tuple(torch.max(x, d, k)), "min": lambda x, d, k: tuple(torch.min(x, d, k)),
        "argmax": torch.argmax, "argmin": torch.argmin, "cumsum": lambda x, d, k: torch.cumsum(x, d),
        "cumprod": lambda x, d, k: torch.cumprod(x, d), "cummax": lambda x, d, k: tuple(torch.cummax(x, d)),
        "logcumsumexp": lambda x, d, k: torch.logcumsumexp(x, d), "softmax": lambda x, d, k: F.softmax(x, d),
        "log_softmax": lambda x, d, k: F.log_softmax(x, d), "softmin": lambda x, d, k: F.softmin(x, d),
        "median": lambda x, d, k: torch.median(x, d, k).values, "sort": lambda x, d, k: tuple(torch.sort(x, d, descending=k)),
        "sortstable": lambda x, d, k: tuple(torch.sort(x, dim=d, descending=k, stable=True)),
        "argsort": lambda x, d, k: torch.argsort(x, d, descending=k), "topk": lambda x, d, k: tuple(torch.topk(x, 2, d, largest=k)),
        "topk1": lambda x, d, k: tuple(torch.topk(x, 1, d, largest=not k)), "kthvalue": lambda x, d, k: tuple(torch.kthvalue(x, 2, d, k)),
        "topk_unsorted": lambda x, d, k: torch.topk(x, 3, d, sorted=False, largest=k).values, "mode": lambda x, d, k: torch.mode(x, d, k).values,
        "diff": lambda x, d, k: torch.diff(x, dim=d), "normalize": lambda x, d, k: F.normalize(x, dim=d),
    }  # fmt: skip
    for name, f in one.items():
        for dtype in [*FLOATS, *INTS, torch.bool]:
            for d, k in [(0, False), (1, True), (-1, False)]:
                if dtype in (torch.int8, torch.int64, torch.bfloat16, torch.int16) and d != 1:
                    continue
                out.append(case(f"axis/{name}-{NAMES[dtype]}-{d}", lambda x, f=f, d=d, k=k: f(x, d, k), normal(3, 4, 5, dtype=dtype)))
            out.append(case(f"axis/{name}-{NAMES[dtype]}-edge", lambda x, f=f: f(x, 0, False), (edge(dtype),)))
            out.append(case(f"axis/{name}-{NAMES[dtype]}-edge2", lambda x, f=f: f(x, 0, True), (edge(dtype),)))
            pairs_of = torch.stack([*pairs(dtype), pairs(dtype)[0]], 1)
            out.append(case(f"axis/{name}-{NAMES[dtype]}-pairs", lambda x, f=f: f(x, -1, True), (pairs_of,)))
    for name, f in {"prod": torch.prod, "max": torch.max, "min": torch.min, "argmax": torch.argmax, "argmin": torch.argmin, "median": torch.median}.items():
        for dtype in [*FLOATS, *INTS, torch.bool]:
            out.append(case(f"axis/{name}-{NAMES[dtype]}-all", lambda x, f=f: f(x), normal(3, 4, dtype=dtype)))
            out.append(case(f"axis/{name}-{NAMES[dtype]}-alledge", lambda x, f=f: f(x), (edge(dtype),)))
    for p in [0.0, 1.0, 2.0, 3.0, 0.5, -1.0, float("inf"), -float("inf")]:
        for dtype in FLOATS:
            out.append(case(f"norm/{p}-{NAMES[dtype]}", lambda x, p=p: torch.linalg.vector_norm(x, p, dim=(0, -1)), normal(3, 2, 4, dtype=dtype)))
            out.append(case(f"norm/{p}-{NAMES[dtype]}-all", lambda x, p=p: torch.linalg.vector_norm(x, p), normal(3, 4, dtype=dtype)))
    out.append(case("norm/matrix-fro", lambda x: torch.linalg.matrix_norm(x), normal(2, 3, 3)))
    for n in (1, 127, 128, 129, 1000, 5000):
        for dtype in FLOATS:
            out.append(case(f"reduce/long-sum-{n}-{NAMES[dtype]}", lambda x: x.sum(-1), lambda g, n=n, dtype=dtype: (torch.ones(2, n, dtype=dtype),)))
            out.append(case(f"reduce/long-cumsum-{n}-{NAMES[dtype]}", lambda x: x.cumsum(-1), lambda g, n=n, dtype=dtype: (torch.ones(2, n, dtype=dtype),)))
            out.append(case(f"reduce/long-softmax-{n}-{NAMES[dtype]}", lambda x: x.softmax(-1), normal(2, n, dtype=dtype, scale=4)))
            out.append(case(f"reduce/long-mean-{n}-{NAMES[dtype]}", lambda x: x.mean(-1), normal(2, n, dtype=dtype)))
    for dtype in (torch.int32, torch.int8, torch.float16):
        out.append(case(f"reduce/sum-dtype-{NAMES[dtype]}", lambda x: x.sum(-1, dtype=torch.float32), normal(2, 9, dtype=dtype)))
        out.append(case(f"reduce/prod-dtype-{NAMES[dtype]}", lambda x: x.prod(-1, dtype=torch.float32), normal(2, 5, dtype=dtype)))
        out.append(case(f"reduce/cumsum-dtype-{NAMES[dtype]}", lambda x: x.cumsum(-1, dtype=torch.float32), normal(2, 9, dtype=dtype)))
        out.append(case(f"reduce/softmax-dtype-{NAMES[dtype]}", lambda x: x.softmax(-1, dtype=torch.float32), normal(2, 9, dtype=dtype)))
    out.append(case("reduce/overflow-i32", lambda x: x.sum(0), (torch.tensor([2**31 - 1, 5], dtype=torch.int32),)))
    out.append(case("reduce/overflow-i8", lambda x: x.sum(0), (torch.tensor([127, 5], dtype=torch.int8),)))
    return out


def matrices() -> list[Case]:
    out = []
    shapes = [
        ((3, 4), (4, 5)), ((2, 3, 4), (2, 4, 5)), ((2, 3, 4), (4, 5)), ((4,), (4,)), ((3, 4), (4,)), ((4,), (4, 5)),
        ((2, 1, 3, 4), (3, 4, 2)), ((1, 4), (4, 1)), ((2, 2, 1, 3), (1, 2, 3, 2)), ((4,), (2, 4, 3)), ((2, 3, 4), (4,)),
        ((1, 1), (1, 1)), ((17, 33), (33, 19)),
    ]  # fmt: skip
    for i, (a, b) in enumerate(shapes):
        for dtype in [*FLOATS, torch.int32]:
            out.append(case(f"matmul/{i}-{NAMES[dtype]}", torch.matmul, lambda g, a=a, b=b, d=dtype: (data(a, d, g), data(b, d, g))))
    for dtype in FLOATS:
        d = dtype
        out.append(case(f"matmul/addmm-{NAMES[d]}", lambda c, a, b: torch.addmm(c, a, b, beta=0.5, alpha=2), lambda g, d=d: (data((5,), d, g), data((3, 4), d, g), data((4, 5), d, g))))
        out.append(case(f"matmul/baddbmm-{NAMES[d]}", lambda c, a, b: torch.baddbmm(c, a, b, beta=0.5, alpha=2), lambda g, d=d: (data((2, 3, 5), d, g), data((2, 3, 4), d, g), data((2, 4, 5), d, g))))
        out.append(case(f"matmul/inf-{NAMES[d]}", torch.matmul, lambda g, d=d: (torch.tensor([[1.0, float("inf")], [float("nan"), 0]], dtype=d), data((2, 2), d, g))))
        for e in ["ij,jk->ik", "bij,bkj->bik", "bhqd,bhkd->bhqk", "ij->ji", "ii->i", "i,j->ij", "bij->b", "...ij,...jk->...ik"]:
            terms = e.split("->")[0].split(",")
            sizes = dict(zip("bhqkdij", [2, 3, 4, 5, 2, 3, 3], strict=True))
            mk = lambda g, terms=terms, d=d, sizes=sizes: tuple(data(tuple(sizes[c] for c in t.replace("...", "b")), d, g) for t in terms)  # noqa: E731
            out.append(case(f"einsum/{e}-{NAMES[d]}", lambda *a, e=e: torch.einsum(e, *a), mk))
        for bias in (True, False):
            for shape in [(4,), (3, 4), (2, 3, 4), (1, 1, 1, 4)]:
                out.append(case(f"linear/{len(shape)}-{bias}-{NAMES[d]}", lambda bias=bias, d=d: nn.Linear(4, 5, bias).to(d), normal(*shape, dtype=d), module=True))
        out.append(case(f"matmul/bilinear-{NAMES[d]}", lambda d=d: nn.Bilinear(3, 4, 2).to(d), lambda g, d=d: (data((2, 3), d, g), data((2, 4), d, g)), module=True))
        out.append(case(f"matmul/outer-{NAMES[d]}", torch.outer, lambda g, d=d: (data((3,), d, g), data((4,), d, g))))
        out.append(case(f"matmul/dot-{NAMES[d]}", torch.dot, lambda g, d=d: (data((4,), d, g), data((4,), d, g))))
        out.append(case(f"matmul/mv-{NAMES[d]}", torch.mv, lambda g, d=d: (data((3, 4), d, g), data((4,), d, g))))
        out.append(case(f"matmul/kron-{NAMES[d]}", torch.kron, lambda g, d=d: (data((2, 3), d, g), data((2, 2), d, g))))
        out.append(case(f"matmul/cdist-{NAMES[d]}", torch.cdist, lambda g, d=d: (data((3, 4), d, g), data((2, 4), d, g))))
        out.append(case(f"matmul/cosine-{NAMES[d]}", F.cosine_similarity, lambda g, d=d: (data((3, 4), d, g), data((3, 4), d, g))))
    return out


def convolutions() -> list[Case]:
    out = []
    kinds = {1: (nn.Conv1d, nn.ConvTranspose1d, (9,)), 2: (nn.Conv2d, nn.ConvTranspose2d, (7, 6)), 3: (nn.Conv3d, nn.ConvTranspose3d, (5, 4, 6))}
    for n, (conv, back, size) in kinds.items():
        settings: list[dict[str, Any]] = [
            {}, {"stride": 2}, {"padding": 1}, {"dilation": 2}, {"groups": 2}, {"bias": False}, {"stride": 2, "padding": 1, "dilation": 2},
            {"groups": 4}, {"padding": "same"}, {"padding": "valid"}, {"padding": 1, "padding_mode": "reflect"},
            {"padding": 1, "padding_mode": "circular"}, {"padding": 1, "padding_mode": "replicate"}, {"kernel_size": 1},
            {"kernel_size": tuple(range(1, n + 1))}, {"padding": tuple(range(n)), "stride": tuple(range(1, n + 1))},
        ]  # fmt: skip
        for i, s in enumerate(settings):
            for dtype in FLOATS if i < 5 else [torch.float32]:
                s = {"kernel_size": 3 if n < 3 else 2, **s}
                out.append(case(f"conv/{n}d-{i}-{NAMES[dtype]}", lambda conv=conv, s=s, d=dtype: conv(4, 8, **s).to(d), normal(2, 4, *size, dtype=dtype), module=True))
        out.append(case(f"conv/{n}d-nobatch", lambda conv=conv: conv(4, 8, 2), normal(4, *size), module=True))
        out.append(case(f"conv/{n}d-function", lambda x, w, f=[F.conv1d, F.conv2d, F.conv3d][n - 1]: f(x, w), lambda g, size=size, n=n: (data((1, 2, *size), torch.float32, g), data((3, 2, *([2] * n)), torch.float32, g))))
        settings = [
            {}, {"stride": 2}, {"padding": 1}, {"dilation": 2}, {"groups": 2}, {"bias": False}, {"stride": 2, "output_padding": 1},
            {"stride": 3, "padding": 1, "output_padding": 2}, {"stride": 2, "padding": 1, "dilation": 2, "groups": 2, "output_padding": 1},
            {"kernel_size": 1}, {"kernel_size": tuple(range(1, n + 1))}, {"groups": 4}, {"dilation": 3, "output_padding": 2},
        ]  # fmt: skip
        for i, s in enumerate(settings):
            for dtype in FLOATS if i < 5 else [torch.float32]:
                s = {"kernel_size": 3, **s}
                out.append(case(f"convt/{n}d-{i}-{NAMES[dtype]}", lambda back=back, s=s, d=dtype: back(4, 8, **s).to(d), normal(2, 4, *[k - 2 for k in size], dtype=dtype), module=True))
    for dtype in FLOATS:
        pools = {
            "max1": nn.MaxPool1d(3, 2, 1), "max2": nn.MaxPool2d(2), "max2p": nn.MaxPool2d(3, 2, 1), "max2d": nn.MaxPool2d(2, 1, dilation=2),
            "max2c": nn.MaxPool2d(3, 2, 1, ceil_mode=True), "max2c2": nn.MaxPool2d(2, 2, ceil_mode=True), "max2t": nn.MaxPool2d((2, 3), (1, 2), (1, 0)), "max3": nn.MaxPool3d(2),
            "avg1": nn.AvgPool1d(2), "avg1p": nn.AvgPool1d(3, 2, 1), "avg2": nn.AvgPool2d(2), "avg2p": nn.AvgPool2d(3, 2, 1), "avg2e": nn.AvgPool2d(3, 2, 1, count_include_pad=False),
            "avg2c": nn.AvgPool2d(3, 2, ceil_mode=True), "avg2o": nn.AvgPool2d(2, divisor_override=3), "avg2t": nn.AvgPool2d((2, 3), (1, 2), (1, 1)),
            "avg3": nn.AvgPool3d(2), "avg3p": nn.AvgPool3d(2, 1, 1), "avg3o": nn.AvgPool3d(2, divisor_override=5), "ad1": nn.AdaptiveAvgPool1d(3), "ad2": nn.AdaptiveAvgPool2d(1), "ad2b": nn.AdaptiveAvgPool2d((3, 2)),
            "ad2c": nn.AdaptiveAvgPool2d((2, 4)), "ad2d": nn.AdaptiveAvgPool2d((None, 3)), "ad3": nn.AdaptiveAvgPool3d(1), "am1": nn.AdaptiveMaxPool1d(2), "am2": nn.AdaptiveMaxPool2d(2), "lp2": nn.LPPool2d(2, 2), "lp1": nn.LPPool1d(2, 2),
        }  # fmt: skip
        for name, pool in pools.items():
            n = int(next(c for c in name if c.isdigit()))
            size = {1: (8,), 2: (6, 8), 3: (4, 4, 6)}[n]
            out.append(case(f"pool/{name}-{NAMES[dtype]}", lambda pool=pool: pool, normal(2, 3, *size, dtype=dtype), module=True))
            out.append(case(f"pool/{name}-{NAMES[dtype]}-nobatch", lambda pool=pool: pool, normal(3, *size, dtype=dtype), module=True))
    out.append(case("pool/max2-indices", lambda x: F.max_pool2d(x, 2, return_indices=True)[0], normal(1, 2, 4, 4)))
    out.append(case("pool/max2-nan", lambda x: F.max_pool2d(x, 2), lambda g: (torch.where(torch.rand(1, 1, 4, 4, generator=g) > 0.7, float("nan"), 1.0),)))
    out.append(case("pool/max2-inf", lambda x: F.max_pool2d(x, 3, 2, 1), (torch.full((1, 1, 4, 4), -float("inf")),)))
    for dtype in [*FLOATS, torch.int32, torch.uint8, torch.bool]:
        for mode, rank, pad in [
            ("constant", 2, (1, 2)), ("constant", 3, (0, 1, 2, 0)), ("constant", 3, (-1, 2)), ("constant", 2, (-1, -1, 1, 0)), ("constant", 4, (1, 1, 1, 1, 1, 1, 1, 1)),
            ("reflect", 3, (1, 2)), ("reflect", 4, (1, 2, 2, 1)), ("reflect", 5, (1, 1, 2, 1, 1, 0)), ("replicate", 3, (4, 7)), ("replicate", 4, (1, 2, 5, 1)),
            ("replicate", 5, (1, 1, 2, 1, 1, 0)), ("circular", 3, (1, 2)), ("circular", 4, (1, 2, 2, 1)), ("circular", 5, (1, 1, 2, 1, 1, 0)), ("reflect", 2, (1, 2)), ("replicate", 2, (1, 2)), ("replicate", 3, (-1, 1)),
            ("reflect", 3, (-1, 1)), ("constant", 1, (3, 0)), ("constant", 0, ()), ("constant", 2, (0, 0)),
        ]:  # fmt: skip
            for value in [0.0, 1.5, float("-inf")] if mode == "constant" and dtype.is_floating_point else [0]:
                name = f"pad/{mode}{rank}-{'_'.join(map(str, pad))}-{value}-{NAMES[dtype]}"
                f = (lambda x, p=pad, v=value: F.pad(x, p, "constant", v)) if mode == "constant" else (lambda x, p=pad, m=mode: F.pad(x, p, m))
                out.append(case(name, f, normal(*((3, 4, 3, 4, 3)[:rank]), dtype=dtype)))
    return out


def interpolation() -> list[Case]:
    out = []
    for dtype in FLOATS:
        for mode in ("nearest", "bilinear", "nearest-exact", "bicubic", "area"):
            options: list[dict[str, Any]] = [
                {"size": (7, 5)}, {"size": (2, 3)}, {"size": (1, 1)}, {"size": (4, 6)}, {"scale_factor": 2.0}, {"scale_factor": (1.5, 0.7)},
                {"scale_factor": 0.5}, {"scale_factor": 3.3}, {"scale_factor": (2.0, 3.0), "recompute_scale_factor": True}, {"scale_factor": 1.7, "recompute_scale_factor": True},
            ]  # fmt: skip
            for i, o in enumerate(options):
                for align in (False, True) if mode in ("bilinear", "bicubic") else (None,):
                    out.append(case(f"interp/{mode}-{i}-{align}-{NAMES[dtype]}", lambda x, o=o, m=mode, a=align: F.interpolate(x, mode=m, align_corners=a, **o), normal(2, 3, 4, 6, dtype=dtype)))
            if mode in ("bilinear", "bicubic"):
                out.append(case(f"interp/{mode}-antialias-{NAMES[dtype]}", lambda x, m=mode: F.interpolate(x, size=(2, 3), mode=m, antialias=True), normal(2, 3, 4, 6, dtype=dtype)))
        for mode, to in (("linear", (7,)), ("nearest", (7,)), ("trilinear", (3, 5, 4)), ("nearest", (3, 5, 4))):
            out.append(case(f"interp/{mode}{len(to)}-{NAMES[dtype]}", lambda x, m=mode, s=to: F.interpolate(x, size=s, mode=m), normal(2, 3, *[4] * len(to), dtype=dtype)))
            out.append(case(f"interp/{mode}{len(to)}-scale-{NAMES[dtype]}", lambda x, m=mode: F.interpolate(x, scale_factor=1.5, mode=m), normal(2, 3, *[4] * len(to), dtype=dtype)))
        for shape in [(1, 1, 1, 1), (1, 2, 1, 5), (1, 1, 2, 2), (3, 1, 5, 1)]:
            for mode, align in (("nearest", None), ("bilinear", False), ("bilinear", True)):
                for size in [(3, 3), (8, 2), (1, 4)]:
                    out.append(case(f"interp/{mode}-{align}-{shape}-{size}-{NAMES[dtype]}", lambda x, m=mode, a=align, s=size: F.interpolate(x, size=s, mode=m, align_corners=a), normal(*shape, dtype=dtype)))
        out.append(case(f"interp/pixel_shuffle-{NAMES[dtype]}", lambda x: F.pixel_shuffle(x, 2), normal(2, 8, 3, 2, dtype=dtype)))
        out.append(case(f"interp/pixel_shuffle3-{NAMES[dtype]}", lambda x: F.pixel_shuffle(x, 3), normal(9, 3, 2, dtype=dtype)))
        out.append(case(f"interp/pixel_unshuffle-{NAMES[dtype]}", lambda x: F.pixel_unshuffle(x, 2), normal(2, 2, 4, 6, dtype=dtype)))
        out.append(case(f"interp/channel_shuffle-{NAMES[dtype]}", lambda x: F.channel_shuffle(x, 2), normal(2, 4, 3, 2, dtype=dtype)))
        for mode in ("bilinear", "nearest"):
            for padding in ("zeros", "border", "reflection"):
                out.append(case(f"interp/grid-{mode}-{padding}-{NAMES[dtype]}", lambda x, y, m=mode, p=padding: F.grid_sample(x, y, mode=m, padding_mode=p, align_corners=False), lambda g, d=dtype: (data((1, 2, 4, 5), d, g), data((1, 3, 3, 2), d, g))))
    return out


def norms() -> list[Case]:
    out = []
    for dtype in FLOATS:
        d = dtype
        layers = {
            "batch1": (lambda: nn.BatchNorm1d(4), (3, 4)), "batch1b": (lambda: nn.BatchNorm1d(4), (3, 4, 5)), "batch2": (lambda: nn.BatchNorm2d(4), (2, 4, 3, 3)),
            "batch3": (lambda: nn.BatchNorm3d(4), (2, 4, 2, 3, 3)), "batch2n": (lambda: nn.BatchNorm2d(4, affine=False), (2, 4, 3, 3)),
            "batch2s": (lambda: nn.BatchNorm2d(4, track_running_stats=False), (2, 4, 3, 3)),
            "layer": (lambda: nn.LayerNorm(6), (2, 3, 6)), "layer2": (lambda: nn.LayerNorm((3, 6)), (2, 3, 6)), "layern": (lambda: nn.LayerNorm(6, elementwise_affine=False), (2, 6)),
            "layerb": (lambda: nn.LayerNorm(6, bias=False), (2, 6)), "layere": (lambda: nn.LayerNorm(6, eps=1e-2), (6,)), "group": (lambda: nn.GroupNorm(2, 6), (2, 6, 4)),
            "group4": (lambda: nn.GroupNorm(3, 6), (2, 6, 4, 3)), "groupn": (lambda: nn.GroupNorm(6, 6, affine=False), (2, 6, 4, 3)), "group2": (lambda: nn.GroupNorm(2, 6), (2, 6)),
            "instance1": (lambda: nn.InstanceNorm1d(4), (2, 4, 5)), "instance2": (lambda: nn.InstanceNorm2d(4, affine=True), (2, 4, 5, 3)), "instance3": (lambda: nn.InstanceNorm3d(4), (2, 4, 2, 3, 3)),
            "instance2r": (lambda: nn.InstanceNorm2d(4, affine=True, track_running_stats=True), (2, 4, 5, 3)), "rms": (lambda: nn.RMSNorm(6), (2, 3, 6)), "rms2": (lambda: nn.RMSNorm((3, 6), eps=1e-3), (2, 3, 6)),
            "lrn": (lambda: nn.LocalResponseNorm(3), (2, 5, 4, 4)),
        }  # fmt: skip
        for name, (make, shape) in layers.items():
            for scale in (1.0, 300.0):
                out.append(case(f"norms/{name}-{scale}-{NAMES[d]}", lambda make=make, d=d: randomised(make().to(d)), normal(*shape, dtype=d, scale=scale), module=True))
    return out


def randomised(m: nn.Module) -> nn.Module:
    with torch.no_grad():
        for p in m.parameters():
            p.copy_(torch.randn_like(p.float()))
        for b in m.buffers():
            if b.is_floating_point():
                b.copy_(torch.rand_like(b.float()) + 0.5)
    return m


def shapes() -> list[Case]:
    out = []
    dtypes = [torch.float32, torch.float16, torch.bfloat16, torch.int8, torch.int32, torch.uint8, torch.bool]
    fs: dict[str, Callable[..., Any]] = {
        "reshape": lambda x: x.reshape(4, 6), "reshape-1": lambda x: x.reshape(-1, 3), "flatten": lambda x: x.flatten(), "flatten1": lambda x: x.flatten(1), "unflatten": lambda x: x.unflatten(2, (2, 2)),
        "permute": lambda x: x.permute(2, 0, 1), "transpose": lambda x: x.transpose(0, 2), "mT": lambda x: x.mT, "squeeze": lambda x: x.unsqueeze(1).squeeze(), "squeezed": lambda x: x.unsqueeze(1).squeeze(1),
        "squeezes": lambda x: x[None, :, None].squeeze((0, 2)), "unsqueeze-1": lambda x: x.unsqueeze(-1), "expand": lambda x: x[:, :1].expand(2, 5, 4), "expand-1": lambda x: x.expand(3, -1, -1, -1), "repeat": lambda x: x.repeat(2, 1, 3),
        "repeat4": lambda x: x.repeat(2, 2, 1, 3), "tile": lambda x: x.tile((2,)), "tile4": lambda x: x.tile((2, 1, 1, 2)), "repeat_interleave": lambda x: x.repeat_interleave(2, 1), "flip": lambda x: x.flip(0, 2), "flip1": lambda x: x.flip(-1),
        "roll": lambda x: x.roll(1, 1), "roll2": lambda x: x.roll((1, -2), (0, 2)), "rollall": lambda x: x.roll(3), "rot90": lambda x: x.rot90(1, (0, 1)), "chunk": lambda x: x.chunk(2, 2), "split": lambda x: x.split(2, 1), "splits": lambda x: x.split([1, 3], -1),
        "unbind": lambda x: x.unbind(1), "stack": lambda x: torch.stack([x, x], 1), "cat": lambda x: torch.cat([x, x[:, :1]], 1), "cat-1": lambda x: torch.cat([x, x, x], -1), "slice": lambda x: x[:, 1:, ::2], "slice-neg": lambda x: x[:, -2:, :-1],
        "slice-beyond": lambda x: x[:, 1:99, 3:], "slice-empty": lambda x: torch.cat([x[:, 2:1], x], 1), "select": lambda x: x[:, 1], "select-1": lambda x: x[..., -1], "narrow": lambda x: x.narrow(1, 1, 2), "movedim": lambda x: x.movedim(0, -1),
        "tril": lambda x: x.tril(), "triu": lambda x: x.triu(1), "tril-1": lambda x: x.tril(-1), "diagonal": lambda x: x.diagonal(0, 1, 2), "diag_embed": lambda x: torch.diag_embed(x[0]), "meshgrid": lambda x: torch.meshgrid(x[0, 0], x[0, :, 0], indexing="ij"),
        "unfold": lambda x: x.unfold(2, 2, 1), "as_strided": lambda x: x.as_strided((2, 2), (1, 2)), "slice_scatter": lambda x: torch.slice_scatter(x, x[:, :2], 1, 1, 3), "select_scatter": lambda x: torch.select_scatter(x, x[:, 0], 1, 2),
        "slice_scatter2": lambda x: torch.slice_scatter(x, x[:, :, :2], 2, 0, 4, 2), "setitem": lambda x: assign(x), "broadcast": lambda x: torch.broadcast_tensors(x, x[:1])[1], "view_dtype": lambda x: x.contiguous().view(x.shape), "hstack": lambda x: torch.hstack([x, x]),
        "dstack": lambda x: torch.dstack([x, x]), "block_diag": lambda x: torch.block_diag(x[0], x[1]), "cartesian": lambda x: torch.cartesian_prod(x[0, 0], x[0, 1]), "contiguous": lambda x: x.transpose(0, 1).contiguous().view(3, 8), "ravel": lambda x: x.ravel(),
        "alias": lambda x: torch.ops.aten.alias(x) * x, "clone": lambda x: x.clone(), "where_bool": lambda x: torch.where(x.bool(), x, x), "nonzero": lambda x: torch.nonzero(x), "argwhere": lambda x: torch.argwhere(x > 0), "nonzero_tuple": lambda x: torch.nonzero(x, as_tuple=True),
        "trace": lambda x: torch.trace(x[0]), "masked_scatter": lambda x: x.masked_scatter(x > 0, x.flip(0)), "bucketize": lambda x: torch.bucketize(x, torch.tensor([-1.0, 0.0, 1.0])), "one_hot": lambda x: F.one_hot((x > 0).long(), 3),
        "cat_mixed": lambda x: torch.cat([x, x.float()], 0), "cat_empty": lambda x: torch.cat([x, x[:0]], 0), "fill": lambda x: x.clone().fill_(2), "copy": lambda x: torch.zeros_like(x).copy_(x), "im2col": lambda x: F.unfold(x[None, :, :, :], 2),
        "vander": lambda x: torch.vander(x[0, 0]), "take": lambda x: torch.take(x, torch.tensor([0, 5, -1])), "searchsorted": lambda x: torch.searchsorted(x[0, 0].sort().values, x[1, 0]),
    }  # fmt: skip
    for name, f in fs.items():
        for dtype in dtypes:
            out.append(case(f"shape/{name}-{NAMES[dtype]}", f, normal(2, 3, 4, dtype=dtype)))
    made: dict[str, Callable[..., Any]] = {
        "arange": lambda x: torch.arange(5) + x, "arangef": lambda x: torch.arange(0.0, 2.5, 0.5) + x, "arange-step": lambda x: torch.arange(9, 0, -2) + x, "arange-dtype": lambda x: torch.arange(5, dtype=torch.float16) + x, "linspace": lambda x: torch.linspace(-1, 1, 5) + x,
        "full": lambda x: torch.full((5,), 3) + x, "fullf": lambda x: torch.full((5,), 0.1) + x, "eye": lambda x: torch.eye(5) * x, "zeros": lambda x: torch.zeros(5) + x, "tensor": lambda x: torch.tensor([1, 2, 3, 4, 5]) + x, "scalar": lambda x: torch.scalar_tensor(2.5) + x,
        "logspace": lambda x: torch.logspace(0, 2, 5) + x, "empty": lambda x: torch.empty(5).fill_(1) + x, "new_zeros": lambda x: x.new_zeros(5) + x, "new_full": lambda x: x.new_full((5,), 2) * x, "arange-like": lambda x: torch.arange(x.shape[0]) * x, "tri": lambda x: torch.tril_indices(3, 3).sum() + x,
        "arange01": lambda x: torch.arange(0, 0.5, 0.1) + x, "ones_bool": lambda x: torch.ones(5, dtype=torch.bool) & (x > 0), "hann": lambda x: torch.hann_window(5) * x, "bigint": lambda x: torch.tensor([2**40]) + x, "f64": lambda x: torch.tensor([0.1], dtype=torch.float64) + x,
        "i64mul": lambda x: (x.long() * 2**33) >> 33, "c": lambda x: torch.complex(x.float(), x.float()).abs(),
    }  # fmt: skip
    for name, f in made.items():
        for dtype in (torch.float32, torch.float16, torch.int32, torch.int64):
            out.append(case(f"made/{name}-{NAMES[dtype]}", f, normal(5, dtype=dtype)))
    # Empty and single extents.
    for i, shape in enumerate([(0,), (0, 3), (2, 0, 3), (1,), (1, 1, 1)]):
        for name, f in {
            "add": lambda x: x + 1, "sum": lambda x: x.sum(), "sum0": lambda x: x.sum(0), "cat": lambda x: torch.cat([x, torch.ones((1, *x.shape[1:]))], 0), "softmax": lambda x: x.softmax(-1), "matmul": lambda x: x.reshape(-1, 1) @ torch.ones(1, 3),
            "reshape": lambda x: x.reshape(-1), "prod": lambda x: x.prod(), "mean": lambda x: x.mean(-1), "sort": lambda x: x.sort(0).values, "any": lambda x: x.any(), "cumsum": lambda x: x.cumsum(0), "cast": lambda x: x.half(), "pad": lambda x: F.pad(x, (1, 1)), "flip": lambda x: x.flip(0),
        }.items():  # fmt: skip
            out.append(case(f"empty/{name}-{i}", f, normal(*shape)))
    return out


def assign(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y[:, 1] = 1
    y[0, ..., 2:] = y[1, ..., :2]
    return y


def indexing() -> list[Case]:
    out = []
    dtypes = [torch.float32, torch.float16, torch.bfloat16, torch.int32, torch.int8, torch.bool]
    i32 = torch.int32
    for dtype in dtypes:
        d = dtype
        for kind in (torch.int64, torch.int32):
            n = f"{NAMES[d]}-{NAMES[kind]}"
            x = lambda g, d=d: data((3, 4, 5), d, g)  # noqa: E731
            ints = lambda g, shape, high, low=0, kind=kind: torch.randint(low, high, shape, generator=g).to(kind)  # noqa: E731
            for a in (0, 1, -1):
                size = (3, 4, 5)[a]
                like = lambda m, a=a: tuple(m if i == a % 3 else s for i, s in enumerate((3, 4, 5)))  # noqa: E731
                out.append(case(f"index/gather-{a}-{n}", lambda x, i, a=a: torch.gather(x, a, i.long()), lambda g, a=a, like=like, size=size, x=x, ints=ints: (x(g), ints(g, like(6), size))))
                out.append(case(f"index/gathersmall-{a}-{n}", lambda x, i, a=a: torch.gather(x, a, i.long()), lambda g, size=size, x=x, ints=ints: (x(g), ints(g, (2, 2, 2), size))))
                out.append(case(f"index/scatter-{a}-{n}", lambda x, i, s, a=a: torch.scatter(x, a, i.long(), s), lambda g, like=like, size=size, x=x, ints=ints, d=d: (x(g), ints(g, like(2), size), data(like(2), d, g))))
                out.append(case(f"index/scattersmall-{a}-{n}", lambda x, i, s, a=a: torch.scatter(x, a, i.long(), s), lambda g, size=size, x=x, ints=ints, d=d: (x(g), torch.arange(2).reshape(2, 1, 1).expand(2, 2, 2).contiguous().to(i32) if size < 3 else ints(g, (2, 2, 2), size), data((2, 2, 2), d, g))))
                out.append(case(f"index/scattervalue-{a}-{n}", lambda x, i, a=a: torch.scatter(x, a, i.long(), 1), lambda g, like=like, size=size, x=x, ints=ints: (x(g), ints(g, like(2), size))))
                out.append(case(f"index/scatter_add-{a}-{n}", lambda x, i, s, a=a: torch.scatter_add(x, a, i.long(), s), lambda g, like=like, size=size, x=x, ints=ints, d=d: (x(g), ints(g, like(6), size), data(like(6), d, g))))
                for r in ("add", "multiply"):
                    out.append(case(f"index/scatter{r}-{a}-{n}", lambda x, i, s, a=a, r=r: torch.scatter(x, a, i.long(), s, reduce=r), lambda g, like=like, size=size, x=x, ints=ints, d=d: (x(g), ints(g, like(6), size), data(like(6), d, g))))
                    out.append(case(f"index/scattervalue{r}-{a}-{n}", lambda x, i, a=a, r=r: torch.scatter(x, a, i.long(), 2, reduce=r), lambda g, like=like, size=size, x=x, ints=ints: (x(g), ints(g, like(6), size))))
                for r in ("sum", "prod", "amax", "amin", "mean"):
                    out.append(case(f"index/scatter_reduce{r}-{a}-{n}", lambda x, i, s, a=a, r=r: torch.scatter_reduce(x, a, i.long(), s, r), lambda g, like=like, size=size, x=x, ints=ints, d=d: (x(g), ints(g, like(2), size), data(like(2), d, g))))
                out.append(case(f"index/select-{a}-{n}", lambda x, i, a=a: torch.index_select(x, a, i), lambda g, size=size, x=x, ints=ints: (x(g), ints(g, (7,), size))))
                out.append(case(f"index/index_add-{a}-{n}", lambda x, i, s, a=a: torch.index_add(x, a, i, s), lambda g, like=like, size=size, x=x, ints=ints, d=d: (x(g), ints(g, (2,), size), data(like(2), d, g))))
                out.append(case(f"index/index_copy-{a}-{n}", lambda x, i, s, a=a: torch.index_copy(x, a, i.long(), s), lambda g, like=like, x=x, d=d: (x(g), torch.tensor([1, 0]), data(like(2), d, g))))
                out.append(case(f"index/index_fill-{a}-{n}", lambda x, i, a=a: torch.index_fill(x, a, i.long(), 1), lambda g, x=x: (x(g), torch.tensor([1, 0]))))
                out.append(case(f"index/take_along-{a}-{n}", lambda x, i, a=a: torch.take_along_dim(x, i.long(), a), lambda g, like=like, size=size, x=x, ints=ints: (x(g), ints(g, like(2), size))))
            out.append(case(f"index/embedding-{n}", lambda w, i: F.embedding(i, w.float()), lambda g, ints=ints, d=d: (data((6, 4), d, g), ints(g, (2, 3), 6))))
            out.append(case(f"index/i0-{n}", lambda x, i: x[i], lambda g, x=x, ints=ints: (x(g), ints(g, (2,), 3, -3))))
            out.append(case(f"index/i00-{n}", lambda x, i: x[i], lambda g, x=x, ints=ints: (x(g), ints(g, (2, 2), 3, -3))))
            out.append(case(f"index/i1-{n}", lambda x, i: x[:, i], lambda g, x=x, ints=ints: (x(g), ints(g, (2,), 4, -4))))
            out.append(case(f"index/i2-{n}", lambda x, i: x[..., i], lambda g, x=x, ints=ints: (x(g), ints(g, (2, 2), 4))))
            out.append(case(f"index/i01-{n}", lambda x, i, j: x[i, j], lambda g, x=x, ints=ints: (x(g), ints(g, (2,), 3), ints(g, (2,), 4))))
            out.append(case(f"index/i02-{n}", lambda x, i, j: x[i, :, j], lambda g, x=x, ints=ints: (x(g), ints(g, (2,), 3), ints(g, (2,), 4))))
            out.append(case(f"index/i12-{n}", lambda x, i, j: x[:, i, j], lambda g, x=x, ints=ints: (x(g), ints(g, (2, 1), 4), ints(g, (3,), 5))))
            out.append(case(f"index/i012-{n}", lambda x, i, j, k: x[i, j, k], lambda g, x=x, ints=ints: (x(g), ints(g, (2,), 3), ints(g, (2,), 4), ints(g, (1,), 5))))
            out.append(case(f"index/put0-{n}", lambda x, i, v: x.index_put((i,), v), lambda g, x=x, d=d, kind=kind: (x(g), torch.tensor([2, 0]).to(kind), data((2, 4, 5), d, g))))
            out.append(case(f"index/putneg-{n}", lambda x, i, v: x.index_put((i,), v), lambda g, x=x, d=d, kind=kind: (x(g), torch.tensor([-1, 0]).to(kind), data((2, 4, 5), d, g))))
            out.append(case(f"index/putdup-{n}", lambda x, i, v: x.index_put((i,), v), lambda g, x=x, d=d, kind=kind: (x(g), torch.tensor([1, 1]).to(kind), data((4, 5), d, g).expand(2, 4, 5).contiguous())))
            out.append(case(f"index/put1-{n}", lambda x, i, v: put(x, (slice(None), i), v), lambda g, x=x, d=d, kind=kind: (x(g), torch.tensor([2, 0]).to(kind), data((3, 2, 5), d, g))))
            out.append(case(f"index/putrow-{n}", lambda x, i, v: put(x, (slice(None), i), v), lambda g, x=x, d=d, kind=kind: (x(g), torch.tensor([2]).to(kind), data((3, 1, 5), d, g))))
            out.append(case(f"index/put02-{n}", lambda x, i, v: put(x, (i, slice(None), i), v), lambda g, x=x, d=d, kind=kind: (x(g), torch.tensor([2, 0]).to(kind), data((2, 4), d, g))))
            out.append(case(f"index/put01-{n}", lambda x, i, v: put(x, (i, i), v), lambda g, x=x, d=d, kind=kind: (x(g), torch.tensor([2, 0]).to(kind), data((2, 5), d, g))))
            out.append(case(f"index/put12-{n}", lambda x, i, v: put(x, (slice(None), i, i), v), lambda g, x=x, d=d, kind=kind: (x(g), torch.tensor([2, 0]).to(kind), data((3, 2), d, g))))
            out.append(case(f"index/putscalar-{n}", lambda x, i: put(x, (i,), 1), lambda g, x=x, kind=kind: (x(g), torch.tensor([2, 0]).to(kind))))
            out.append(case(f"index/putbroadcast-{n}", lambda x, i, v: put(x, (i,), v), lambda g, x=x, d=d, kind=kind: (x(g), torch.tensor([2, 0]).to(kind), data((5,), d, g))))
            out.append(case(f"index/putacc-{n}", lambda x, i, v: x.index_put((i,), v, accumulate=True), lambda g, x=x, d=d, kind=kind: (x(g), torch.tensor([2, 2]).to(kind), data((2, 4, 5), d, g))))
        out.append(case(f"index/mask-{NAMES[d]}", lambda x, m: put(x, (m,), 1), lambda g, x=x: (x(g), torch.rand(3, 4, 5, generator=g) > 0.5)))
        out.append(case(f"index/mask0-{NAMES[d]}", lambda x, m: put(x, (m,), 1), lambda g, x=x: (x(g), torch.tensor([True, False, True]))))
        out.append(case(f"index/masknone-{NAMES[d]}", lambda x, m: put(x, (m,), 1), lambda g, x=x: (x(g), torch.zeros(3, 4, 5, dtype=torch.bool))))
        out.append(case(f"index/maskget-{NAMES[d]}", lambda x, m: x[m], lambda g, x=x: (x(g), torch.rand(3, 4, 5, generator=g) > 0.5)))
        out.append(case(f"index/masked_select-{NAMES[d]}", lambda x, m: torch.masked_select(x, m), lambda g, x=x: (x(g), torch.rand(3, 4, 5, generator=g) > 0.5)))
        out.append(case(f"index/masked_fill-{NAMES[d]}", lambda x, m: x.masked_fill(m, 1), lambda g, x=x: (x(g), torch.rand(4, 1, generator=g) > 0.5)))
        out.append(case(f"index/masked_scatter-{NAMES[d]}", lambda x, m, s: x.masked_scatter(m, s), lambda g, x=x, d=d: (x(g), torch.rand(4, 5, generator=g) > 0.5, data((60,), d, g))))
        out.append(case(f"index/constmask-{NAMES[d]}", lambda x: put(x, (torch.tensor([True, False, True]),), 1), lambda g, x=x: (x(g),)))
        out.append(case(f"index/const-{NAMES[d]}", lambda x: x[torch.tensor([0, -1])], lambda g, x=x: (x(g),)))
        out.append(case(f"index/list-{NAMES[d]}", lambda x: x[[0, 2], [1, 3]], lambda g, x=x: (x(g),)))
    # Outside the bounds: an error is right.
    for name, f in {
        "gather": lambda x, i: torch.gather(x, 0, i.long()), "select": lambda x, i: torch.index_select(x, 0, i), "index": lambda x, i: x[i.long()],
    }.items():  # fmt: skip
        for j, bad in enumerate([[0, 5], [0, -1], [-5, 0], [-6, 0], [99, 0], [2**31 - 1, 0]]):
            out.append(case(f"bounds/{name}-{j}", f, (torch.randn(5), torch.tensor([0, 4], dtype=torch.int32)), more=((torch.randn(5), torch.tensor(bad, dtype=torch.int32)),)))
    return out


def put(x: torch.Tensor, where: tuple[Any, ...], value: Any) -> torch.Tensor:
    y = x.clone()
    y[where] = value
    return y


def attention() -> list[Case]:
    from coreai_torch import composite_ops as c

    out = []
    for dtype in FLOATS:
        d = dtype
        n = NAMES[d]
        qkv = lambda g, b=2, h=4, k=4, q=3, s=5, e=8, v=8, d=d: (data((b, h, q, e), d, g), data((b, k, s, e), d, g), data((b, k, s, v), d, g))  # noqa: E731
        for causal in (False, True):
            for scale in (None, 0.3):
                out.append(case(f"sdpa/plain-{causal}-{scale}-{n}", lambda q, k, v, c=causal, s=scale: F.scaled_dot_product_attention(q, k, v, is_causal=c, scale=s), qkv))
                out.append(case(f"sdpa/square-{causal}-{scale}-{n}", lambda q, k, v, c=causal, s=scale: F.scaled_dot_product_attention(q, k, v, is_causal=c, scale=s), lambda g, qkv=qkv: qkv(g, q=5)))
        out.append(case(f"sdpa/gqa-{n}", lambda q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True), lambda g, qkv=qkv: qkv(g, k=2)))
        out.append(case(f"sdpa/gqa1-{n}", lambda q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True, is_causal=True), lambda g, qkv=qkv: qkv(g, k=1)))
        for i, shape in enumerate([(3, 5), (2, 1, 3, 5), (2, 4, 3, 5), (1, 1, 1, 5), (4, 3, 5)]):
            out.append(case(f"sdpa/mask{i}-{n}", lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m), lambda g, qkv=qkv, shape=shape, d=d: (*qkv(g), data(shape, d, g))))
            out.append(case(f"sdpa/boolmask{i}-{n}", lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m), lambda g, qkv=qkv, shape=shape: (*qkv(g), (torch.rand(shape, generator=g) > 0.4) | (torch.arange(shape[-1]) == 0))))
            out.append(case(f"sdpa/infmask{i}-{n}", lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m), lambda g, qkv=qkv, shape=shape, d=d: (*qkv(g), torch.where((torch.rand(shape, generator=g) > 0.4) | (torch.arange(shape[-1]) == 0), 0.0, -float("inf")).to(d))))
        out.append(case(f"sdpa/allmasked-{n}", lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m), lambda g, qkv=qkv: (*qkv(g), torch.zeros(3, 5, dtype=torch.bool))))
        out.append(case(f"sdpa/rank3-{n}", F.scaled_dot_product_attention, lambda g, d=d: (data((2, 3, 8), d, g), data((2, 5, 8), d, g), data((2, 5, 8), d, g))))
        out.append(case(f"sdpa/rank5-{n}", F.scaled_dot_product_attention, lambda g, d=d: tuple(data((2, 2, 2, 3, 8), d, g) for _ in range(3))))
        out.append(case(f"sdpa/vdim-{n}", F.scaled_dot_product_attention, lambda g, qkv=qkv: qkv(g, v=6)))
        out.append(case(f"sdpa/one-{n}", F.scaled_dot_product_attention, lambda g, qkv=qkv: qkv(g, q=1, s=1)))
        for causal, window, scale, hf in itertools.product((False, True), (0, 2), (None, 1.5), (False, True)):
            make = lambda c=c, causal=causal, window=window, scale=scale, hf=hf: c.SDPA(scale, causal, window, hf)  # noqa: E731
            for k in (4, 2, 1):
                out.append(case(f"sdpa/vendor-{causal}-{window}-{scale}-{hf}-{k}-{n}", make, lambda g, qkv=qkv, k=k: qkv(g, k=k), module=True))
            out.append(composite(f"composite/sdpa-{causal}-{window}-{scale}-{hf}-{n}", make, lambda g, qkv=qkv: qkv(g, k=2), c.SDPA))
        out.append(case(f"sdpa/vendor-mask-{n}", lambda c=c: c.SDPA(), lambda g, qkv=qkv: (*qkv(g), torch.rand(3, 5, generator=g) > 0.4), module=True))
        out.append(case(f"sdpa/vendor-sinks-{n}", lambda c=c: c.SDPA(is_causal=True), lambda g, qkv=qkv, d=d: (*qkv(g, k=2), None, data((4,), d, g)), module=True))
        out.append(composite(f"composite/sdpa-sinks-{n}", lambda c=c: c.SDPA(window_size=2, is_causal=True), lambda g, qkv=qkv, d=d: (*qkv(g, k=2), None, data((4,), d, g)), c.SDPA))
        out.append(case(f"composite/rms-{n}", lambda c=c, d=d: randomised(c.RMSNorm(8).to(d)), normal(2, 3, 8, dtype=d), module=True))
        out.append(composite(f"composite/rmsx-{n}", lambda c=c, d=d: randomised(c.RMSNorm(8).to(d)), normal(2, 3, 8, dtype=d, scale=300), c.RMSNormImpl))
        out.append(composite(f"composite/rms32-{n}", lambda c=c: randomised(c.RMSNorm(8)), normal(2, 3, 8, dtype=d), c.RMSNormImpl))
        out.append(composite(f"composite/rmsheads-{n}", lambda c=c, d=d: randomised(c.RMSNorm(8, n_heads=3).to(d)), normal(2, 3, 2, 8, dtype=d), c.RMSNormImpl))
        for dims, inter, hf in itertools.product((None, 4), (False, True), (False, True)):
            rope = lambda c=c, dims=dims, inter=inter, hf=hf: c.RoPE(1.0, 1e4, dims, inter, hf)  # noqa: E731
            out.append(case(f"composite/rope-{dims}-{inter}-{hf}-{n}", rope, normal(2, 3, 5, 8, dtype=d), module=True))
            out.append(composite(f"composite/ropex-{dims}-{inter}-{hf}-{n}", rope, normal(2, 3, 5, 8, dtype=d), c.RoPE))
            half = (dims or 8) // 2
            out.append(composite(f"composite/ropecs-{dims}-{inter}-{hf}-{n}", rope, lambda g, d=d, half=half: (data((2, 3, 5, 8), d, g), data((5, half), d, g), data((5, half), d, g)), c.RoPE))
            out.append(composite(f"composite/ropepos-{dims}-{inter}-{hf}-{n}", rope, lambda g, d=d: (data((2, 3, 5, 8), d, g), None, None, torch.randint(0, 900, (2, 5), generator=g)), c.RoPE))
            out.append(composite(f"composite/ropeoff-{dims}-{inter}-{hf}-{n}", rope, lambda g, d=d: (data((2, 3, 5, 8), d, g), None, None, None, None, torch.tensor([3, 70])), c.RoPE))
        for norm in (False, True):
            for s in (1, 4):
                mk = lambda g, s=s, d=d: (*[data((2, 3, s, 4), d, g) for _ in range(2)], data((2, 3, s, 5), d, g), -data((2, 3, s), d, g).abs(), data((2, 3, s), d, g).sigmoid(), data((2, 3, 4, 5), d, g))  # noqa: E731
                out.append(case(f"composite/delta3-{norm}-{s}-{n}", lambda c=c, norm=norm: c.GatedDeltaUpdate(norm), mk, module=True))
                out.append(composite(f"composite/deltax3-{norm}-{s}-{n}", lambda c=c, norm=norm: c.GatedDeltaUpdate(norm), mk, c.GatedDeltaUpdate))
        ix = lambda g, high, shape: torch.randint(0, high, shape, generator=g).to(torch.int32)  # noqa: E731
        for nb in (0, 1):
            out.append(composite(f"composite/gathermm-{nb}-{n}", lambda c=c, nb=nb: c.GatherMM(nb), lambda g, d=d, nb=nb, ix=ix: (data((3, 2, 4) if nb == 0 else (2, 3, 2, 4), d, g), data((5, 4, 6) if nb == 0 else (2, 5, 4, 6), d, g), None, ix(g, 5, (3,))), c.GatherMM))
            out.append(case(f"composite/gathermmp-{nb}-{n}", lambda c=c, nb=nb: c.GatherMM(nb), lambda g, d=d, nb=nb, ix=ix: (data((3, 2, 4) if nb == 0 else (2, 3, 2, 4), d, g), data((5, 4, 6) if nb == 0 else (2, 5, 4, 6), d, g), ix(g, 3, (3,)), ix(g, 5, (3,))), module=True))
        out.append(case(f"sdpa/mha-{n}", lambda d=d: nn.MultiheadAttention(8, 2, batch_first=True).to(d), lambda g, d=d: tuple(data((2, 3, 8), d, g) for _ in range(3)), module=True))
        out.append(case(f"sdpa/encoder-{n}", lambda d=d: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).to(d), normal(2, 3, 8, dtype=d), module=True))
        for name, make in {"lstm": nn.LSTM, "gru": nn.GRU, "rnn": nn.RNN}.items():
            out.append(case(f"rnn/{name}-{n}", lambda make=make, d=d: make(4, 5, batch_first=True).to(d), normal(2, 3, 4, dtype=d), module=True))
        out.append(case(f"rnn/lstmcell-{n}", lambda d=d: nn.LSTMCell(4, 5).to(d), normal(2, 4, dtype=d), module=True))
    return out


def composite(name: str, make: Callable[..., nn.Module], args: Callable[..., Any], target: type) -> Case:
    """A module with a part that is kept as a composite."""

    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = make()

        def forward(self, *a: Any) -> Any:
            return self.inner(*a)

    def build(asset: pathlib.Path) -> Any:
        import coreai_torch

        number = zlib.crc32(name.encode())
        torch.manual_seed(number)
        model = Outer().eval()
        model, given = without(model, args(torch.Generator().manual_seed(number)))
        values = [[numpy(t, True) for t in given if isinstance(t, torch.Tensor)]]
        with torch.no_grad():
            out = model(*given)
        reference = [[numpy(t, False) for t in torch.utils._pytree.tree_leaves(out)]]
        attrs = {
            "SDPA": ["scale", "is_causal", "window_size", "version"], "RMSNormImpl": ["eps", "axes", "version"],
            "RoPE": ["scale", "base", "dims", "interleaved", "version"], "GatedDeltaUpdate": ["use_qk_l2_norm", "version"],
            "GatherMM": ["num_batch_axes", "version"],
        }[target.__name__]  # fmt: skip
        spec = coreai_torch.ExternalizeSpec(target, composite_op_name=target.__name__.lower(), composite_attrs=attrs)
        converted = (
            coreai_torch.TorchConverter()
            .add_pytorch_module(
                model,
                export_fn=lambda m: torch.export.export(m, args=given).run_decompositions(coreai_torch.get_decomp_table()),
                externalize_modules=[spec],
            )
            .to_coreai()
        )
        converted.save_asset(asset)
        return values, reference

    return Case(name, build)


def control() -> list[Case]:
    out = []
    cond = torch.cond
    from torch._higher_order_ops.while_loop import while_loop

    for dtype in (torch.float32, torch.float16, torch.int32):
        d, n = dtype, NAMES[dtype]
        out.append(case(f"control/cond-{n}", lambda p, x: cond(p, lambda x: x + 1, lambda x: x * 2, (x,)), lambda g, d=d: (torch.tensor(True), data((3,), d, g)), more=(lambda g, d=d: (torch.tensor(False), data((3,), d, g)),)))
        out.append(case(f"control/cond2-{n}", lambda x: cond(x.sum() > 0, lambda x: (x, x.sum(0)), lambda x: (-x, x.amax(0)), (x,)), lambda g, d=d: (data((3, 2), d, g),), more=tuple(lambda g, d=d: (data((3, 2), d, g),) for _ in range(3))))
        out.append(case(f"control/nested-{n}", lambda p, x: cond(p, lambda x: cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,)), lambda x: x * 2, (x,)), lambda g, d=d: (torch.tensor(True), data((3,), d, g)), more=(lambda g, d=d: (torch.tensor(True), -data((3,), d, g).abs()),)))
        out.append(case(f"control/while-{n}", lambda i, x: while_loop(lambda i, x: i < 5, lambda i, x: (i + 1, x * 2), (i, x)), lambda g, d=d: (torch.tensor(0), data((3,), d, g)), more=(lambda g, d=d: (torch.tensor(9), data((3,), d, g)),)))
        out.append(case(f"control/while2-{n}", lambda x: while_loop(lambda x: x.sum() < 100, lambda x: (x + x.abs() + 1,), (x,)), lambda g, d=d: (data((2, 3), d, g),)))
        out.append(case(f"control/outer-{n}", lambda p, x, y: cond(p, lambda x: x @ y, lambda x: x - y, (x,)), lambda g, d=d: (torch.tensor(True), data((3, 3), d, g), data((3, 3), d, g))))
    return out


def complexes() -> list[Case]:
    out = []
    c = torch.complex64
    pair = lambda g: (data((2, 3), torch.float32, g), data((2, 3), torch.float32, g))  # noqa: E731

    def z(f: Callable[..., Any]) -> Callable[..., Any]:
        return lambda x, y: f(torch.complex(x, y))

    for name, f in {
        "abs": torch.abs, "real": torch.real, "imag": torch.imag, "conj": lambda z: torch.view_as_real(z.conj().resolve_conj()), "mul": lambda z: torch.view_as_real(z * z), "add": lambda z: torch.view_as_real(z + 1.5), "div": lambda z: torch.view_as_real(z / (z + 3)), "exp": lambda z: torch.view_as_real(torch.exp(z)),
        "sqrt": lambda z: torch.view_as_real(torch.sqrt(z)), "angle": torch.angle, "matmul": lambda z: torch.view_as_real(z @ z.mT), "sum": lambda z: torch.view_as_real(z.sum(0)), "mean": lambda z: torch.view_as_real(z.mean(0)), "neg": lambda z: torch.view_as_real(-z), "log": lambda z: torch.view_as_real(torch.log(z)),
        "sub": lambda z: torch.view_as_real(z - z.flip(0)), "cat": lambda z: torch.view_as_real(torch.cat([z, z])), "sin": lambda z: torch.view_as_real(torch.sin(z)), "tanh": lambda z: torch.view_as_real(torch.tanh(z)), "raw": lambda z: z * 2, "pow": lambda z: torch.view_as_real(z**2), "eq": lambda z: z == z.flip(0),
        "prod": lambda z: torch.view_as_real(z.prod(0)), "cumsum": lambda z: torch.view_as_real(z.cumsum(0)), "reciprocal": lambda z: torch.view_as_real(torch.reciprocal(z)), "where": lambda z: torch.view_as_real(torch.where(z.real > 0, z, z * 2)), "cos": lambda z: torch.view_as_real(torch.cos(z)),
        "sigmoid": lambda z: torch.view_as_real(torch.sigmoid(z)), "rsqrt": lambda z: torch.view_as_real(torch.rsqrt(z)), "flip": lambda z: torch.view_as_real(z.flip(1)), "gather": lambda z: torch.view_as_real(torch.index_select(z, 0, torch.tensor([1, 0]))), "pad": lambda z: torch.view_as_real(F.pad(z, (1, 1))),
        "transpose": lambda z: torch.view_as_real(z.mT.contiguous()), "slice": lambda z: torch.view_as_real(z[:, 1:]),
    }.items():  # fmt: skip
        out.append(case(f"complex/{name}", z(f), pair))
        out.append(case(f"complex/{name}-in", lambda x, f=f: f(x), lambda g: (data((2, 3), c, g),)))
    out.append(case("complex/polar", lambda x, y: torch.view_as_real(torch.polar(x.abs(), y)), pair))
    out.append(case("complex/polar-raw", lambda x, y: torch.polar(x, y), pair))
    out.append(case("complex/view_as_complex", lambda x: torch.view_as_complex(x).abs(), normal(3, 2)))
    out.append(case("complex/f16", lambda x, y: torch.view_as_real(torch.complex(x, y)), lambda g: (data((2, 3), torch.float16, g), data((2, 3), torch.float16, g))))
    for name, f in {"fft": lambda x: torch.view_as_real(torch.fft.fft(x)), "rfft": lambda x: torch.view_as_real(torch.fft.rfft(x)), "stft": lambda x: torch.view_as_real(torch.stft(x, 4, return_complex=True, window=torch.ones(4))), "ifft": lambda x: torch.fft.ifft(x).real, "irfft": lambda x: torch.fft.irfft(torch.complex(x, x))}.items():
        out.append(case(f"complex/{name}", f, normal(2, 8)))
    return out


def dynamic() -> list[Case]:
    out = []
    Dim = torch.export.Dim
    n, m = Dim("n", min=1, max=64), Dim("m", min=1, max=64)
    one: dict[str, Callable[..., Any]] = {
        "add": lambda x: x + 1, "sum": lambda x: x.sum(0), "mean": lambda x: x.mean(1), "softmax": lambda x: x.softmax(0), "matmul": lambda x: x @ x.mT, "cat": lambda x: torch.cat([x, x], 0), "flatten": lambda x: x.flatten(), "reshape": lambda x: x.reshape(x.shape[0] * 4), "slice": lambda x: x[1:],
        "slice-neg": lambda x: x[-2:], "slice-end": lambda x: x[:-1], "select-1": lambda x: x[-1], "arange": lambda x: torch.arange(x.shape[0]), "expand": lambda x: x[None].expand(2, -1, -1), "repeat": lambda x: x.repeat(2, 1), "flip": lambda x: x.flip(0), "cumsum": lambda x: x.cumsum(0), "sort": lambda x: x.sort(0).values,
        "topk": lambda x: x.topk(2, 0).values, "argmax": lambda x: x.argmax(0), "tril": lambda x: (x @ x.mT).tril(), "pad": lambda x: F.pad(x, (1, 1, 0, 2)), "padneg": lambda x: F.pad(x, (0, 0, -1, -1)), "index": lambda x: x[torch.arange(x.shape[0] - 1, -1, -1)], "full": lambda x: torch.full((x.shape[0], 2), 3.0),
        "zeros": lambda x: torch.zeros(x.shape[0]) + x.sum(), "split": lambda x: x.split([1, 3], 1), "stack": lambda x: torch.stack([x, x], 0), "unsqueeze": lambda x: x.unsqueeze(0), "layer_norm": lambda x: F.layer_norm(x, (4,)), "where": lambda x: torch.where(x > 0, x, 0.0), "size": lambda x: x * x.shape[0],
        "conv1d": lambda x: F.conv1d(x.mT[None], torch.ones(2, 4, 2)), "conv1dpad": lambda x: F.conv1d(x.mT[None], torch.ones(2, 4, 3), padding=1, stride=2), "convt": lambda x: F.conv_transpose1d(x.mT[None], torch.ones(4, 2, 3), stride=2), "unfold": lambda x: x.unfold(0, 2, 1), "sdpa": lambda x: F.scaled_dot_product_attention(x[None, None], x[None, None], x[None, None], is_causal=True),
        "roll": lambda x: x.roll(1, 0), "gather": lambda x: torch.gather(x, 0, torch.zeros(1, 4, dtype=torch.long)), "sizediv": lambda x: x[: x.shape[0] // 2], "viewm1": lambda x: x.view(-1, 2), "amax": lambda x: x.amax((0, 1)), "var": lambda x: x.var(0), "norm": lambda x: F.normalize(x, dim=0), "einsum": lambda x: torch.einsum("ij,kj->ik", x, x),
        "embedding": lambda x: F.embedding((x[:, 0] > 0).long(), torch.ones(2, 3)), "group_norm": lambda x: F.group_norm(x.mT[None], 2), "masked": lambda x: x.masked_fill(x > 0, 0.0), "index_put": lambda x: put(x, (torch.tensor([0]),), 1.0), "slice_scatter": lambda x: torch.slice_scatter(x, x[:1], 0, 0, 1),
        "avg_pool": lambda x: F.avg_pool1d(x.mT[None], 2), "chunk": lambda x: x.chunk(2, 1), "one_hot": lambda x: F.one_hot((x[:, 0] > 0).long(), 2), "repeat_interleave": lambda x: x.repeat_interleave(2, 0), "instance_norm": lambda x: F.instance_norm(x.mT[None]), "batch_matmul": lambda x: torch.bmm(x[None], x.mT[None]), "nonzero": lambda x: torch.nonzero(x > 0).shape[0] * torch.ones(1),
        "scalar": lambda x: torch.scalar_tensor(x.shape[0]) + 1, "prod": lambda x: x.prod(0), "logsumexp": lambda x: x.logsumexp(0), "min": lambda x: tuple(x.min(0)), "scatter": lambda x: x.scatter(0, torch.zeros(1, 4, dtype=torch.long), 1.0), "mod": lambda x: x[: (x.shape[0] % 3) + 1],
    }  # fmt: skip
    for name, f in one.items():
        for dtype in (torch.float32, torch.float16):
            out.append(case(f"dynamic/{name}-{NAMES[dtype]}", f, normal(6, 4, dtype=dtype), more=tuple(normal(k, 4, dtype=dtype) for k in (7, 4, 1)), dynamic_shapes=(({0: n},),)))
    img: dict[str, Callable[..., Any]] = {
        "interp2": lambda x: F.interpolate(x, scale_factor=2.0, mode="bilinear"), "interp2a": lambda x: F.interpolate(x, scale_factor=1.5, mode="bilinear", align_corners=True), "interpn": lambda x: F.interpolate(x, scale_factor=2.0), "interps": lambda x: F.interpolate(x, size=(5, 7), mode="bilinear"),
        "interpsa": lambda x: F.interpolate(x, size=(5, 7), mode="bilinear", align_corners=True), "interpsn": lambda x: F.interpolate(x, size=(5, 7)), "maxpool": lambda x: F.max_pool2d(x, 2), "maxpool3": lambda x: F.max_pool2d(x, 3, 2, 1), "avgpool": lambda x: F.avg_pool2d(x, 2), "adaptive": lambda x: F.adaptive_avg_pool2d(x, 2),
        "conv": lambda x: F.conv2d(x, torch.ones(3, 2, 3, 3), padding=1), "convs": lambda x: F.conv2d(x, torch.ones(3, 2, 3, 3), stride=2), "convt": lambda x: F.conv_transpose2d(x, torch.ones(2, 3, 2, 2), stride=2), "pixel": lambda x: F.pixel_shuffle(torch.cat([x, x], 1), 2), "reflect": lambda x: F.pad(x, (1, 1, 1, 1), "reflect"),
        "replicate": lambda x: F.pad(x, (1, 2, 1, 1), "replicate"), "flatten": lambda x: x.flatten(2).mT, "mean": lambda x: x.mean((2, 3)), "same": lambda x: F.interpolate(x, size=x.shape[2:], mode="bilinear"), "double": lambda x: F.interpolate(x, size=(x.shape[2] * 2, x.shape[3]), mode="nearest"),
    }  # fmt: skip
    for name, f in img.items():
        out.append(case(f"dynamic/{name}-2d", f, normal(1, 2, 6, 8), more=(normal(1, 2, 7, 5), normal(1, 2, 4, 4)), dynamic_shapes=(({2: n, 3: m},),)))
    two: dict[str, Callable[..., Any]] = {
        "cat": lambda x, y: torch.cat([x, y], 0), "matmul": lambda x, y: x @ y.mT, "sdpa": lambda x, y: F.scaled_dot_product_attention(x[None, None], y[None, None], y[None, None]), "outer": lambda x, y: x[:, None] * y[None], "slice": lambda x, y: x[: y.shape[0]] if False else x[:1] + y[:1],
    }  # fmt: skip
    for name, f in two.items():
        out.append(case(f"dynamic/two-{name}", f, lambda g: (data((3, 4), torch.float32, g), data((5, 4), torch.float32, g)), more=(lambda g: (data((6, 4), torch.float32, g), data((2, 4), torch.float32, g)),), dynamic_shapes=(({0: n}, {0: m}),)))
    return out


def states() -> list[Case]:
    """Arguments that are written: states."""
    out = []
    writes: dict[str, Callable[..., Any]] = {
        "add": lambda s, x: s.add_(x), "mul": lambda s, x: s.mul_(x), "copy": lambda s, x: s.copy_(x), "row": lambda s, x: s[1:2].copy_(x[1:2]), "col": lambda s, x: s[:, 2].copy_(x[:, 2]), "zero": lambda s, x: s.zero_(), "clamp": lambda s, x: s.clamp_(-1, 1), "index_copy": lambda s, x: s.index_copy_(0, torch.tensor([2, 0]), x[:2]),
        "put": lambda s, x: s.index_put_((torch.tensor([2, 0]),), x[:2]), "fill": lambda s, x: s.masked_fill_(x > 0, 1), "sub2": lambda s, x: s.sub_(x, alpha=2), "div": lambda s, x: s.div_(2), "scatter": lambda s, x: s.scatter_(0, torch.zeros(1, 4, dtype=torch.long), x[:1]), "step": lambda s, x: s[::2].copy_(x[::2]), "scatter_add": lambda s, x: s.scatter_add_(0, torch.zeros(3, 4, dtype=torch.long), x),
        "shift": lambda s, x: s.copy_(torch.cat([s[1:], x[:1]])), "twice": lambda s, x: s.add_(x).mul_(s), "neg": lambda s, x: s.neg_(), "addn": lambda s, x: s.add_(3),
    }  # fmt: skip
    for name, w in writes.items():
        for dtype in [torch.float32, torch.float16, torch.bfloat16, torch.int32, torch.int8, torch.bool, torch.uint8]:
            def f(s: torch.Tensor, x: torch.Tensor, w: Callable[..., Any] = w) -> torch.Tensor:
                w(s, x)
                return s.clone() + x if s.dtype != torch.bool else s.clone() | x

            out.append(case(f"state/{name}-{NAMES[dtype]}", f, lambda g, d=dtype: (data((3, 4), d, g), data((3, 4), d, g))))
    return out


def compression() -> list[Case]:
    from coreai_torch._compression import custom_layers as c

    out = []
    floats = [torch.float32, torch.float16, torch.bfloat16]
    q = torch.ops.coreai

    def weight(module: Callable[..., nn.Module], dtype: torch.dtype, name: str, linear: int = 0) -> None:
        class Weighted(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.w = module()

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                w = self.w()
                if linear == 1:
                    return F.linear(x, w)
                if linear == 2:
                    return F.conv2d(x, w)
                if linear == 3:
                    return F.embedding((x > 0).long(), w)
                return w.to(x.dtype) + x.sum()

        args = {0: normal(4, dtype=dtype), 1: normal(2, 16, dtype=dtype), 2: normal(1, 8, 5, 5, dtype=dtype), 3: normal(2, 3, dtype=dtype)}[linear]
        out.append(case(f"compress/{name}", Weighted, args, module=True))

    for bits in (1, 2, 3, 4, 6, 8):
        for lut in [*floats, torch.int8, torch.uint8, torch.float8_e4m3fn, torch.float8_e5m2]:
            for groups in [(1, 1), (4, 1), (1, 2), (2, 4)]:
                for vector, along in [(1, None), (2, 0), (2, 1), (4, -1), (1, 1)]:
                    if lut not in (torch.float32, torch.float16) and (groups != (2, 4) or along not in (None, 0)):
                        continue
                    if bits in (1, 3, 6, 8) and groups not in ((1, 1), (2, 4)):
                        continue
                    shape = [8, 16]
                    if along is not None:
                        shape[along] //= vector

                    def palettized(bits: int = bits, lut: torch.dtype = lut, groups: tuple[int, ...] = groups, vector: int = vector, axis: Any = along, shape: list[int] = shape) -> nn.Module:
                        table = torch.randn(*groups, 2**bits, vector) if lut.is_floating_point else torch.randint(0, 99, (*groups, 2**bits, vector))
                        return c.PalettizeModule(torch.randint(0, 2**bits, shape).to(torch.uint8), table.to(lut), axis)

                    dtype = lut if lut in floats else torch.float32
                    weight(palettized, dtype, f"lut-{bits}-{str(lut)[6:]}-{groups}-{vector}-{along}", 1 if lut in floats and groups == (2, 4) else 0)
        weight(lambda bits=bits: c.PalettizeModule(torch.randint(0, 2**bits, (4, 8, 2, 2)).to(torch.uint8), torch.randn(2, 1, 1, 1, 2**bits, 1)), torch.float32, f"lut-conv-{bits}", 2)
        weight(lambda bits=bits: c.PalettizeModule(torch.randint(0, 2**bits, (6, 8)).to(torch.uint8), torch.randn(1, 1, 2**bits, 1)), torch.float32, f"lut-emb-{bits}", 3)
        for st in floats:
            weight(lambda bits=bits, st=st: c.ScaledPalettizeModule(torch.randint(0, 2**bits, (8, 16)).to(torch.uint8), torch.randint(-128, 127, (1, 1, 2**bits, 1)).to(torch.int8), torch.rand(8, 1).to(st)), st, f"scaledlut-{bits}-{NAMES[st]}", 1)
            weight(lambda bits=bits, st=st: c.ScaledPalettizeModule(torch.randint(0, 2**bits, (8, 16)).to(torch.uint8), torch.randint(-128, 127, (1, 1, 2**bits, 1)).to(torch.int8), torch.rand(8, 1).to(st), zero_point=torch.randint(-9, 9, (8, 1)).to(torch.int8)), st, f"scaledlutzp-{bits}-{NAMES[st]}", 1)
            weight(lambda bits=bits, st=st: c.ScaledPalettizeModule(torch.randint(0, 2**bits, (8, 16)).to(torch.uint8), torch.randn(1, 1, 2**bits, 1).to(torch.float8_e4m3fn), torch.rand(8, 1).to(st), output_dtype=st), st, f"scaledlutf8-{bits}-{NAMES[st]}", 1)
    ints = [("int8", torch.int8, -128, 127), ("uint8", torch.uint8, 0, 255), ("int4", torch.int8, -8, 7), ("uint4", torch.uint8, 0, 15), ("int2", torch.int8, -2, 1), ("uint2", torch.uint8, 0, 3), ("uint1", torch.uint8, 0, 1), ("uint3", torch.uint8, 0, 7), ("uint6", torch.uint8, 0, 63)]
    for name, kind, low, high in ints:
        logical = getattr(torch, name)
        for st in floats:
            for blocks in [(1, 1), (8, 1), (8, 4), (2, 2), (1, 16)]:
                for mode in ("none", "zp", "min"):

                    def make(kind: Any = kind, low: int = low, high: int = high, st: Any = st, blocks: tuple[int, ...] = blocks, mode: str = mode, logical: Any = logical) -> nn.Module:
                        return c.WeightDequantizeModule(
                            torch.randint(low, high + 1, (8, 16)).to(kind),
                            torch.rand(blocks).to(st),
                            zero_point=torch.randint(low, high + 1, blocks).to(kind) if mode == "zp" else None,
                            minval=torch.randn(blocks).to(st) if mode == "min" else None,
                            input_dtype=logical,
                        )

                    weight(make, st, f"int-{name}-{NAMES[st]}-{blocks}-{mode}", 1 if blocks != (2, 2) else 0)
        weight(lambda kind=kind, low=low, high=high, logical=logical: c.WeightDequantizeModule(torch.randint(low, high + 1, (4, 8, 2, 2)).to(kind), torch.rand(4, 1, 1, 1), input_dtype=logical), torch.float32, f"int-conv-{name}", 2)
        weight(lambda kind=kind, low=low, high=high, logical=logical: c.WeightDequantizeModule(torch.randint(low, high + 1, (6, 8)).to(kind), torch.rand(6, 2), input_dtype=logical), torch.float32, f"int-emb-{name}", 3)
    for st in floats:
        for f8 in (torch.float8_e4m3fn, torch.float8_e5m2):
            for blocks in [(1, 1), (8, 1), (8, 4)]:
                weight(lambda f8=f8, st=st, blocks=blocks: c.WeightDequantizeModule(torch.randn(8, 16).to(f8), torch.rand(blocks).to(st), output_dtype=st), st, f"fp-{str(f8)[6:]}-{NAMES[st]}-{blocks}", 1)
                weight(lambda f8=f8, st=st, blocks=blocks: c.WeightDequantizeModule(torch.randn(8, 16).to(f8), torch.exp2(torch.randint(-4, 4, blocks).float()).to(torch.float8_e8m0fnu), output_dtype=st), st, f"fp-{str(f8)[6:]}-e8m0-{NAMES[st]}-{blocks}", 1)
        for blocks in [(1, 1), (8, 1), (8, 4)]:
            weight(lambda st=st, blocks=blocks: c.WeightDequantizeModule(torch.randint(0, 256, (8, 8)).to(torch.uint8), torch.exp2(torch.randint(-4, 4, blocks).float()).to(torch.float8_e8m0fnu), output_dtype=st), st, f"fp4-{NAMES[st]}-{blocks}", 1)
        for density in (0.0, 0.3, 1.0):

            def sparse(st: Any = st, density: float = density) -> nn.Module:
                mask = torch.rand(8, 16) < density
                return c.SparseModule(torch.randn(int(mask.sum())).to(st), mask.to(torch.uint8))

            weight(sparse, st, f"sparse-{density}-{NAMES[st]}", 1)

        def joint(st: Any = st) -> nn.Module:
            class Joint(nn.Module):
                def __init__(self) -> None:
                    super().__init__()
                    mask = torch.rand(8, 16) < 0.5
                    self.register_buffer("mask", mask.to(torch.uint8))
                    self.register_buffer("v", torch.randint(-128, 127, (int(mask.sum()),)).to(torch.int8))
                    self.register_buffer("s", torch.rand(8, 1).to(st))

                def forward(self) -> torch.Tensor:
                    return q.constexpr_blockwise_shift_scale(q.sparse_to_dense(self.v, self.mask), self.s)

            return Joint()

        weight(joint, st, f"sparse-int8-{NAMES[st]}", 1)
    act = [*ints[:4], ("float8_e4m3fn", torch.float8_e4m3fn, 0, 0), ("float8_e5m2", torch.float8_e5m2, 0, 0)]
    for name, kind, low, high in act:
        own = getattr(torch, name)
        for st in floats:
            for per in ("tensor", "channel0", "channel1"):
                for mode in ("none", "zp", "min"):
                    if kind.is_floating_point and mode != "none":
                        continue
                    axis = 0 if per != "channel1" else 1

                    class Fake(nn.Module):
                        def __init__(self, st: Any = st, per: str = per, mode: str = mode, axis: int = axis, kind: Any = kind, low: int = low, high: int = high, logical: Any = own) -> None:
                            super().__init__()
                            n = 1 if per == "tensor" else (4, 16)[axis]
                            shape = (n,) if per != "tensor" else ()
                            self.register_buffer("s", (torch.rand(shape) * 0.05 + 0.01).to(st))
                            self.register_buffer("zp", torch.randint(low, high + 1, shape).to(kind) if mode == "zp" else None)
                            self.register_buffer("mv", torch.randn(shape).to(st) if mode == "min" else None)
                            self.axis, self.kind, self.logical, self.st = axis, kind, logical, st
                            self.whole = kind in (torch.int8, torch.uint8) and high > 15

                        def forward(self, x: torch.Tensor) -> Any:
                            y = q.quantize(x, self.s, self.logical if not self.whole else self.kind, self.zp, self.mv, self.axis)
                            return q.dequantize(y, self.s, self.zp, self.mv, self.axis, self.logical, self.st)

                    out.append(case(f"activation/{name}-{NAMES[st]}-{per}-{mode}", Fake, normal(4, 16, dtype=st, scale=2), module=True, tolerance=(1e-2, 6e-2)))
                    out.append(case(f"activation/{name}-{NAMES[st]}-{per}-{mode}-edge", Fake, lambda g, st=st: (torch.tensor([*EDGE, *EDGE, *EDGE])[:64].reshape(4, 16).to(st),), module=True, tolerance=(1e-2, 6e-2)))
    return out


def random_ops() -> list[Case]:
    out = []
    for name, f in {"rand": lambda x: x + torch.rand(5) * 0, "randn_like": lambda x: x + torch.randn_like(x) * 0, "bernoulli": lambda x: torch.bernoulli(x.abs().clamp(0, 1)), "dropout": lambda x: F.dropout(x, 0.5, False), "multinomial": lambda x: torch.multinomial(x.abs(), 2), "randint": lambda x: x + torch.randint(0, 2, (5,)) * 0, "randperm": lambda x: x[torch.randperm(5)].sum()}.items():
        out.append(case(f"random/{name}", f, normal(5)))
    return out


def edges() -> list[Case]:
    """Small modules around single edge values."""
    out = []
    nan, inf = float("nan"), float("inf")
    t = torch.tensor
    values = {
        "nan": t([nan, 1.0, -1.0]), "inf": t([inf, -inf, 0.0]), "mixed": t([nan, inf, -inf, -0.0, 1e38]), "allnan": t([nan, nan]), "allneginf": t([-inf, -inf]), "big": t([3e38, 3e38]), "zero": t([0.0, -0.0]), "sub": t([1e-45, -1e-40]),
    }  # fmt: skip
    fs: dict[str, Callable[..., Any]] = {
        "softmax": lambda x: x.softmax(0), "log_softmax": lambda x: x.log_softmax(0), "logsumexp": lambda x: x.logsumexp(0), "amax": lambda x: x.amax(0), "amin": lambda x: x.amin(0), "argmax": lambda x: x.argmax(0), "argmin": lambda x: x.argmin(0), "max": lambda x: x.max(), "min": lambda x: x.min(), "maxd": lambda x: tuple(x.max(0)), "mind": lambda x: tuple(x.min(0)),
        "sort": lambda x: tuple(x.sort(0)), "sortd": lambda x: tuple(x.sort(0, descending=True)), "topk": lambda x: tuple(x.topk(1)), "topks": lambda x: tuple(x.topk(1, largest=False)), "cumsum": lambda x: x.cumsum(0), "sum": lambda x: x.sum(), "mean": lambda x: x.mean(), "prod": lambda x: x.prod(), "var": lambda x: x.var(), "std": lambda x: x.std(), "norm": lambda x: x.norm(), "any": lambda x: x.any(), "all": lambda x: x.all(),
        "nonzero": lambda x: x.nonzero(), "count": lambda x: x.count_nonzero(), "layer": lambda x: F.layer_norm(x, x.shape), "clamp": lambda x: x.clamp(-1, 1), "clampnan": lambda x: x.clamp(nan, 1), "relu": lambda x: x.relu(), "max0": lambda x: torch.maximum(x, t(0.0)), "where": lambda x: torch.where(x > 0, x, -x), "eq": lambda x: x == x, "ne": lambda x: x != x, "lt": lambda x: x < 0, "ge": lambda x: x >= x, "toint": lambda x: x.int(), "toi8": lambda x: x.to(torch.int8), "tou8": lambda x: x.to(torch.uint8), "tobool": lambda x: x.bool(), "half": lambda x: x.half(), "bf": lambda x: x.bfloat16(),
        "halfback": lambda x: x.half().float(), "pow": lambda x: x**x, "pow0": lambda x: x**0.0, "rpow": lambda x: 0.0**x, "fmod": lambda x: torch.fmod(x, t(2.0)), "rem": lambda x: torch.remainder(x, t(2.0)), "rem0": lambda x: torch.remainder(x, t(0.0)), "fdiv0": lambda x: x // t(0.0), "div0": lambda x: x / 0.0, "fdivinf": lambda x: x // t(inf), "matmul": lambda x: x[None] @ x[:, None], "trunc": lambda x: x.trunc(), "frac": lambda x: x.frac(), "sign": lambda x: x.sign(), "isnan": lambda x: x.isnan(), "isinf": lambda x: x.isinf(), "isfinite": lambda x: x.isfinite(),
        "n2n": lambda x: x.nan_to_num(), "n2n2": lambda x: x.nan_to_num(1.0, 2.0, 3.0), "sdpa": lambda x: F.scaled_dot_product_attention(x[None, :, None], x[None, :, None], x[None, :, None]), "gelu": lambda x: F.gelu(x), "gelut": lambda x: F.gelu(x, approximate="tanh"), "silu": lambda x: F.silu(x), "tanh": lambda x: x.tanh(), "sigmoid": lambda x: x.sigmoid(), "maxpool": lambda x: F.max_pool1d(x[None], 2), "avgpool": lambda x: F.avg_pool1d(x[None], 2), "median": lambda x: x.median(), "cummax": lambda x: x.cummax(0).values, "atan2": lambda x: torch.atan2(x, x.flip(0)), "hypot": lambda x: torch.hypot(x, x), "round": lambda x: x.round(), "floor": lambda x: x.floor(), "ceil": lambda x: x.ceil(), "reciprocal": lambda x: 1 / x, "rsqrt": lambda x: x.rsqrt(), "interp": lambda x: F.interpolate(x[None, None, None], size=(1, 5), mode="bilinear"), "unique": lambda x: x.unique(), "linear": lambda x: F.linear(x, x[None]), "exp": lambda x: x.exp(), "expm1": lambda x: x.expm1(), "log": lambda x: x.log(), "log1p": lambda x: x.log1p(), "erf": lambda x: x.erf(), "sin": lambda x: x.sin(),
    }  # fmt: skip
    for (name, f), (kind, v) in itertools.product(fs.items(), values.items()):
        for dtype in (torch.float32, torch.float16):
            out.append(case(f"edge/{name}-{kind}-{NAMES[dtype]}", f, (v.to(dtype),)))
    for dtype in (torch.int8, torch.int16, torch.int32, torch.uint8):
        low, high = torch.iinfo(dtype).min, torch.iinfo(dtype).max
        x = t([low, high, 1, 0 if low == 0 else -1, 100], dtype=dtype)
        for name, f in {
            "addself": lambda x: x + x, "mulself": lambda x: x * x, "neg": lambda x: -x, "abs": lambda x: x.abs(), "sub": lambda x: x - x.flip(0), "add1": lambda x: x + 1, "mul2": lambda x: x * 2, "sum": lambda x: x.sum(), "prod": lambda x: x.prod(), "cumsum": lambda x: x.cumsum(0), "mean": lambda x: x.float().mean(), "rem": lambda x: x % 7, "fdiv": lambda x: x // 7, "div": lambda x: x / 7, "not": lambda x: ~x, "and": lambda x: x & 15, "xor": lambda x: x ^ x.flip(0), "shift": lambda x: x << 2, "shiftr": lambda x: x >> 2, "pow": lambda x: x**2, "clamp": lambda x: x.clamp(-5, 5), "max": lambda x: x.max(), "min": lambda x: x.min(), "argmax": lambda x: x.argmax(), "argmin": lambda x: x.argmin(), "sort": lambda x: tuple(x.sort()), "sortd": lambda x: tuple(x.sort(descending=True)), "topk": lambda x: tuple(x.topk(2)), "float": lambda x: x.float(), "half": lambda x: x.half(), "i8": lambda x: x.to(torch.int8), "u8": lambda x: x.to(torch.uint8), "i16": lambda x: x.to(torch.int16), "i64": lambda x: x.long() * 3, "rdiv": lambda x: 7 // (x | 1), "eq": lambda x: x == x.flip(0), "sign": lambda x: x.sign(), "amin": lambda x: x.amin(0), "remself": lambda x: torch.remainder(x, t([3, -3, 2, -2, 7]).to(x.dtype)) if x.dtype != torch.uint8 else x, "fmodself": lambda x: torch.fmod(x, t([3, -3, 2, -2, 7]).to(x.dtype)) if x.dtype != torch.uint8 else x,
        }.items():  # fmt: skip
            out.append(case(f"edge/{name}-{NAMES[dtype]}", f, (x,)))
    return out


def cases(seed: int) -> list[Case]:
    """Every case."""
    found = []
    for family in (elementwise, reductions, matrices, convolutions, interpolation, norms, shapes, indexing, attention, control, complexes, dynamic, states, compression, random_ops, edges):
        found += family()
    names = [c.name for c in found]
    assert len(set(names)) == len(names), [n for n in names if names.count(n) > 1][:5]
    return found
