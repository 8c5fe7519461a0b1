"""Writes by position, rows nobody wrote, prefixes: what a consumer must know of a cache."""

import torch
import torch.nn.functional as F
from torch import nn

from variation import expect

ONE = torch.ones


def masked(k, v, q, pos):
    rows = torch.arange(k.shape[-2])
    mask = (rows <= pos.max()).view(1, 1, 1, -1)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


@expect("no-prefix-reuse", "reads-unwritten-rows", "runtime-index-write")
def int8_cache_mean_with_scales():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("k8", torch.zeros(1, 6, 4, dtype=torch.int8))
            self.register_buffer("ks", torch.zeros(1, 6, 1))

        def forward(self, x, pos):
            s = x.abs().amax(-1, keepdim=True) / 127
            q = torch.round(x / s).clamp(-127, 127).to(torch.int8)
            self.k8.index_copy_(1, pos, q)
            self.ks.index_copy_(1, pos, s)
            return (self.k8.float() * self.ks).mean(1)

    torch.manual_seed(1)
    calls = [(torch.randn(1, 1, 4), torch.tensor([i])) for i in range(4)]
    return dict(
        module=M().eval(),
        args=calls[0],
        calls=calls,
        input_names=["x", "pos"],
        output_names=["y"],
        state_names=["k8", "ks"],
    )


@expect("no-prefix-reuse", "reads-unwritten-rows", "reads-unwritten-rows", "runtime-index-write")
def attention_without_mask():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("k", torch.zeros(1, 2, 8, 4))
            self.register_buffer("v", torch.zeros(1, 2, 8, 4))

        def forward(self, q, pos):
            self.k.index_copy_(2, pos, q)
            self.v.index_copy_(2, pos, q * 2)
            return nn.functional.scaled_dot_product_attention(q, self.k, self.v)

    torch.manual_seed(2)
    calls = [(torch.randn(1, 2, 1, 4), torch.tensor([i])) for i in range(4)]
    return dict(
        module=M().eval(),
        args=calls[0],
        calls=calls,
        input_names=["q", "pos"],
        output_names=["y"],
        state_names=["k", "v"],
    )


@expect("reads-unwritten-rows", "write-in-unexpected-row")
def offset_from_mask_length():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("mem", torch.zeros(1, 2, 16, 4))

        def forward(self, hidden, attention_mask):
            n = hidden.shape[2]
            start = attention_mask.shape[1] - n
            torch._check(start >= 0)
            torch._check(start + n <= 16)
            self.mem[:, :, start : start + n] = hidden
            return self.mem.sum(2)

    n, p = torch.export.Dim("n", min=1, max=8), torch.export.Dim("p", min=1, max=16)
    return dict(
        module=M().eval(),
        args=(ONE(1, 2, 2, 4), ONE(1, 6)),
        dynamic_shapes={"hidden": {2: n}, "attention_mask": {1: p}},
        input_names=["hidden", "attention_mask"],
        output_names=["y"],
        state_names=["mem"],
    )


@expect("empty-reduction", "no-prefix-reuse")
def max_over_empty_context():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("ctx", torch.zeros(2, 0, 4))
            self.register_buffer("n", torch.zeros(1))

        def forward(self, x):
            self.n.add_(1)
            self.ctx.mul_(2.0)
            return x + self.ctx.sum(1) + self.n

    return dict(
        module=M().eval(), args=(ONE(2, 4),), input_names=["x"], output_names=["y"], state_names=["ctx", "n"]
    )


@expect("int64-narrowed", "no-prefix-reuse", "promoted-input", "reads-unwritten-rows", "runtime-index-write")
def position_argument_incremented():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("k", torch.zeros(1, 8, 4))

        def forward(self, x, pos):
            self.k.index_copy_(1, pos, x)
            pos.add_(1)
            return self.k.sum(1)

    return dict(
        module=M().eval(),
        args=(ONE(1, 1, 4), torch.tensor([0])),
        input_names=["x"],
        output_names=["y"],
        state_names=["k", "pos"],
    )


@expect("output-vanished")
def cache_returned_with_logits():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("k", torch.zeros(1, 8, 4))

        def forward(self, x, pos):
            self.k.index_copy_(1, pos, x)
            return self.k.sum(1), self.k

    return dict(
        module=M().eval(),
        args=(ONE(1, 1, 4), torch.tensor([0])),
        input_names=["x", "pos"],
        output_names=["y", "k_out"],
        state_names=["k"],
    )


