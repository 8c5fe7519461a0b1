"""The reference trace: what PyTorch computed, step after step, before anything was exported."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from coreai_audit import Recipe
from coreai_audit.worker import trace
from coreai_audit.worker.session import Session

CASES = Path(__file__).with_name("cases")


class Trace:
    """A recorded document with its tensors back as tensors."""

    def __init__(self, recorded: tuple[str, list[trace.Stored]]) -> None:
        text, self.stored = recorded
        self.document: dict[str, Any] = json.loads(text)

    def tensor(self, entry: dict[str, Any]) -> torch.Tensor:
        dtype, shape, data = self.stored[int(entry["tensor"])]
        kind = getattr(torch, dtype)
        if not data:
            return torch.empty(shape, dtype=kind)
        return torch.frombuffer(bytearray(data), dtype=kind).reshape(shape)

    def run(self, kind: str) -> dict[str, Any]:
        [run] = [r for r in self.document["runs"] if r["kind"] == kind]
        return run

    def outputs(self, kind: str = "registered") -> list[Any]:
        return [self.tensor(c["outputs"][0]["value"]).tolist() for c in self.run(kind)["calls"]]

    def states(self, name: str, kind: str = "registered") -> list[Any]:
        return [self.tensor(c["buffers"][name]).tolist() for c in self.run(kind)["calls"]]


def record(recipe: Recipe, steps: int | None = None) -> Trace:
    return Trace(trace.record(recipe, _no_second, steps))


def _no_second() -> Any:
    raise AssertionError("the module can be copied")


def of_case(name: str) -> Trace:
    session = Session(str(CASES / f"{name}.py"), "case", False)
    try:
        session.load()
        document, tensors = session.reference(None)
        assert document is not None
        return Trace((document, tensors))
    finally:
        session.close()


class Total(torch.nn.Module):
    def __init__(self, start: float = 0.0) -> None:
        super().__init__()
        self.register_buffer("total", torch.full((2,), start))
        self.register_buffer("table", torch.arange(2.0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.total.add_(x)
        return self.total * 2


def test_the_example_is_repeated_and_states_go_by_buffer() -> None:
    module = Total()
    seen = record(Recipe(module=module, args=(torch.ones(2),)))
    assert seen.outputs() == [[2.0, 2.0], [4.0, 4.0], [6.0, 6.0], [8.0, 8.0]]
    assert seen.states("total") == [[1.0, 1.0], [2.0, 2.0], [3.0, 3.0], [4.0, 4.0]]
    assert [r["kind"] for r in seen.document["runs"]] == ["registered"]
    [function] = seen.document["functions"]
    assert [(b["name"], b["written"]) for b in function["buffers"]] == [("total", True), ("table", False)]
    assert module.total.tolist() == [0.0, 0.0], "the caller's module is left alone"


SUM = [torch.zeros(2)]


class Outside(torch.nn.Module):
    """Keeps what it adds up in a global, a class and a default argument."""

    total = torch.zeros(2)

    def forward(self, x: torch.Tensor, *, count: list[int] = [0]) -> torch.Tensor:  # noqa: B006
        SUM[0] = SUM[0] + x
        type(self).total = type(self).total + x
        count[0] += 1
        return SUM[0] + self.total + count[0]


def test_what_lies_outside_the_module_is_as_it_was_afterwards() -> None:
    for _ in range(2):
        seen = record(Recipe(module=Outside(), args=(torch.ones(2),)), steps=3)
        assert seen.outputs() == [[3.0, 3.0], [6.0, 6.0], [9.0, 9.0]]
    assert (SUM[0].tolist(), Outside.total.tolist()) == ([0.0, 0.0], [0.0, 0.0])


def test_steps_are_for_the_example_only() -> None:
    assert len(record(Recipe(module=Total(), args=(torch.ones(2),)), steps=7).outputs()) == 7
    given = Recipe(module=Total(), args=(torch.ones(2),), calls=[(torch.ones(2),), (torch.zeros(2),)])
    assert record(given, steps=7).outputs() == [[2.0, 2.0], [2.0, 2.0]]


def test_a_start_that_is_not_zero_is_recorded_and_run_from_zeros_too() -> None:
    seen = record(Recipe(module=Total(5.0), args=(torch.ones(2),)), steps=2)
    start = seen.run("registered")["start"]["main"]
    assert seen.tensor(start["total"]).tolist() == [5.0, 5.0]
    assert "table" not in start
    assert seen.outputs("registered") == [[12.0, 12.0], [14.0, 14.0]]
    assert seen.outputs("zeros") == [[2.0, 2.0], [4.0, 4.0]]


def test_a_tensor_given_twice_carries_what_was_written_into_it() -> None:
    class Cache(torch.nn.Module):
        def forward(self, x: torch.Tensor, cache: dict[str, torch.Tensor]) -> torch.Tensor:
            cache["k"].add_(x)
            return cache["k"] + 0

    cache = {"k": torch.zeros(2)}
    seen = record(Recipe(module=Cache(), args=(torch.ones(2), cache)), steps=3)
    calls = seen.run("registered")["calls"]
    assert [seen.tensor(c["inputs"]["cache['k']"]).tolist() for c in calls] == [[0, 0], [1, 1], [2, 2]]
    assert [seen.tensor(c["arguments"]["cache['k']"]).tolist() for c in calls] == [[1, 1], [2, 2], [3, 3]]
    assert cache["k"].tolist() == [0.0, 0.0]
    written = {a["path"]: a["written"] for a in seen.document["functions"][0]["arguments"]}
    assert written == {"x": False, "cache['k']": True}


def test_functions_share_what_their_modules_share() -> None:
    seen = of_case("two_functions_exported_in_different_modes")
    calls = seen.run("registered")["calls"]
    assert [c["function"] for c in calls] == ["main"] * 4 + ["peek"] * 4
    last, first = calls[3]["buffers"], calls[4]["buffers"]
    assert seen.tensor(first["core.k"]).shape == seen.tensor(last["core.k"]).shape
    assert seen.tensor(last["core.k"]).any()


def test_random_numbers_are_told() -> None:
    assert all(c["random"] for c in of_case("attention_dropout_disappears").run("registered")["calls"])
    assert not any(c["random"] for c in of_case("state_multiplied_by_one").run("registered")["calls"])


def test_what_eager_refuses_ends_the_run() -> None:
    [call] = of_case("backward_overlapping_shift").run("registered")["calls"]
    assert call["error"].startswith("RuntimeError: unsupported operation: some elements")


def test_a_write_that_changes_nothing_is_a_write() -> None:
    [function] = of_case("state_multiplied_by_one").document["functions"]
    assert [b["name"] for b in function["buffers"] if b["written"]] == ["s"]


@pytest.mark.parametrize(
    ("value", "dtype", "shape"),
    [
        (torch.tensor([1 + 2j]), "float32", [1, 2]),
        (torch.tensor([1.0]).to(torch.float8_e4m3fn), "uint8", [1]),
        (torch.tensor([1.0], dtype=torch.bfloat16), "bfloat16", [1]),
        (torch.tensor(True), "bool", []),
        (torch.zeros(2, 0), "float32", [2, 0]),
        (torch.arange(6).reshape(2, 3).t(), "int64", [3, 2]),
    ],
    ids=lambda v: str(v) if isinstance(v, str) else None,
)
def test_every_dtype_has_a_place(value: torch.Tensor, dtype: str, shape: list[int]) -> None:
    class Echo(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.clone()

    seen = record(Recipe(module=Echo(), args=(value,)), steps=1)
    entry = seen.run("registered")["calls"][0]["inputs"]["x"]
    stored = seen.stored[int(entry["tensor"])]
    assert (stored[0], stored[1]) == (dtype, shape)
    assert entry["dtype"] == str(value.dtype).removeprefix("torch.")
    assert entry["shape"] == list(value.shape)
    if dtype == "int64":
        assert seen.tensor(entry).tolist() == value.tolist()


def test_an_exported_program_is_run_as_exported() -> None:
    exported = torch.export.export(Total(), (torch.ones(2),))
    seen = record(Recipe(exported=exported))
    assert seen.outputs() == [[2.0, 2.0], [4.0, 4.0], [6.0, 6.0], [8.0, 8.0]]
    assert seen.states("total")[-1] == [4.0, 4.0]
    assert exported.state_dict["total"].tolist() == [0.0, 0.0]


def test_a_program_cannot_be_run_in_pytorch() -> None:
    with pytest.raises(trace.Unavailable, match="entry point main has no module that PyTorch could run"):
        record(Recipe(program=lambda: None))


def test_large_states_are_recorded_after_the_last_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace, "_STATES_MOST_BYTES", 16)
    seen = record(Recipe(module=Total(), args=(torch.ones(2),)), steps=3)
    assert [c["buffers"] is None for c in seen.run("registered")["calls"]] == [True, True, False]


def test_every_case_records() -> None:
    for path in sorted(CASES.glob("*.py")):
        assert of_case(path.stem).run("registered")["calls"], path.stem
