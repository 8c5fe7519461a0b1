"""Nothing may get lost between what forward does and what the asset offers; and nobody is accused of it
who does right. The models here are the neighbours of the reported cases.
"""

from __future__ import annotations

from typing import Any

import pytest
from conftest import gate_json, write_manifest

RECIPES = """\
import torch
from torch import nn
from coreai_audit import Recipe

X = (torch.ones(1, 4),)


def model(forward, buffers=(), setup=lambda self: None):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            for name in buffers:
                self.register_buffer(name, torch.zeros(1, 4))
            setup(self)

    Model.forward = forward
    return Model().eval()


def recipe(forward, buffers=(), setup=lambda self: None, args=X, states=None, outputs=("y",), inputs=("x",), **rest):
    states = list(buffers) if states is None else states
    return Recipe(module=model(forward, buffers, setup), args=args, input_names=list(inputs),
                  output_names=list(outputs), state_names=states, **rest)


def rebound_under_strict():
    def forward(self, x):
        self.s = self.s + x
        return self.s * 2
    return recipe(forward, ["s"], strict=True)


def rebound_by_default():
    def forward(self, x):
        self.s = self.s + x
        return self.s * 2
    return recipe(forward, ["s"])


def plain_tensor_written():
    def forward(self, x):
        self.t.add_(x)
        return self.t * 2
    return recipe(forward, states=["t"], setup=lambda self: setattr(self, "t", torch.zeros(1, 4)))


def returned_twice():
    def forward(self, x):
        y = x * 2
        return y, y
    return recipe(forward, outputs=["a", "b"])


def returned_through_a_view():
    def forward(self, x):
        self.s.add_(x)
        return self.s.contiguous(), x * 2
    return recipe(forward, ["s"], outputs=["s_out", "y"])


def returned_out_of_place():
    def forward(self, x):
        self.s.add_(x)
        return self.s + 0, x * 2
    return recipe(forward, ["s"], outputs=["s_out", "y"])


def input_returned_as_it_is():
    def forward(self, x, z):
        return x, z + 1
    return recipe(forward, args=X + X, inputs=["x", "z"], outputs=["a", "b"])


def keys_in_another_order():
    def forward(self, x):
        return {"logits": x * 2, "hidden": x * 3}
    return recipe(forward, outputs=["hidden", "logits"])


def keys_in_order():
    def forward(self, x):
        return {"logits": x * 2, "hidden": x * 3}
    return recipe(forward, outputs=["logits", "hidden"])


def unused_argument():
    def forward(self, x, unused):
        return x * 2
    return recipe(forward, args=X + X, inputs=["x", "unused"])


def counter_in_an_attribute():
    def forward(self, x):
        self.calls += 1
        return x * self.calls
    return recipe(forward, setup=lambda self: setattr(self, "calls", 0))


def cache_filled_at_first_use():
    def forward(self, x):
        if self.table is None:
            self.table = torch.ones(4)
        return x * self.table
    return recipe(forward, setup=lambda self: setattr(self, "table", None))


def one_value_in_two_buffers():
    def forward(self, x):
        y = x * 2
        self.a.copy_(y)
        self.b.copy_(y)
        return x + 1
    return recipe(forward, ["a", "b"])


def a_copy_in_the_second_buffer():
    def forward(self, x):
        y = x * 2
        self.a.copy_(y)
        self.b.copy_(y + 0)
        return x + 1
    return recipe(forward, ["a", "b"])


def one_tensor_registered_twice():
    def setup(self):
        tensor = torch.zeros(1, 4)
        self.register_buffer("a", tensor)
        self.register_buffer("b", tensor)
    def forward(self, x):
        self.a.add_(x)
        return self.b * 2
    return recipe(forward, setup=setup, states=["a"])


def view_of_an_argument_written():
    def forward(self, x, mask):
        mask[:, 2:] = 0
        return x * mask
    return recipe(forward, args=(torch.ones(1, 4), torch.ones(1, 4)), inputs=["x", "mask"])


def clone_of_an_argument_written():
    def forward(self, x, mask):
        mask = mask.clone()
        mask[:, 2:] = 0
        return x * mask
    return recipe(forward, args=X + X, inputs=["x", "mask"])


def dtype_of_the_written_value():
    def forward(self, x):
        self.s = (self.s + x).half()
        return self.s * 2
    return recipe(forward, ["s"])


def cache_grown_by_concatenation():
    def setup(self):
        self.register_buffer("s", torch.zeros(1, 3, 4))
    def forward(self, x):
        self.s = torch.cat([self.s, x[:, None]], 1)
        return self.s.sum(1)
    return recipe(forward, setup=setup, states=["s"])


def parameter_written():
    def setup(self):
        self.p = nn.Parameter(torch.zeros(1, 4), requires_grad=False)
    def forward(self, x):
        self.p.add_(x)
        return self.p * 2
    return recipe(forward, setup=setup, states=["p"])


def buffer_bound_to_an_argument():
    def forward(self, x):
        self.s = x
        return self.s * 2
    return recipe(forward, ["s"])


def buffer_bound_to_a_buffer():
    def forward(self, x):
        self.a.add_(x)
        self.b = self.a
        return x * 2
    return recipe(forward, ["a", "b"])


def attribute_that_is_a_view_of_a_buffer():
    def setup(self):
        self.register_buffer("c", torch.zeros(2, 1, 4))
        self.k = self.c[0]
    def forward(self, x):
        self.k.add_(x)
        return self.c.sum(0)
    return recipe(forward, setup=setup, states=["c"])


def two_modules_instead_of_one():
    def forward(self, x):
        self.k.add_(x)
        return self.k * 2
    second = recipe(forward, ["k"], entrypoint_name="second")
    return recipe(forward, ["k"], functions=[second])


def eighth_precision():
    def setup(self):
        self.register_buffer("s", torch.zeros(1, 4, dtype=torch.float8_e4m3fn))
    def forward(self, x):
        self.s.copy_(x.to(torch.float8_e4m3fn))
        return x * 2
    return recipe(forward, setup=setup, states=["s"])


def batch_norm_left_in_training():
    return Recipe(module=nn.Sequential(nn.BatchNorm1d(4)), args=(torch.randn(3, 4),),
                  input_names=["x"], output_names=["y"], state_names=[])


def batch_norm_in_evaluation():
    return Recipe(module=nn.Sequential(nn.BatchNorm1d(4)).eval(), args=(torch.randn(3, 4),),
                  input_names=["x"], output_names=["y"], state_names=[])


HELD = {"h": torch.zeros(1, 4), "gain": 1.0, "calls": 0}


class Holder:
    h = None


KEPT = Holder()
KEPT.h = torch.zeros(1, 4)


def add_to_kept(x):
    KEPT.h = KEPT.h + x
    return KEPT.h


def tensor_in_a_global():
    def forward(self, x):
        HELD["h"] = HELD["h"] + x
        self.s.add_(x)
        return HELD["h"] + self.s
    return recipe(forward, ["s"])


def tensor_a_function_keeps_in_an_object():
    def forward(self, x):
        self.s.add_(x)
        return add_to_kept(x) + self.s
    return recipe(forward, ["s"])


def tensor_in_a_closure():
    held = [torch.zeros(1, 4)]
    def forward(self, x):
        held[0] = held[0] + x
        self.s.add_(x)
        return held[0] + self.s
    return recipe(forward, ["s"])


def tensor_in_a_default():
    def forward(self, x, *, memory={"h": torch.zeros(1, 4)}):
        memory["h"] = memory["h"] + x
        self.s.add_(x)
        return memory["h"] + self.s
    return recipe(forward, ["s"])


def number_in_a_global():
    def forward(self, x):
        HELD["gain"] = HELD["gain"] / 2
        self.s.add_(x)
        return x * HELD["gain"] + self.s
    return recipe(forward, ["s"])


def globals_that_are_only_read():
    def forward(self, x):
        self.s.add_(x)
        return self.s * HELD["gain"] + HELD["h"]
    return recipe(forward, ["s"])


def buffer_that_is_not_persistent():
    def setup(self):
        self.register_buffer("s", torch.zeros(1, 4), persistent=False)
    def forward(self, x):
        self.s.add_(x)
        return self.s * 2
    return recipe(forward, setup=setup, states=["s"])
"""

