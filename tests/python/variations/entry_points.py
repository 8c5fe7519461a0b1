"""Several entry points over one module: what one loses, and what the others lack for it."""

import copy

import torch
import torch.nn.functional as F
from torch import nn

from variation import expect

ONE = torch.ones


class Cross(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("xk", torch.zeros(1, 5, 4))
        self.register_buffer("xv", torch.zeros(1, 5, 4))


@expect(
    "functions-disagree",
    "name-order-mismatch",
    "no-prefix-reuse",
    "reads-unwritten-rows",
    "reads-unwritten-rows",
    "reads-unwritten-rows",
    "runtime-index-write",
    "runtime-index-write@second",
)
def opposite_order_three_caches():
    class Mem(nn.Module):
        def __init__(self):
            super().__init__()
            for n in ("alpha", "beta", "gamma"):
                self.register_buffer(n, torch.zeros(2, 8, 4))

    class A(nn.Module):
        def __init__(self, m):
            super().__init__()
            self.m = m

        def forward(self, x, p):
            self.m.gamma.index_copy_(1, p, x)
            self.m.beta.index_copy_(1, p, x * 2)
            self.m.alpha.index_copy_(1, p, x * 3)
            return self.m.alpha.sum(1) + self.m.beta.sum(1) * 2 + self.m.gamma.sum(1) * 5

    class B(nn.Module):
        def __init__(self, m):
            super().__init__()
            self.m = m

        def forward(self, x, p):
            self.m.alpha.index_copy_(1, p, x * 3)
            self.m.beta.index_copy_(1, p, x * 2)
            self.m.gamma.index_copy_(1, p, x)
            return self.m.alpha.sum(1) + self.m.beta.sum(1) * 2 + self.m.gamma.sum(1) * 5

    m = Mem()
    x = torch.ones(2, 1, 4)
    names = ["alpha", "beta", "gamma"]
    return dict(
        module=A(m).eval(),
        args=(x, torch.tensor([0])),
        strict=True,
        input_names=["x", "p"],
        output_names=["y"],
        state_names=names,
        calls=[(x, torch.tensor([0])), (x * 2, torch.tensor([1]))],
        functions=[
            dict(
                entrypoint_name="second",
                module=B(m).eval(),
                strict=True,
                args=(x, torch.tensor([0])),
                calls=[(x * 3, torch.tensor([2])), (x * 4, torch.tensor([3]))],
                input_names=["x", "p"],
                output_names=["y"],
                state_names=names,
            )
        ],
    )


@expect("python-state-frozen@decode", "reads-unwritten-rows")
def third_entry_point_with_python_step():
    class Mem(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("kv", torch.zeros(1, 8, 4))

    class Base(nn.Module):
        def __init__(self, m):
            super().__init__()
            self.m = m

    class Prefill(Base):
        def forward(self, x):
            self.m.kv[:, :2] = x
            return self.m.kv.sum(1)

    class Decode(Base):
        def __init__(self, m):
            super().__init__(m)
            self.step = 2

        def forward(self, x):
            self.m.kv[:, self.step] = x
            self.step = self.step + 1
            return self.m.kv.sum(1)

    class Reset(Base):
        def forward(self, x):
            self.m.kv.mul_(0)
            return x * 1.0

    m = Mem()
    t = torch.ones(1, 4)
    return dict(
        module=Prefill(m).eval(),
        args=(ONE(1, 2, 4),),
        calls=[(ONE(1, 2, 4),)],
        entrypoint_name="prefill",
        input_names=["x"],
        output_names=["y"],
        state_names=["kv"],
        functions=[
            dict(
                entrypoint_name="decode",
                module=Decode(m).eval(),
                args=(t,),
                calls=[(t * 2,), (t * 3,), (t * 4,)],
                input_names=["x"],
                output_names=["y"],
                state_names=["kv"],
            ),
            dict(
                entrypoint_name="reset",
                module=Reset(m).eval(),
                args=(t,),
                calls=[(t,)],
                input_names=["x"],
                output_names=["y"],
                state_names=["kv"],
            ),
        ],
    )


@expect("conversion-failed")
def cross_cache_in_plain_attribute():
    class Enc(nn.Module):
        def __init__(self, box):
            super().__init__()
            self.box = box
            self.register_buffer("calls", torch.zeros(1))

        def forward(self, src):
            self.calls.add_(1)
            self.box["memory"] = src * 2
            return src * 2 + self.calls * 0

    class Dec(nn.Module):
        def __init__(self, box):
            super().__init__()
            self.box = box
            self.register_buffer("k", torch.zeros(1, 4))

        def forward(self, x):
            self.k.add_(x)
            return (self.box["memory"] * self.k).sum(0, keepdim=True)

    box = {"memory": torch.zeros(3, 4)}
    return dict(
        module=Enc(box).eval(),
        args=(ONE(3, 4),),
        entrypoint_name="encode",
        calls=[(ONE(3, 4),)],
        input_names=["src"],
        output_names=["m"],
        state_names=["calls"],
        functions=[
            dict(
                entrypoint_name="decode",
                module=Dec(box).eval(),
                args=(ONE(1, 4),),
                calls=[(ONE(1, 4),), (ONE(1, 4),)],
                input_names=["x"],
                output_names=["y"],
                state_names=["k"],
            )
        ],
    )


@expect()
def encoder_decoder_read_only_cross_cache():
    class Enc(nn.Module):
        def __init__(self, m):
            super().__init__()
            self.m = m

        def forward(self, src):
            self.m.xk.copy_(src)
            self.m.xv.copy_(src * 2)
            return src + 1.0

    class Dec(nn.Module):
        def __init__(self, m):
            super().__init__()
            self.m = m

        def forward(self, q):
            self.m.xk.mul_(1.0)
            self.m.xv.mul_(1.0)
            return F.scaled_dot_product_attention(q, self.m.xk, self.m.xv)

    m = Cross()
    torch.manual_seed(3)
    src = torch.randn(1, 5, 4)
    q = [(torch.randn(1, 1, 4),) for _ in range(3)]
    return dict(
        module=Enc(m).eval(),
        args=(src,),
        calls=[(src,)],
        entrypoint_name="encode",
        input_names=["src"],
        output_names=["h"],
        state_names=["xk", "xv"],
        functions=[
            dict(
                entrypoint_name="decode",
                module=Dec(m).eval(),
                args=q[0],
                calls=q,
                input_names=["q"],
                output_names=["y"],
                state_names=["xk", "xv"],
            )
        ],
    )


@expect("runtime-index-write@decode")
def prefill_decode_reset():
    class Mem(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("kv", torch.zeros(1, 8, 4))

    class Base(nn.Module):
        def __init__(self, m):
            super().__init__()
            self.m = m

    class Prefill(Base):
        def forward(self, x):
            self.m.kv[:, :3] = x
            return self.m.kv[:, :3].sum(1)

    class Decode(Base):
        def forward(self, x, pos):
            self.m.kv.index_copy_(1, pos, x)
            seen = (torch.arange(8) <= pos).view(1, 8, 1)
            return torch.where(seen, self.m.kv, torch.zeros_like(self.m.kv)).sum(1)

    class Reset(Base):
        def forward(self, x):
            self.m.kv.copy_(torch.zeros_like(self.m.kv))
            return x * 1.5

    m = Mem()
    t = torch.ones(1, 1, 4)
    dec = [(t * i, torch.tensor([i])) for i in range(3, 6)]
    return dict(
        module=Prefill(m).eval(),
        args=(ONE(1, 3, 4),),
        calls=[(ONE(1, 3, 4),)],
        entrypoint_name="prefill",
        input_names=["x"],
        output_names=["y"],
        state_names=["kv"],
        functions=[
            dict(
                entrypoint_name="decode",
                module=Decode(m).eval(),
                args=dec[0],
                calls=dec,
                input_names=["x", "pos"],
                output_names=["y"],
                state_names=["kv"],
            ),
            dict(
                entrypoint_name="reset",
                module=Reset(m).eval(),
                args=(t,),
                calls=[(t,)],
                input_names=["x"],
                output_names=["y"],
                state_names=["kv"],
            ),
        ],
    )


@expect(
    "name-order-mismatch", "no-prefix-reuse", "reads-unwritten-rows", "runtime-index-write", "swapped-binding"
)
def swap_like_two_caches_kv_transposed_layout():
    class M(nn.Module):
        def __init__(s):
            super().__init__()
            s.register_buffer("a_v", torch.zeros(1, 2, 8, 4))
            s.register_buffer("b_k", torch.zeros(1, 2, 8, 4))

        def forward(s, x, p):
            s.b_k.index_copy_(2, p, x)
            s.a_v.index_copy_(2, p, x * 2 + 1)
            return (x @ s.b_k.transpose(-1, -2)) @ s.a_v

    C = lambda: dict(
        module=M().eval(),
        args=(torch.randn(1, 2, 1, 4), torch.tensor([0])),
        input_names=["x", "p"],
        output_names=["y"],
        state_names=["key", "value"],
        calls=[(torch.randn(1, 2, 1, 4), torch.tensor([p])) for p in range(4)],
    )
    return C()


X = (torch.ones(4),)
G = {"h": torch.zeros(4), "n": 1}


def pair(first, *others, setup=lambda m: None, buffers=("s",), strict=False, states=None, calls=None):
    class Mem(nn.Module):
        def __init__(self):
            super().__init__()
            for b in buffers:
                self.register_buffer(b, torch.zeros(4))
            setup(self)

    mem = Mem()

    def entry(f, name):
        class E(nn.Module):
            def __init__(self):
                super().__init__()
                self.m = mem

        E.forward = f
        st = list(buffers) if states is None else states[name]
        return dict(
            module=E().eval(),
            args=X,
            entrypoint_name=name,
            input_names=["x"],
            output_names=["y"],
            state_names=st,
            strict=strict,
        )

    names = ["main", "second", "third"]
    es = [entry(f, n) for f, n in zip((first,) + others, names)]
    return dict(**es[0], functions=es[1:])


def inplace(self, x):
    self.m.s.add_(x)
    return self.m.s * 2


def peek(self, x):
    return self.m.s * 3 + x


def rebind(self, x):
    self.m.s = self.m.s + x
    return self.m.s * 2


@expect("no-prefix-reuse", "write-lost")
def strict_rebind_and_inplace():
    return pair(rebind, inplace, strict=True, states={"main": [], "second": ["s"]})


@expect("no-prefix-reuse", "write-lost@second")
def strict_inplace_then_rebind():
    return pair(inplace, rebind, strict=True, states={"main": ["s"], "second": []})


@expect("functions-disagree@third", "no-prefix-reuse", "write-lost@second")
def strict_inplace_then_rebind_then_peek():
    return pair(inplace, rebind, peek, strict=True, states={"main": ["s"], "second": [], "third": []})


@expect("write-lost", "write-lost@second")
def strict_rebind_both():
    return pair(rebind, rebind, strict=True, states={"main": [], "second": []})


def data_rebind(self, x):
    self.m.s.data = self.m.s + x
    return self.m.s * 2


@expect("write-lost")
def data_and_peek():
    return pair(data_rebind, peek, states={"main": [], "second": []})


def lst(m):
    m.extra = [torch.zeros(4)]


def lw(self, x):
    self.m.s.add_(x)
    self.m.extra[0] = self.m.extra[0] + x
    return self.m.s * 2


def lr(self, x):
    self.m.s.mul_(x)
    return self.m.extra[0] + x


def lrw(self, x):
    self.m.s.mul_(x)
    self.m.extra[0] = self.m.extra[0] + x
    return self.m.extra[0] * 2


@expect("no-prefix-reuse", "write-lost")
def list_and_two_peeks():
    return pair(lw, lr, lr, setup=lst)


@expect("no-prefix-reuse", "write-lost", "write-lost@second")
def list_both_write():
    return pair(lw, lrw, setup=lst)


def cnt(m):
    m.n = 1


def cw(self, x):
    self.m.s.add_(x)
    self.m.n += 1
    return self.m.s * 2


def cr(self, x):
    self.m.s.mul_(x)
    return x * self.m.n


@expect("no-prefix-reuse", "python-state-frozen")
def count_and_peek():
    return pair(cw, cr, setup=cnt)


def gw(self, x):
    self.m.s.add_(x)
    G["h"] = G["h"] + x
    return self.m.s * 2


def gr(self, x):
    self.m.s.mul_(x)
    return G["h"] + x


@expect("conversion-failed")
def global_and_peek():
    return pair(gw, gr)


def prm(m):
    m.p = nn.Parameter(torch.zeros(4), requires_grad=False)


def pw(self, x):
    self.m.s.add_(x)
    self.m.p.add_(x)
    return self.m.s * 2


def pr(self, x):
    self.m.s.mul_(x)
    return self.m.p + x


@expect("no-prefix-reuse", "write-lost")
def buf2_rebind_peek():
    def w(self, x):
        self.m.s.add_(x)
        self.m.t = self.m.t + x
        return self.m.s * 2

    def r(self, x):
        self.m.s.mul_(x)
        return self.m.t + x

    return pair(w, r, buffers=("s", "t"), strict=True, states={"main": ["s"], "second": ["s"]})


@expect("float-int-float@second", "no-prefix-reuse", "write-lost")
def other_fault_beside():
    "the list is lost in main; second truncates, which has nothing to do with it"

    def r(self, x):
        self.m.s.mul_(x)
        return (x * 2.7).int().float() * 0.3

    return pair(lw, r, setup=lst)


@expect("no-prefix-reuse", "write-lost")
def state_consequence():
    "what second writes into the state is the lost tensor"

    def r(self, x):
        self.m.s.add_(self.m.extra[0])
        return self.m.s * 2

    return pair(lw, r, setup=lst)


def shared_cache(share=lambda mem: mem, mean=False, reset=False):
    """Prefill writes two rows, decode one; ``share`` makes what decode works on of what prefill does."""

    class Mem(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("k", torch.zeros(1, 6, 4))

    class Base(nn.Module):
        def __init__(self, mem):
            super().__init__()
            self.m = mem

    class Prefill(Base):
        def forward(self, x):
            self.m.k[:, :2] = x
            return self.m.k[:, :2].sum(1)

    class Decode(Base):
        def forward(self, x, p):
            self.m.k.index_copy_(1, p, x)
            seen = (torch.arange(6) <= p).view(1, 6, 1)
            return self.m.k.mean(1) if mean else torch.where(seen, self.m.k, torch.zeros(())).sum(1)

    class Reset(Base):
        def forward(self, x):
            self.m.k.zero_()
            return x + 1

    def entry(module, name, calls, inputs):
        return dict(
            module=module.eval(),
            args=calls[0],
            calls=calls,
            entrypoint_name=name,
            input_names=inputs,
            output_names=["y"],
            state_names=["k"],
        )

    torch.manual_seed(0)
    mem = Mem()
    prefill = entry(Prefill(mem), "prefill", [(torch.randn(1, 2, 4),)], ["x"])
    calls = [(torch.randn(1, 1, 4), torch.tensor([p])) for p in (2, 3)]
    functions = [entry(Decode(share(mem)), "decode", calls, ["x", "p"])]
    if reset:
        functions.append(entry(Reset(mem), "reset", [(ONE(1),)], ["x"]))
    return dict(prefill, functions=functions)


@expect("functions-disagree", "runtime-index-write@decode")
def each_entry_point_has_a_cache_of_its_own():
    return shared_cache(share=copy.deepcopy)


@expect("runtime-index-write@decode")
def good_reset_entry_point():
    return shared_cache(reset=True)


@expect("no-prefix-reuse", "reads-unwritten-rows", "runtime-index-write@decode")
def reset_entry_point_beside_a_mean():
    return shared_cache(mean=True, reset=True)
