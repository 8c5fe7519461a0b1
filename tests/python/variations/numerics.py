"""What a value becomes on the way: truncated, saturated, narrowed, rounded; where it starts."""

import torch
import torch.nn.functional as F
from coreai_audit import Call
from torch import nn

from variation import expect

ONE = torch.ones


@expect("float-int-float", "no-prefix-reuse")
def truncation_scaled_state():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("acc", torch.zeros(1, 4))

        def forward(self, x):
            q = torch.round(x * 3.3).to(torch.int32)
            z = (x * 1.9).to(torch.int64).to(torch.float32)
            self.acc.mul_(0.5).add_(z * 0.25)
            return self.acc * 2 + q.float() * 0

    return dict(
        module=M().eval(),
        args=(torch.tensor([[1.0, 2.0, 3.5, -1.2]]),),
        input_names=["x"],
        output_names=["y"],
        state_names=["acc"],
    )


@expect("float-int-float")
def quantise_and_back_float_scale():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.lin = nn.Linear(4, 4)
            with torch.no_grad():
                self.lin.weight.copy_(torch.arange(16.0).view(4, 4) / 7)
                self.lin.bias.zero_()

        def forward(self, x):
            s = x.abs().amax(-1, keepdim=True) / 20
            q = (x / s).long().float()
            return self.lin(q * s)

    return dict(
        module=M().eval(),
        args=(torch.tensor([[1.05, 2.17, 3.53, -1.21]]),),
        input_names=["x"],
        output_names=["y"],
        state_names=[],
    )


@expect("initial-value-lost", "no-prefix-reuse")
def bool_flags_start_true():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("alive", torch.ones(4, dtype=torch.bool))

        def forward(self, x):
            self.alive.logical_and_(x > 0)
            return torch.where(self.alive, x, torch.zeros_like(x))

    xs = [(torch.tensor([1.0, 2, 3, 4]),), (torch.tensor([1.0, -2, 3, 4]),), (torch.tensor([1.0, 2, -3, 4]),)]
    return dict(
        module=M().eval(), args=xs[0], calls=xs, input_names=["x"], output_names=["y"], state_names=["alive"]
    )


@expect("initial-value-lost", "no-prefix-reuse", "reads-unwritten-rows", "runtime-index-write")
def position_starts_at_minus_one():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("pos", torch.full((1,), -1, dtype=torch.int32))
            self.register_buffer("rows", torch.zeros(1, 8, 4))

        def forward(self, x):
            self.pos.add_(1)
            self.rows.index_copy_(1, self.pos.long(), x)
            return self.rows.cumsum(1).sum(1)

    return dict(
        module=M().eval(),
        args=(ONE(1, 1, 4),),
        input_names=["x"],
        output_names=["y"],
        state_names=["pos", "rows"],
    )


@expect("no-prefix-reuse")
def floor_stays_in_float():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("acc", torch.zeros(1, 4))

        def forward(self, x):
            self.acc.add_(torch.trunc(x * 2.7))
            return torch.floor(self.acc * 0.37)

    return dict(
        module=M().eval(), args=(ONE(1, 4),), input_names=["x"], output_names=["y"], state_names=["acc"]
    )


@expect("int64-narrowed", "no-prefix-reuse")
def counters_of_all_widths():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("a", torch.zeros(1, dtype=torch.int32))
            self.register_buffer("b", torch.zeros(1, dtype=torch.int64))
            self.register_buffer("c", torch.zeros((), dtype=torch.int32))

        def forward(self, x):
            self.a.add_(1)
            self.b.add_(2)
            self.c.add_(3)
            return x * self.a + self.b - self.c

    return dict(
        module=M().eval(), args=(ONE(3),), input_names=["x"], output_names=["y"], state_names=["a", "b", "c"]
    )


@expect("float-int-float", "no-prefix-reuse")
def fif_half_int16():
    class M(nn.Module):
        def __init__(s):
            super().__init__()
            s.register_buffer("h", torch.zeros(4, dtype=torch.float16))

        def forward(s, x):
            s.h.add_(x)
            return s.h.to(torch.int32).half() * 2

    C = lambda: dict(
        module=M().eval(),
        args=(torch.tensor([0.11, 0.22, 0.37, 0.49]).half(),),
        input_names=["x"],
        output_names=["y"],
        state_names=["h"],
    )
    return C()