@expect("runtime-index-write")
def kv_half_tensor_position():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("k", torch.zeros(2, 2, 8, 4, dtype=torch.float16))
            self.register_buffer("v", torch.zeros(2, 2, 8, 4, dtype=torch.float16))

        def forward(self, q, pos):
            self.k.index_copy_(2, pos, q)
            self.v.index_copy_(2, pos, q * 2)
            return masked(self.k, self.v, q, pos)

    torch.manual_seed(0)
    calls = [(torch.randn(2, 2, 1, 4).half(), torch.tensor([i])) for i in range(4)]
    return dict(
        module=M().eval(),
        args=calls[0],
        calls=calls,
        input_names=["q", "pos"],
        output_names=["y"],
        state_names=["k", "v"],
    )


@expect("runtime-index-write")
def int8_cache_with_scales_masked():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("k8", torch.zeros(1, 6, 4, dtype=torch.int8))
            self.register_buffer("ks", torch.zeros(1, 6, 1))

        def forward(self, x, pos):
            s = x.abs().amax(-1, keepdim=True) / 127
            q = torch.round(x / s).clamp(-127, 127).to(torch.int8)
            self.k8.index_copy_(1, pos, q)
            self.ks.index_copy_(1, pos, s)
            seen = (torch.arange(6) <= pos).view(1, 6, 1)
            k = self.k8.float() * self.ks
            return torch.where(seen, k, torch.zeros_like(k)).sum(1)

    torch.manual_seed(1)
    calls = [(torch.randn(1, 1, 4), torch.tensor([i])) for i in range(4)]
    return dict(
        module=M().eval(),
        args=calls[0],
        calls=calls,
        input_names=["x", "pos"],
        output_names=["y"],
        state_names=["k8", "ks"],
    )


@expect("runtime-index-write")
def beam_reorder_in_place():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("k", torch.zeros(3, 6, 4))

        def forward(self, x, beams, pos):
            self.k.copy_(self.k.index_select(0, beams))
            self.k.index_copy_(1, pos, x)
            seen = (torch.arange(6) <= pos).view(1, 6, 1)
            return torch.where(seen, self.k, torch.zeros_like(self.k)).sum(1)

    torch.manual_seed(0)
    calls = [(torch.randn(3, 1, 4), torch.tensor([2, 0, 1]), torch.tensor([i])) for i in range(4)]
    return dict(
        module=M().eval(),
        args=calls[0],
        calls=calls,
        input_names=["x", "beams", "pos"],
        output_names=["y"],
        state_names=["k"],
    )


@expect("no-prefix-reuse")
def gru_and_conv_state():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.cell = nn.GRUCell(4, 4)
            self.register_buffer("conv", torch.zeros(1, 4, 3))
            self.register_buffer("h", torch.zeros(1, 4))

        def forward(self, x):
            self.conv.copy_(torch.cat([self.conv[..., 1:], x[..., None]], -1))
            self.h.copy_(self.cell(self.conv.sum(-1), self.h))
            return self.h * 2

    torch.manual_seed(0)
    calls = [(torch.randn(1, 4),) for i in range(4)]
    return dict(
        module=M().eval(),
        args=calls[0],
        calls=calls,
        input_names=["x"],
        output_names=["y"],
        state_names=["conv", "h"],
    )


@expect("runtime-index-write")
def stacked_cache_slice_write():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("kv", torch.zeros(2, 2, 1, 2, 8, 4))

        def forward(self, q, pos):
            p = pos.item()
            torch._check(p >= 0)
            torch._check(p + 1 <= 8)
            for i in range(2):
                self.kv[i, 0, :, :, p : p + 1] = q
                self.kv[i, 1, :, :, p : p + 1] = q * 2
                q = q + masked(self.kv[i, 0], self.kv[i, 1], q, pos)
            return q

    torch.manual_seed(0)
    calls = [(torch.randn(1, 2, 1, 4), torch.tensor([i])) for i in range(4)]
    return dict(
        module=M().eval(),
        args=calls[0],
        calls=calls,
        input_names=["q", "pos"],
        output_names=["y"],
        state_names=["kv"],
    )


@expect("no-prefix-reuse", "runtime-index-write")
def token_history_penalty():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("hist", torch.zeros(1, 6, dtype=torch.int32))
            self.register_buffer("n", torch.zeros(1, dtype=torch.int32))

        def forward(self, logits, tok):
            self.hist.index_copy_(1, self.n.long(), tok)
            self.n.add_(1)
            valid = torch.arange(6) < self.n
            hit = ((self.hist[0][:, None] == torch.arange(10)[None]) & valid[:, None]).any(0)
            return torch.where(hit, logits * 0.5, logits)

    calls = [(torch.arange(10.0)[None], torch.tensor([[i + 2]], dtype=torch.int32)) for i in range(4)]
    return dict(
        module=M().eval(),
        args=calls[0],
        calls=calls,
        input_names=["logits", "tok"],
        output_names=["y"],
        state_names=["hist", "n"],
    )


