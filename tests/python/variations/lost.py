"""Tensors that forward changes and that are no state of the asset; and who does right."""

import weakref

import torch
import torch.nn.functional as F
from torch import nn

from variation import expect

ONE = torch.ones


@expect("write-lost")
def tuple_of_caches_replaced():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.past = (torch.zeros(1, 3), torch.zeros(1, 3))

        def forward(self, x):
            k, v = self.past
            self.past = (k + x, v + 2 * x)
            return self.past[0] + self.past[1]

    return dict(module=M().eval(), args=(ONE(1, 3),), input_names=["x"], output_names=["y"], state_names=[])


@expect("no-prefix-reuse", "write-lost")
def module_global_counter():
    box = [torch.zeros(2)]

    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("s", torch.zeros(2))
            self.box = box

        def forward(self, x):
            self.box[0] = self.box[0] + 1
            self.s.add_(x)
            return self.s * self.box[0]

    return dict(module=M().eval(), args=(ONE(2),), input_names=["x"], output_names=["y"], state_names=["s"])


@expect("no-prefix-reuse", "write-lost")
def batchnorm_training_stats_nested():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = nn.Sequential(
                nn.Conv1d(2, 2, 1), nn.BatchNorm1d(2, track_running_stats=True, momentum=0.3)
            )
            self.register_buffer("s", torch.zeros(1))

        def forward(self, x):
            self.s.add_(1)
            mean = x.mean((0, 2)).detach()
            self.net[1].running_mean = self.net[1].running_mean * 0.7 + mean * 0.3
            return self.net(x) + self.s

    torch.manual_seed(0)
    return dict(
        module=M().eval(),
        args=(torch.randn(2, 2, 5),),
        input_names=["x"],
        output_names=["y"],
        state_names=["s"],
    )


@expect("eager-refuses")
def forward_shift_overlaps():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("win", torch.zeros(1, 6, 4))

        def forward(self, x):
            self.win[:, 1:].copy_(self.win[:, :-1])
            self.win[:, :1].copy_(x)
            return self.win.sum(1)

    return dict(
        module=M().eval(), args=(ONE(1, 1, 4),), input_names=["x"], output_names=["y"], state_names=["win"]
    )


@expect("conversion-failed")
def lost_nested_dict_of_lists():
    class M(nn.Module):
        def __init__(s):
            super().__init__()
            s.store = {"layers": [{"k": torch.zeros(1, 4)}, {"k": torch.zeros(1, 4)}]}

        def forward(s, x):
            for l in s.store["layers"]:
                l["k"] += x
                x = x + l["k"]
            return x

    C = lambda: dict(
        module=M().eval(), args=(torch.ones(1, 4),), input_names=["x"], output_names=["y"], state_names=[]
    )
    return C()


@expect("write-lost")
def lost_setattr_buffer_strict():
    class M(nn.Module):
        def __init__(s):
            super().__init__()
            s.register_buffer("h", torch.zeros(1, 4))

        def forward(s, x):
            s.h = s.h * 0.5 + x
            return s.h + 1

    C = lambda: dict(
        module=M().eval(), args=(torch.ones(1, 4),), input_names=["x"], output_names=["y"], strict=True
    )
    return C()


@expect("mutated-parameter")
def mutparam_embedding_max_norm():
    class M(nn.Module):
        def __init__(s):
            super().__init__()
            s.e = nn.Embedding(8, 4)
            s.e.weight.requires_grad_(False)
            s.register_buffer("c", torch.zeros(4))

        def forward(s, i):
            s.e.weight.mul_(0.5)
            y = s.e(i).sum(0)
            s.c.add_(y)
            return s.c * 1.5

    C = lambda: dict(
        module=M().eval(),
        args=(torch.tensor([1, 2]),),
        input_names=["i"],
        output_names=["y"],
        state_names=["c"],
    )
    return C()