@expect("no-prefix-reuse")
def fif_bool_roundtrip_looks_like():
    class M(nn.Module):
        def __init__(s):
            super().__init__()
            s.register_buffer("h", torch.zeros(4))

        def forward(s, x):
            s.h.add_(x)
            return s.h.bool().float() + (s.h > 1).int().float()

    C = lambda: dict(
        module=M().eval(),
        args=(torch.tensor([0.3, 0.6, 0.0, -0.4]),),
        input_names=["x"],
        output_names=["y"],
        state_names=["h"],
    )
    return C()


@expect("no-prefix-reuse")
def fif_round_then_cast_harmless():
    class M(nn.Module):
        def __init__(s):
            super().__init__()
            s.register_buffer("h", torch.zeros(4))

        def forward(s, x):
            s.h.add_(x)
            return s.h.round().to(torch.int32).float()

    C = lambda: dict(
        module=M().eval(),
        args=(torch.tensor([0.3, 0.6, 0.0, -0.4]),),
        input_names=["x"],
        output_names=["y"],
        state_names=["h"],
    )
    return C()


@expect("no-prefix-reuse")
def good_trunc_and_int_use():
    class M(nn.Module):
        def __init__(s):
            super().__init__()
            s.register_buffer("h", torch.zeros(4))
            s.register_buffer("t", torch.arange(40.0))

        def forward(s, x):
            s.h.add_(x)
            i = s.h.to(torch.int64)
            return torch.trunc(s.h) + s.t[i]

    C = lambda: dict(
        module=M().eval(),
        args=(torch.tensor([0.11, 0.22, 0.37, 0.49]),),
        input_names=["x"],
        output_names=["y"],
        state_names=["h"],
    )
    return C()


@expect("no-prefix-reuse")
def good_int32_wraps():
    class M(nn.Module):
        def __init__(s):
            super().__init__()
            s.register_buffer("c", torch.full((4,), 0, dtype=torch.int32))

        def forward(s, x):
            s.c.add_(x)
            return s.c * 3

    C = lambda: dict(
        module=M().eval(),
        args=(torch.full((4,), 2000000000, dtype=torch.int32),),
        input_names=["x"],
        output_names=["y"],
        state_names=["c"],
    )
    return C()


@expect()
def good_initial_overwritten_first():
    class M(nn.Module):
        def __init__(s):
            super().__init__()
            s.register_buffer("h", torch.full((1, 4), 7.0))

        def forward(s, x):
            s.h.copy_(x * 2)
            return s.h + 1

    C = lambda: dict(
        module=M().eval(), args=(torch.ones(1, 4),), input_names=["x"], output_names=["y"], state_names=["h"]
    )
    return C()


@expect("initial-value-lost", "no-prefix-reuse")
def init_value_only_matters_in_second_layer_cond():
    class M(nn.Module):
        def __init__(s):
            super().__init__()
            s.register_buffer("scale", torch.full((2,), 0.5))
            s.register_buffer("h", torch.zeros(2, 4))

        def forward(s, x):
            s.scale.mul_(1.1)
            y = torch.cond(
                x.sum() > 5, lambda a, b: a * b, lambda a, b: a + 0 * b, (x, s.scale[:, None].clone())
            )
            s.h.add_(y)
            return s.h * 1.0 + 1

    C = lambda: dict(
        module=M().eval(),
        args=(torch.ones(2, 4),),
        input_names=["x"],
        output_names=["y"],
        state_names=["scale", "h"],
        calls=[(torch.ones(2, 4) * v,) for v in (0.1, 0.2, 3.0, 4.0)],
    )
    return C()


@expect("no-prefix-reuse", "values-differ")
def masked_row_float_inf_later_step():
    class M(nn.Module):
        def __init__(s):
            super().__init__()
            s.register_buffer("k", torch.zeros(1, 2, 6, 8))
            s.register_buffer("v", torch.zeros(1, 2, 6, 8))

        def forward(s, q, kk, vv, mask):
            s.k.copy_(torch.cat([s.k[:, :, 1:], kk], 2))
            s.v.copy_(torch.cat([s.v[:, :, 1:], vv], 2))
            return F.scaled_dot_product_attention(q, s.k, s.v, attn_mask=mask)

    def calls():
        g = torch.Generator().manual_seed(0)
        r = lambda: torch.randn(1, 2, 1, 8, generator=g)
        m = torch.ones(1, 1, 1, 6, dtype=torch.bool)
        z = torch.zeros(1, 1, 1, 6, dtype=torch.bool)
        return [(r(), r(), r(), m), (r(), r(), r(), m), (r(), r(), r(), z), (r(), r(), r(), m)]

    C = lambda: dict(
        module=M().eval(),
        args=calls()[0],
        input_names=["q", "kk", "vv", "mask"],
        output_names=["y"],
        state_names=["k", "v"],
        calls=calls(),
    )
    return C()