@expect("no-prefix-reuse")
def sliding_window_concat():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("win", torch.zeros(2, 5, 3))

        def forward(self, x):
            self.win.copy_(torch.cat([self.win[:, 1:], x], 1))
            return self.win.sum(1)

    calls = [(torch.full((2, 1, 3), float(i + 1)),) for i in range(4)]
    return dict(
        module=M().eval(),
        args=calls[0],
        calls=calls,
        input_names=["x"],
        output_names=["y"],
        state_names=["win"],
    )


@expect("write-in-unexpected-row")
def tail_positions_recorded_tail():
    class M(nn.Module):
        def __init__(s):
            super().__init__()
            s.register_buffer("rows", torch.zeros(16, 4))
            s.pos = 0

        def forward(s, x, positions):
            i = positions.shape[0] - 1
            s.rows[i : i + 1] = x
            return s.rows[: positions.shape[0]].sum(0)

    D = torch.export.Dim("tot", min=1, max=16)
    C = lambda: dict(
        module=M().eval(),
        args=(torch.ones(1, 4), torch.arange(3)),
        dynamic_shapes={"x": None, "positions": {0: D}},
        input_names=["x", "positions"],
        output_names=["y"],
        state_names=["rows"],
        calls=[(torch.ones(1, 4) * (p + 1), torch.tensor([p])) for p in range(4)],
    )
    return C()


@expect("no-prefix-reuse")
def good_shift_with_clone():
    class M(nn.Module):
        def __init__(s):
            super().__init__()
            s.register_buffer("h", torch.zeros(6, 4))

        def forward(s, x):
            s.h[1:] = s.h[:-1].clone()
            s.h[0] = x
            return s.h * 1.0 + 0.5

    C = lambda: dict(
        module=M().eval(), args=(torch.ones(4),), input_names=["x"], output_names=["y"], state_names=["h"]
    )
    return C()


@expect("runtime-index-write")
def good_where_masks_unwritten():
    class M(nn.Module):
        def __init__(s):
            super().__init__()
            s.register_buffer("m", torch.zeros(6, 4))
            s.register_buffer("r", torch.arange(6)[:, None])

        def forward(s, x, pos):
            s.m.index_copy_(0, pos, x)
            v = torch.where(s.r <= pos, s.m, torch.zeros(()))
            return v.sum(0)

    C = lambda: dict(
        module=M().eval(),
        args=(torch.ones(1, 4), torch.tensor([0])),
        input_names=["x", "pos"],
        output_names=["y"],
        state_names=["m"],
        calls=[(torch.ones(1, 4) * (p + 1), torch.tensor([p])) for p in range(4)],
    )
    return C()


@expect("no-prefix-reuse")
def good_unused_rows_amin_infinite():
    class M(nn.Module):
        def __init__(s):
            super().__init__()
            s.register_buffer("n", torch.zeros(1, dtype=torch.int32))
            s.register_buffer("last", torch.zeros(3, 4))

        def forward(s, x):
            s.last[2] = s.last[1] * 1
            s.last[1] = s.last[0] * 1
            s.last[0] = x
            s.n.add_(1)
            return s.last.mean(0) * s.n

    C = lambda: dict(
        module=M().eval(),
        args=(torch.ones(4),),
        input_names=["x"],
        output_names=["y"],
        state_names=["n", "last"],
    )
    return C()


@expect("cache-copied-per-step", "no-prefix-reuse", "reads-unwritten-rows")
def one_hot_blend_write():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("k", torch.zeros(1, 8, 4))

        def forward(self, x, onehot):
            m = onehot.view(1, 8, 1)
            self.k.copy_(self.k * (1 - m) + x * m)
            return self.k.sum(1)

    calls = [
        (torch.full((1, 1, 4), float(i + 1)), F.one_hot(torch.tensor([i]), 8).float()) for i in range(4)
    ]
    return dict(
        module=M().eval(),
        args=calls[0],
        calls=calls,
        input_names=["x", "onehot"],
        output_names=["y"],
        state_names=["k"],
    )


@expect("cache-copied-per-step")
def copied_flip_cache():
    class M(nn.Module):
        def __init__(s):
            super().__init__()
            s.register_buffer("m", torch.zeros(1, 64, 16))
            s.register_buffer("ar", torch.arange(64))

        def forward(s, x, p):
            s.m.copy_(torch.where((s.ar == p)[None, :, None], x, s.m))
            return (s.m * (s.ar <= p)[None, :, None]).sum(1)

    return dict(
        module=M().eval(),
        args=(torch.ones(1, 1, 16), torch.tensor([0])),
        input_names=["x", "p"],
        output_names=["y"],
        state_names=["m"],
        calls=[(torch.ones(1, 1, 16) * (p + 1), torch.tensor([p])) for p in range(4)],
    )
