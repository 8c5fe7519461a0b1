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