@expect("int64-narrowed", "no-prefix-reuse")
def narrow_int64_counter_beyond_2_31():
    class M(nn.Module):
        def __init__(s):
            super().__init__()
            s.register_buffer("n", torch.zeros(1, dtype=torch.int64))

        def forward(s, x):
            s.n.add_(1500000000)
            return x + (s.n > 2000000000).to(torch.float32)

    C = lambda: dict(
        module=M().eval(), args=(torch.ones(1),), input_names=["x"], output_names=["y"], state_names=["n"]
    )
    return C()


@expect("initial-value-lost", "narrow-integer-saturates", "no-prefix-reuse")
def narrow_int16_mul():
    class M(nn.Module):
        def __init__(s):
            super().__init__()
            s.register_buffer("h", torch.ones(2, 4, dtype=torch.int16))

        def forward(s, x):
            s.h.mul_(100)
            s.h.add_(x)
            return s.h + 1

    C = lambda: dict(
        module=M().eval(),
        args=(torch.ones(2, 4, dtype=torch.int16),),
        input_names=["x"],
        output_names=["y"],
        state_names=["h"],
    )
    return C()


@expect("narrow-integer-saturates", "no-prefix-reuse", "reads-unwritten-rows", "runtime-index-write")
def narrow_int8_kv_quant():
    class M(nn.Module):
        def __init__(s):
            super().__init__()
            s.register_buffer("k", torch.zeros(1, 4, 4, dtype=torch.int8))

        def forward(s, x, p):
            s.k.index_copy_(1, p, (x * 100).round().to(torch.int8))
            return s.k.float().sum(1) / 100

    C = lambda: dict(
        module=M().eval(),
        args=(torch.full((1, 1, 4), 1.6), torch.tensor([0])),
        input_names=["x", "p"],
        output_names=["y"],
        state_names=["k"],
        calls=[(torch.full((1, 1, 4), 1.0 + 0.3 * p), torch.tensor([p])) for p in range(4)],
    )
    return C()


@expect("narrow-integer-saturates", "no-prefix-reuse", "promoted-input", "promoted-input")
def saturate_list_kw_8_calls():
    class M(nn.Module):
        def forward(s, x, *, counters):
            for c in counters:
                c.mul_(3)
                c.add_(1)
            return x * counters[-1].float()

    def C():
        cs = [torch.ones(4, dtype=torch.uint8), torch.ones(4, dtype=torch.int8)]
        return dict(
            module=M().eval(),
            args=(torch.ones(4),),
            kwargs=dict(counters=cs),
            input_names=["x"],
            output_names=["y"],
            state_names=["c0", "c1"],
            calls=[Call((torch.ones(4),), dict(counters=cs)) for _ in range(8)],
        )

    return C()


def phase(forward):
    """An oscillator that keeps the fraction of its phase."""

    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("ph", torch.zeros(2))

    M.forward = forward
    calls = [(torch.tensor([0.7, 0.4]),) for _ in range(5)]
    return dict(
        module=M().eval(), args=calls[0], calls=calls, input_names=["x"], output_names=["y"], state_names=["ph"]
    )


@expect("float-int-float")
def fraction_of_a_phase_in_place():
    def forward(self, x):
        self.ph.add_(x)
        self.ph.sub_(self.ph.int().float())
        return self.ph * 3

    return phase(forward)


@expect("float-int-float")
def fraction_of_a_phase_copied():
    def forward(self, x):
        self.ph.copy_(self.ph + x - (self.ph + x).int().float())
        return self.ph * 3

    return phase(forward)


@expect("float-int-float")
def fraction_of_a_phase_promoted():
    def forward(self, x):
        self.ph.add_(x)
        self.ph.sub_(self.ph.long())
        return self.ph * 3

    return phase(forward)
