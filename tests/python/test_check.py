"""``check`` against what the recorder writes, and with the vendor's interpreter as a third side."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import run_command

CASES = Path(__file__).with_name("cases")
CASE = """
import sys
sys.path.insert(0, {folder!r})
import {name}

def recipe():
    return {name}.case()
"""


def check(tmp_path: Path, name: str, *args: str) -> tuple[int, dict[str, Any]]:
    """Converts a case, records its trace, and checks one against the other."""
    (tmp_path / "model.py").write_text(CASE.format(folder=str(CASES), name=name))
    converted = run_command(
        "convert", "model.py:recipe", "-o", "m.aimodel", "--trace", "t.safetensors", "--contract", "c.json",
        cwd=tmp_path,
    )  # fmt: skip
    assert converted.returncode in (0, 1), converted.stderr
    result = run_command(
        "check", "m.aimodel", "--reference", "t.safetensors", "--contract", "c.json", "--format", "json", *args,
        cwd=tmp_path,
    )  # fmt: skip
    assert result.stdout, result.stderr
    return result.returncode, json.loads(result.stdout)


@pytest.mark.parametrize(
    ("name", "code", "found"),
    [
        ("scalar_position_state", 0, "runtime-index-write"),
        ("uint8_counter_saturates", 1, "narrow-integer-saturates"),
        ("mean_over_rows_not_yet_written", 0, "reads-unwritten-rows"),
        ("instance_norm_statistics_lost", 1, "write-lost"),
    ],
)
def test_a_converted_model_is_checked(tmp_path: Path, name: str, code: int, found: str) -> None:
    exit_code, document = check(tmp_path, name)
    assert exit_code == code
    assert found in [f["id"] for f in document["findings"]]


def test_the_interpreter_agrees_with_this_runtime(tmp_path: Path) -> None:
    exit_code, document = check(tmp_path, "uint8_counter_saturates", "--oracle", "--protocols", "none")
    assert exit_code == 1
    assert document["oracle"]["steps"] == 4
    assert [(p["port"], p["with_ours"], p["with_torch"]) for p in document["oracle"]["ports"]] == [
        ("y", 4, 1),
        ("s", 4, 1),
    ]


def test_the_death_of_the_interpreter_is_told_and_survived(tmp_path: Path) -> None:
    exit_code, document = check(
        tmp_path, "position_on_the_third_axis_dies", "--oracle", "--protocols", "none"
    )
    assert exit_code == 1
    [died] = [f for f in document["findings"] if f["id"] == "interpreter-died"]
    assert died["message"] == "the vendor's interpreter dies at step 1 with signal 4"
    assert died["evidence"][-1] == "our runtime gives PyTorch's values"
    assert document["parity_holds"]


MODEL = """
import random

import numpy
import torch
from coreai_audit import Recipe


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = True
        self.register_buffer("sum", torch.zeros(3))

    def forward(self, x):
        self.sum.add_(x)
        {body}


def recipe():
    return Recipe(
        module=Model().eval(), args=(torch.ones(3),), calls={calls},
        input_names=["x"], output_names=["y"], state_names=["sum"],
    )
"""


def gate(tmp_path: Path, body: str, calls: str = "None") -> tuple[int, list[dict[str, Any]]]:
    (tmp_path / "model.py").write_text(MODEL.format(body=body, calls=calls))
    manifest = tmp_path / "coreai-audit.toml"
    manifest.write_text('[models.model]\nrecipe = "model.py:recipe"\n')
    result = run_command("gate", "--format", "json", cwd=tmp_path)
    assert result.stdout, result.stderr
    return result.returncode, json.loads(result.stdout)["models"][0]["findings"]


@pytest.mark.parametrize("draw", ["random.random()", "float(numpy.random.rand())"])
def test_random_numbers_of_python_and_numpy_are_told_as_such(tmp_path: Path, draw: str) -> None:
    code, findings = gate(tmp_path, f"return self.sum + {draw}")
    assert code == 1
    assert [f["id"] for f in findings if f["severity"] == "error"] == ["randomness-dropped"]


def test_a_branch_that_only_the_first_call_takes_is_told_by_its_attribute(tmp_path: Path) -> None:
    body = "y = self.sum * (1.0 if self.first else 2.0); self.first = False; return y"
    code, findings = gate(tmp_path, body)
    assert code == 1
    errors = [f for f in findings if f["severity"] == "error"]
    assert [f["id"] for f in errors] == ["python-state-frozen"]
    assert "first" in errors[0]["message"]


def test_an_attribute_that_is_set_once_and_changes_nothing_is_no_fault(tmp_path: Path) -> None:
    _, findings = gate(tmp_path, "self.first = False; return self.sum * 2.0")
    assert [f["id"] for f in findings if f["severity"] != "advice"] == []


@pytest.mark.parametrize("calls", ["[()]", "[(numpy.ones(3),)]"])
def test_a_call_that_pytorch_refuses_is_not_blamed_on_the_asset(tmp_path: Path, calls: str) -> None:
    code, findings = gate(tmp_path, "return torch.mul(self.sum, x)", calls)
    assert code == 1
    assert [f["id"] for f in findings if f["severity"] == "error"] == ["eager-refuses"]


def test_a_trace_goes_into_no_device_and_no_directory(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(MODEL.format(body="return self.sum * 2.0", calls="None"))
    for target, said in [
        ("/dev/stdin", "is no file"),
        (".", "is a directory"),
        ("m.aimodel", "where the asset goes"),
    ]:
        result = run_command("convert", "model.py:recipe", "-o", "m.aimodel", "--trace", target, cwd=tmp_path)
        assert result.returncode == 2
        assert said in result.stderr
    assert not (tmp_path / "m.aimodel").exists()