@expect("randomness-dropped")
def rand_sdpa_two_layers_kw():
    class A(nn.Module):
        def __init__(s):
            super().__init__()
            s.q = nn.Linear(16, 16)
            s.o = nn.Linear(16, 16)

        def forward(s, x):
            q = s.q(x).view(1, -1, 2, 8).transpose(1, 2)
            return s.o(
                F.scaled_dot_product_attention(q, q, q, dropout_p=0.2, is_causal=True)
                .transpose(1, 2)
                .reshape(1, -1, 16)
            )

    class M(nn.Module):
        def __init__(s):
            super().__init__()
            s.l = nn.ModuleList([A(), A()])

        def forward(s, *, x):
            for l in s.l:
                x = x + l(x)
            return x

    C = lambda: dict(
        module=M().eval(),
        kwargs=dict(x=torch.randn(1, 4, 16)),
        input_names=["x"],
        output_names=["y"],
        state_names=[],
    )
    return C()


@expect("no-prefix-reuse")
def good_cond_state_written_each_branch():
    class M(nn.Module):
        def __init__(s):
            super().__init__()
            s.register_buffer("s0", torch.zeros(4))

        def forward(s, x):
            d = torch.cond(
                x.sum() > s.s0.sum(), lambda a, b: a + b, lambda a, b: a * 2 - b, (x, s.s0.clone())
            )
            s.s0.copy_(d)
            return d * 0.5

    C = lambda: dict(
        module=M().eval(),
        args=(torch.ones(4),),
        input_names=["x"],
        output_names=["y"],
        state_names=["s0"],
        calls=[(torch.ones(4) * v,) for v in (1.0, -3.0, 5.0, -1.0, 2.0)],
    )
    return C()


def past_the_copy(setup, forward=None):
    """A module that ``setup`` lets reach itself in a way that ``copy.deepcopy`` does not follow."""

    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("h", torch.zeros(3))
            setup(self)

        def forward(self, x):
            self.h.add_(x)
            return self.h * 2

    if forward is not None:
        M.forward = forward
    torch.manual_seed(0)
    calls = [(torch.randn(3),) for _ in range(4)]
    return dict(
        module=M().eval(), args=calls[0], calls=calls, input_names=["x"], output_names=["y"], state_names=["h"]
    )


@expect("no-prefix-reuse")
def good_forward_replaced_by_a_closure():
    def setup(m):
        def forward(x):
            m.h.add_(x)
            return m.h * 2

        m.forward = forward

    return past_the_copy(setup)


@expect("no-prefix-reuse")
def good_update_in_a_lambda():
    def forward(self, x):
        self.update(x)
        return self.h * 2

    return past_the_copy(lambda m: setattr(m, "update", lambda v: m.h.add_(v)), forward)


@expect("no-prefix-reuse")
def good_hook_writes_the_buffer():
    def setup(m):
        m.lin = nn.Linear(3, 3)
        m.lin.register_forward_hook(lambda _m, _i, out: (m.h.add_(out.detach()), None)[1])

    return past_the_copy(setup, lambda self, x: self.lin(x) + self.h)


@expect("no-prefix-reuse")
def good_child_knows_its_parent_weakly():
    class Child(nn.Module):
        def __init__(self, parent):
            super().__init__()
            self.parent = weakref.ref(parent)

        def forward(self, x):
            parent = self.parent()
            parent.h.add_(x)
            return parent.h * 2

    return past_the_copy(lambda m: setattr(m, "child", Child(m)), lambda self, x: self.child(x))


REGISTRY = {}


@expect("no-prefix-reuse")
def good_module_in_a_global_registry():
    def forward(self, x):
        REGISTRY["m"].h.add_(x)
        return self.h * 2

    return past_the_copy(lambda m: REGISTRY.__setitem__("m", m), forward)


@expect("no-prefix-reuse", "write-lost")
def hook_keeps_a_plain_tensor():
    def setup(m):
        m.last = torch.zeros(3)
        m.lin = nn.Linear(3, 3)
        m.lin.register_forward_hook(lambda _m, _i, out: setattr(m, "last", m.last + out.detach()))

    def forward(self, x):
        y = self.lin(x)
        self.h.add_(y)
        return self.h + self.last

    return past_the_copy(setup, forward)
