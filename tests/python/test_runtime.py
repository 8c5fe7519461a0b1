"""Running an asset from Python, on numpy arrays."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from coreai_audit import AuditError, Model, RunError
from coreai_torch import TorchConverter, get_decomp_table


class Cache(torch.nn.Module):
    """Writes a row, returns the sum of all rows; also keeps the last row whole."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.register_buffer("rows", torch.zeros(4, 3, dtype=dtype))
        self.register_buffer("last", torch.zeros(3, dtype=dtype))

    def forward(self, x: torch.Tensor, at: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        self.rows.index_copy_(0, at, x[None])
        before = self.last.clone()
        self.last.copy_(x)
        return self.rows.sum(0), before


def convert(module: torch.nn.Module, args: tuple[Any, ...], path: Path, **names: Any) -> Path:
    with torch.no_grad():
        program = torch.export.export(module.eval(), args).run_decompositions(get_decomp_table())
    converter = TorchConverter().add_exported_program(program, **names)
    converter.to_coreai().save_asset(path)
    return path


@pytest.fixture(scope="module")
def asset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return convert(
        Cache(torch.float32),
        (torch.ones(3), torch.tensor([1])),
        tmp_path_factory.mktemp("assets") / "cache.aimodel",
        input_names=["x", "at"],
        output_names=["sum", "before"],
        state_names=["rows", "last"],
    )


def test_states_are_updated_in_the_arrays_of_the_caller(asset: Path) -> None:
    model = Model.load(asset)
    assert model.function_names == ("main",)
    main = model.function()
    assert [(p.name, p.dtype, p.shape) for p in main.states] == [
        ("rows", "float32", (4, 3)),
        ("last", "float32", (3,)),
    ]
    assert [p.name for p in main.inputs] == ["x", "at"]
    states = main.zero_states()
    rows, last = states["rows"], states["last"]
    outputs = main.run({"x": np.array([1, 2, 3], np.float32), "at": np.array([2], np.int32)}, states)
    assert list(outputs) == ["sum", "before"]
    assert outputs["sum"].tolist() == [1, 2, 3]
    assert rows.tolist() == [[0, 0, 0], [0, 0, 0], [1, 2, 3], [0, 0, 0]]
    assert last.tolist() == [1, 2, 3]
    outputs = main.run({"x": [4, 5, 6], "at": [0]}, states)
    assert outputs["sum"].tolist() == [5, 7, 9]
    assert outputs["before"].tolist() == [1, 2, 3]
    assert states["rows"] is rows
    assert rows[0].tolist() == [4, 5, 6]


def test_an_output_with_a_view_is_written_there(asset: Path) -> None:
    main = Model.load(asset).function("main")
    view = np.zeros(3, np.float32)
    outputs = main.run({"x": [1, 2, 3], "at": [1]}, main.zero_states(), {"sum": view})
    assert list(outputs) == ["before"]
    assert view.tolist() == [1, 2, 3]


def states(**changed: Any) -> dict[str, Any]:
    made: dict[str, Any] = {"rows": np.zeros((4, 3), np.float32), "last": np.zeros(3, np.float32)}
    return {n: v for n, v in {**made, **changed}.items() if v is not None}


def read_only() -> Any:
    array = np.zeros((4, 3), np.float32)
    array.flags.writeable = False
    return array


SHARED = np.zeros(12, np.float32)


@pytest.mark.parametrize(
    ("inputs", "given", "message"),
    [
        ({}, states(last=None), "function main: state last is missing"),
        ({}, states(extra=np.zeros(1)), "function main has no state extra; it has rows, last"),
        ({"y": [1]}, states(), "function main has no input y; it has x, at"),
        ({"at": None}, states(), "function main: input at is missing"),
        ({"x": np.zeros(3)}, states(), r"input x is float64, expected float32; .*astype\('float32'\)"),
        ({"at": np.zeros(1, np.int64)}, states(), "input at is int64, expected int32"),
        ({"x": np.zeros((1, 3), np.float32)}, states(), r"input x has 2 dimensions, expected 1 \(\[3\]\)"),
        ({}, states(rows=np.zeros((3, 3), np.float32)), r"state rows has shape \[3, 3\], expected \[4, 3\]"),
        ({}, states(rows=read_only()), "state rows is a read-only array"),
        ({}, states(rows=np.zeros((3, 4), np.float32).T), "state rows is not contiguous"),
        ({}, states(rows=np.zeros((4, 3), ">f4")), "state rows is >f4, expected float32"),
        ({}, states(rows=[[0.0] * 3] * 4), "state rows is a list; .*must be a numpy array"),
        ({}, states(rows=SHARED.reshape(4, 3), last=SHARED[9:]), "states rows and last share memory"),
    ],
)
def test_what_does_not_fit_is_named(
    asset: Path, inputs: dict[str, Any], given: dict[str, Any], message: str
) -> None:
    main = Model.load(asset).function("main")
    calls = {n: v for n, v in {"x": [1, 2, 3], "at": [1], **inputs}.items() if v is not None}
    with pytest.raises(RunError, match=message):
        main.run(calls, given)


def test_misaligned_memory_is_refused(asset: Path) -> None:
    odd = np.zeros(13, np.uint8)[1:].view(np.float32)
    with pytest.raises(RunError, match="state last: the memory is not aligned to 4 bytes"):
        Model.load(asset).function().run({"x": [1, 2, 3], "at": [1]}, states(last=odd))


def test_errors_name_function_and_file(asset: Path, tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"no function peek in the asset; it has main"):
        Model.load(asset).function("peek")
    with pytest.raises(AuditError, match=r"nothing\.aimodel"):
        Model.load(tmp_path / "nothing.aimodel")
    for threads in (0, 257, -1, 10**30):
        with pytest.raises(ValueError, match=rf"threads must be in 1\.\.=256, got {threads}$"):
            Model.load(asset, threads=threads)
    with pytest.raises(RunError, match="no state k"):
        Model.load(asset).function().zero_states({"k": (1,)})


def test_exchanged_states_come_back_exchanged(tmp_path: Path) -> None:
    class Exchange(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("a", torch.zeros(2))
            self.register_buffer("b", torch.zeros(2))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            old = self.a.clone()
            self.a.copy_(self.b)
            self.b.copy_(old)
            return old + x

    path = convert(
        Exchange(),
        (torch.zeros(2),),
        tmp_path / "exchange.aimodel",
        input_names=["x"],
        output_names=["y"],
        state_names=["a", "b"],
    )
    a, b = np.array([1, 2], np.float32), np.array([3, 4], np.float32)
    outputs = Model.load(path).function().run({"x": [0, 0]}, {"a": a, "b": b})
    assert (a.tolist(), b.tolist()) == ([3, 4], [1, 2])
    assert outputs["y"].tolist() == [1, 2]


def test_bfloat16_is_a_bit_pattern_or_ml_dtypes(tmp_path: Path) -> None:
    path = convert(
        Cache(torch.bfloat16),
        (torch.ones(3, dtype=torch.bfloat16), torch.tensor([1])),
        tmp_path / "bf16.aimodel",
        input_names=["x", "at"],
        output_names=["sum", "before"],
        state_names=["rows", "last"],
    )
    main = Model.load(path).function()
    given = {"rows": np.zeros((4, 3), np.uint16), "last": np.zeros(3, np.uint16)}
    one = 0x3F80
    outputs = main.run({"x": np.full(3, one, np.uint16), "at": [1]}, given)
    assert outputs["sum"].view(np.uint16).tolist() == [one] * 3
    assert given["last"].tolist() == [one] * 3


def test_other_threads_run_meanwhile(asset: Path) -> None:
    import threading

    main = Model.load(asset).function()
    seen: list[list[float]] = []

    def work() -> None:
        mine = main.zero_states()
        for i in range(200):
            main.run({"x": [1, 1, 1], "at": [i % 4]}, mine)
        seen.append(mine["rows"].sum(0).tolist())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert seen == [[4.0, 4.0, 4.0]] * 4


@pytest.mark.parametrize(
    ("x", "at", "said"),
    [
        ([[1, 2], [3]], [0], "function main: input x is no array of float32: setting an array element"),
        ("abc", [0], "function main: input x is no array of numbers"),
        (["1", "2", "3"], [0], "function main: input x is no array of numbers"),
        ([1, 1, 1], [2**40], "function main: input at is no array of int32: "),
        ([1, 1, 1], [0.5], "function main: input at is floating point; int32 takes integers alone"),
        ([1, 1, 1], [3.0], "function main: input at is floating point; int32 takes integers alone"),
    ],
)
def test_what_is_no_array_of_the_dtype_is_an_error_that_names_the_input(
    asset: Path, x: Any, at: Any, said: str
) -> None:
    main = Model.load(asset).function()
    with pytest.raises(RunError) as error:
        main.run({"x": x, "at": at}, main.zero_states())
    assert str(error.value).startswith(said)


def test_inputs_come_by_name(asset: Path) -> None:
    main = Model.load(asset).function()
    with pytest.raises(RunError, match="inputs must be a dictionary of arrays by name, got list"):
        main.run([1, 2], main.zero_states())  # type: ignore[arg-type]


def test_a_view_of_an_output_may_not_lie_over_a_state(asset: Path) -> None:
    main = Model.load(asset).function()
    states = main.zero_states()
    with pytest.raises(RunError, match="view of output sum and state last share memory"):
        main.run({"x": [1, 1, 1], "at": [0]}, states, {"sum": states["last"]})
    assert states["rows"].sum() == 0


def test_views_of_two_outputs_may_not_lie_over_each_other(asset: Path) -> None:
    main = Model.load(asset).function()
    memory = np.zeros(4, np.float32)
    with pytest.raises(RunError, match="the views of outputs a and b share memory"):
        main._apart({}, {"a": memory[:3], "b": memory[1:]})


def test_as_many_threads_as_the_command_line_takes_load(asset: Path) -> None:
    main = Model.load(asset, threads=256).function()
    assert main.run({"x": [1, 1, 1], "at": [0]}, main.zero_states())["sum"].tolist() == [1, 1, 1]


def test_importing_the_package_imports_no_numpy() -> None:
    code = "import coreai_audit, sys; coreai_audit.Model; assert 'numpy' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
