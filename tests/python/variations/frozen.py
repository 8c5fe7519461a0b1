"""Python values that forward changes from call to call: the asset has them as they were at export."""

import itertools

import numpy as np
import torch
from torch import nn

from variation import expect

ONE = torch.ones


@expect("python-state-frozen", "reads-unwritten-rows", "reads-unwritten-rows")
def nested_python_counter_index_copy():
    class Attn(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("cache", torch.zeros(2, 8, 4))
            self.state = {"at": 0}

        def forward(self, x):
            self.cache.index_copy_(1, torch.tensor([self.state["at"]]), x)
            self.state["at"] += 1
            return self.cache.sum(1)

    class Top(nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = nn.ModuleList([Attn(), Attn()])

        def forward(self, x):
            for b in self.blocks:
                x = x + b(x)[:, None]
            return x

    return dict(
        module=Top().eval(),
        args=(ONE(2, 1, 4),),
        input_names=["x"],
        output_names=["y"],
        state_names=["c0", "c1"],
    )


@expect("python-state-frozen")
def ring_with_python_position():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("ring", torch.zeros(1, 4, 3))
            self.n = 0

        def forward(self, x):
            self.ring[:, self.n % 4] = x
            self.n += 1
            return self.ring.amax(1)

    xs = [(torch.full((1, 3), float(i)),) for i in range(1, 7)]
    return dict(
        module=M().eval(), args=xs[0], calls=xs, input_names=["x"], output_names=["y"], state_names=["ring"]
    )


@expect("python-state-frozen")
def flag_frozen_first_call():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.warm = False
            self.register_buffer("ema", torch.zeros(3))

        def forward(self, x):
            if not self.warm:
                self.ema.copy_(x)
                self.warm = True
            else:
                self.ema.mul_(0.9).add_(x * 0.1)
            return self.ema * 2

    xs = [(torch.full((3,), float(i)),) for i in range(1, 5)]
    return dict(
        module=M().eval(), args=xs[0], calls=xs, input_names=["x"], output_names=["y"], state_names=["ema"]
    )


@expect("no-prefix-reuse", "python-state-frozen")
def python_scale_grows():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.t = 1
            self.register_buffer("m", torch.zeros(3))

        def forward(self, x):
            self.m.mul_(0.9).add_(0.1 * x)
            y = self.m / (1 - 0.9**self.t)
            self.t += 1
            return y

    return dict(module=M().eval(), args=(ONE(3),), input_names=["x"], output_names=["y"], state_names=["m"])


@expect("python-state-frozen")
def frozen_itertools_counter():
    class M(nn.Module):
        def __init__(s):
            super().__init__()
            s.it = iter(range(100))
            s.lst = []
            s.register_buffer("h", torch.zeros(8, 4))

        def forward(s, x):
            s.lst.append(1)
            s.h[len(s.lst) - 1] = x
            return s.h.sum(0)

    C = lambda: dict(
        module=M().eval(), args=(torch.ones(4),), input_names=["x"], output_names=["y"], state_names=["h"]
    )
    return C()


@expect("python-state-frozen", "reads-unwritten-rows")
def frozen_row_third_axis_nested_cfg():
    class Cfg:
        step = 0

    class M(nn.Module):
        def __init__(s):
            super().__init__()
            s.cfg = Cfg()
            s.cfg.step = 0
            s.register_buffer("k", torch.zeros(1, 2, 8, 4))

        def forward(s, x):
            s.k[:, :, s.cfg.step : s.cfg.step + 1] = x
            s.cfg.step += 1
            return s.k.sum(2)

    C = lambda: dict(
        module=M().eval(),
        args=(torch.ones(1, 2, 1, 4),),
        input_names=["x"],
        output_names=["y"],
        state_names=["k"],
    )
    return C()


@expect("no-prefix-reuse")
def good_python_attr_restored():
    class M(nn.Module):
        def __init__(s):
            super().__init__()
            s.depth = 0
            s.register_buffer("h", torch.zeros(4))

        def forward(s, x):
            s.depth += 1
            y = x * s.depth
            s.depth -= 1
            s.h.add_(y)
            return s.h * 2

    C = lambda: dict(
        module=M().eval(), args=(torch.ones(4),), input_names=["x"], output_names=["y"], state_names=["h"]
    )
    return C()


@expect("python-state-frozen")
def frozen_position_of_an_iterator():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.next_row = itertools.count()
            self.register_buffer("k", torch.zeros(6, 3))

        def forward(self, x):
            self.k[next(self.next_row)] = x
            return self.k.sum(0)

    xs = [(torch.full((3,), float(i)),) for i in range(1, 4)]
    return dict(
        module=M().eval(), args=xs[0], calls=xs, input_names=["x"], output_names=["y"], state_names=["k"]
    )


@expect("no-prefix-reuse", "python-state-frozen")
def frozen_numpy_array():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.calls = np.zeros(3, np.float32)
            self.register_buffer("h", torch.zeros(3))

        def forward(self, x):
            self.h.add_(x)
            self.calls += 1
            return self.h + torch.from_numpy(self.calls.copy())

    return dict(module=M().eval(), args=(ONE(3),), input_names=["x"], output_names=["y"], state_names=["h"])