# Model → the finding and words of it; None: it does right and nothing may be said.
EXPECTED: dict[str, tuple[str, list[str]] | None] = {
    "rebound_under_strict": ("write-lost", ["buffer s changes from call to call", "strict export drops a write"]),
    "rebound_by_default": None,
    "plain_tensor_written": ("conversion-failed", ["t is a plain tensor that forward writes", "register_buffer"]),
    "returned_twice": ("output-vanished", ["return 1 is the same value as return 0"]),
    "returned_through_a_view": ("output-vanished", ["return 0 is the state s itself"]),
    "returned_out_of_place": None,
    "input_returned_as_it_is": None,
    "keys_in_another_order": ("name-order-mismatch", ["hidden is ['logits']", "logits is ['hidden']"]),
    "keys_in_order": None,
    "unused_argument": None,
    "counter_in_an_attribute": ("python-state-frozen", ["calls is a Python value"]),
    "cache_filled_at_first_use": None,
    "one_value_in_two_buffers": ("aliased-buffers", ["a and b are given one and the same value", "b.copy_(value + 0)"]),
    "a_copy_in_the_second_buffer": None,
    "one_tensor_registered_twice": ("aliased-buffers", ["a and b are one tensor"]),
    "view_of_an_argument_written": ("promoted-input", ["argument mask is a state", "mask[:, 2:] = 0"]),
    "clone_of_an_argument_written": None,
    "dtype_of_the_written_value": ("conversion-failed", ["buffer s is float32, the value written is float16", "value.to(s.dtype)"]),
    "cache_grown_by_concatenation": ("conversion-failed", ["buffer s is (1, 3, 4), the value written is (1, 4, 4)", "fixed capacity"]),
    "parameter_written": ("mutated-parameter", ["parameter p is written by forward", "register p as a buffer"]),
    "buffer_bound_to_an_argument": ("aliased-buffers", ["buffer s is bound to an argument or another buffer"]),
    "buffer_bound_to_a_buffer": ("aliased-buffers", ["buffer b is bound to a as it is", "self.b.copy_(a + 0)"]),
    "attribute_that_is_a_view_of_a_buffer": ("aliased-buffers", ["c and k are views of the same memory"]),
    "two_modules_instead_of_one": ("functions-disagree", ["two different tensors", "one shared module"]),
    "eighth_precision": None,
    "batch_norm_left_in_training": ("write-lost", ["0.running_mean changes from call to call in PyTorch in the training mode", ".eval()"]),
    "batch_norm_in_evaluation": None,
    "tensor_in_a_global": ("write-lost", ["tensor HELD['h'] changes from call to call"]),
    "tensor_a_function_keeps_in_an_object": ("write-lost", ["tensor KEPT.h changes from call to call"]),
    "tensor_in_a_closure": ("write-lost", ["tensor held[0] changes from call to call"]),
    "tensor_in_a_default": ("write-lost", ["tensor memory['h'] changes from call to call"]),
    "number_in_a_global": ("python-state-frozen", ["HELD['gain'] is a Python value that forward changes"]),
    "globals_that_are_only_read": None,
    "buffer_that_is_not_persistent": None,
}  # fmt: skip


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("lost")
    (folder / "recipes.py").write_text(RECIPES)
    write_manifest(folder, {name: f"recipes.py:{name}" for name in EXPECTED})
    _, document = gate_json(cwd=folder, ci=False)
    return {m["name"]: m for m in document["models"]}


@pytest.mark.parametrize("name", [n for n, e in EXPECTED.items() if e is not None])
def test_what_is_lost_is_told(name: str, reports: dict[str, dict[str, Any]]) -> None:
    expected = EXPECTED[name]
    assert expected is not None
    found = [f for f in reports[name]["findings"] if f["id"] == expected[0]]
    said = "\n".join("\n".join([f["message"], *f.get("evidence", []), f.get("fix") or ""]) for f in found)
    assert found, reports[name]["findings"]
    for words in expected[1]:
        assert words in said


@pytest.mark.parametrize("name", [n for n, e in EXPECTED.items() if e is None])
def test_who_does_right_is_not_accused(name: str, reports: dict[str, dict[str, Any]]) -> None:
    # That a sum cannot be rewound is true of these models, and advice.
    told = [f for f in reports[name]["findings"] if f["id"] != "no-prefix-reuse"]
    assert (told, reports[name]["verdict"]) == ([], "new")
