"""Models with a fault and models that look like them, in the folder ``variations``: each is told exactly what
stands beside it, by the gate, and by ``check`` from the asset and the trace alone.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import gate_json, run_command, write_manifest

FOLDER = Path(__file__).with_name("variations")
MODULES = ["caches", "entry_points", "frozen", "lost", "numerics"]


def expectations() -> dict[str, tuple[str, list[str]]]:
    """Model → its module and the findings beside it."""
    sys.path.insert(0, str(FOLDER))
    try:
        modules = {name: importlib.import_module(name) for name in [*MODULES, "variation"]}
    finally:
        sys.path.remove(str(FOLDER))
    for name in modules:
        del sys.modules[name]
    models = {}
    for module in MODULES:
        for name, value in vars(modules[module]).items():
            if hasattr(value, "expect"):
                assert name not in models, f"two models are called {name}"
                models[name] = (module, value.expect)
    return models


EXPECTED = expectations()
# Models that are converted and checked by the two commands themselves.
SINGLE = ["attention_without_mask", "list_and_two_peeks"]


def ids(findings: list[dict[str, Any]]) -> list[str]:
    def one(finding: dict[str, Any]) -> str:
        function = finding.get("function")
        return finding["id"] if function in (None, "main") else f"{finding['id']}@{function}"

    return sorted(map(one, findings))


@pytest.fixture(scope="module")
def gate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, dict[str, Any]]]:
    """What one run of the gate says of all of them, and the folder with the assets and traces."""
    folder = tmp_path_factory.mktemp("variations")
    write_manifest(folder, {name: f"{FOLDER / module}.py:{name}" for name, (module, _) in EXPECTED.items()})
    _, document = gate_json("--out", "out", cwd=folder, ci=False)
    return folder, {m["name"]: m for m in document["models"]}


@pytest.mark.parametrize("name", EXPECTED)
def test_a_model_is_told_what_it_is_told(name: str, gate: tuple[Path, dict[str, dict[str, Any]]]) -> None:
    assert ids(gate[1][name]["findings"]) == EXPECTED[name][1]


@pytest.mark.parametrize("name", EXPECTED)
def test_the_asset_and_the_trace_alone_tell_what_the_run_of_the_gate_tells(
    name: str, gate: tuple[Path, dict[str, dict[str, Any]]]
) -> None:
    folder, reports = gate
    findings = reports[name]["findings"]
    if reports[name]["check"] is None:
        # There is no asset, or its outputs cannot be told from each other.
        assert "check" not in [f["stage"] for f in findings]
        return
    told = check(folder, f"out/{name}.aimodel", f"out/{name}.trace.safetensors")
    assert [f for f in told if not in_gate(f, findings)] == []
    ran = [f for f in findings if f["stage"] == "check"]
    assert [f for f in ran if f not in told] == []


def check(folder: Path, asset: str, trace: str) -> list[dict[str, Any]]:
    """What ``check`` finds; its exit code says whether an error is among it."""
    result = run_command("check", asset, "--reference", trace, "--format", "json", cwd=folder)
    assert result.stdout, result.stderr
    findings: list[dict[str, Any]] = json.loads(result.stdout)["findings"]
    assert result.returncode == ("error" in [f["severity"] for f in findings])
    return findings


def in_gate(finding: dict[str, Any], findings: list[dict[str, Any]]) -> bool:
    """Whether the gate tells it, by itself or as what running shows of something it has read already."""
    shows = f"run against PyTorch: {finding['message']}"
    joined = [
        f for f in findings if f["id"] == finding["id"] and f.get("function") == finding.get("function")
    ]
    return finding in findings or any(shows in f.get("evidence", []) for f in joined)


@pytest.mark.parametrize("name", SINGLE)
def test_converting_and_checking_by_command_tells_the_same(
    name: str, gate: tuple[Path, dict[str, dict[str, Any]]], tmp_path: Path
) -> None:
    module, _ = EXPECTED[name]
    converted = run_command(
        "convert", f"{FOLDER / module}.py:{name}", "-o", "m.aimodel", "--trace", "t.safetensors", cwd=tmp_path
    )
    assert converted.returncode in (0, 1), converted.stderr
    told = check(gate[0], f"out/{name}.aimodel", f"out/{name}.trace.safetensors")
    assert check(tmp_path, "m.aimodel", "t.safetensors") == told


def test_a_reset_entry_point_is_left_out_of_the_protocols(
    gate: tuple[Path, dict[str, dict[str, Any]]],
) -> None:
    report = gate[1]["good_reset_entry_point"]["check"]
    assert report["notes"] == [
        "protocols leave out the calls of reset, which only puts states back to their start; steps are "
        "counted without them"
    ]
    found = {p["name"]: p["found"] for p in report["protocols"]}
    assert found["copies"] == "1 state written in place"
    assert found["landing"] == "1 state written by rows, 0 as a whole, 0 not at all"
