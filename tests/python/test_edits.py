"""Edits that nothing in the toolchain raises for: each must fail the gate and be named as what it is.

All edited models are judged in one run, each against the contract that was accepted before the edit.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from conftest import gate_json, run_command, write_manifest

MODEL = """\
import torch
from torch import nn
from coreai_audit import Recipe

F32, DIM = torch.float32, torch.export.Dim("rows", min=2, max=64)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("key_cache", torch.zeros(4, 8, dtype=F32))
        self.register_buffer("value_cache", torch.zeros(4, 8, dtype=F32))

    def forward(self, q, k, v, gain):
        gain = gain * 2
        self.value_cache.mul_(0.5).add_(v)
        self.key_cache.add_(k)
        weights = torch.softmax(q @ self.key_cache.transpose(0, 1), -1)
        return weights @ self.value_cache * gain, weights * 1


def model():
    fours = {name: torch.randn(4, 8) for name in ("k", "v")}
    return Recipe(
        module=Attention().eval(),
        args=(torch.randn(3, 8),),
        kwargs={"k": fours["k"], "v": fours["v"], "gain": torch.ones(1, 8)},
        dynamic_shapes={"q": {0: DIM}, "k": None, "v": None, "gain": None},
        input_names=["query", "key", "value", "gain"],
        output_names=["attended", "weights"],
        state_names=["key_cache", "value_cache"],
    )
"""

# Edit → what is replaced by what; every text must occur.
EDITS = {
    "swap_names": [('["key_cache", "value_cache"]', '["value_cache", "key_cache"]')],
    "swap_registrations": [
        ('register_buffer("key_cache"', 'register_buffer("X"'),
        ('register_buffer("value_cache"', 'register_buffer("key_cache"'),
        ('register_buffer("X"', 'register_buffer("value_cache"'),
    ],
    "in_place": [("gain = gain * 2", "gain.mul_(2)")],
    "keyword_order": [('"k": fours["k"], "v": fours["v"]', '"v": fours["v"], "k": fours["k"]')],
    "strict": [("    return Recipe(\n", "    return Recipe(\n        strict=True,\n")],
    "return_state": [("weights * 1", "self.key_cache")],
    "state_named_as_output": [('["attended", "weights"]', '["attended", "key_cache"]')],
    "dropped_mutation": [("self.key_cache.add_(k)", "k = k + self.key_cache")],
    "cache_dtype": [
        ('key_cache", torch.zeros(4, 8, dtype=F32)', 'key_cache", torch.zeros(4, 8, dtype=torch.float16)'),
        ("self.key_cache.transpose(0, 1)", "self.key_cache.float().transpose(0, 1)"),
    ],
    "static_dimension": [('{"q": {0: DIM}, ', '{"q": None, ')],
    "renamed_output": [('["attended", "weights"]', '["attended", "attention"]')],
}


def _loud(report: dict[str, Any]) -> list[dict[str, Any]]:
    """What is more than advice: that states which accumulate cannot be rewound is true of this model."""
    return [f for f in report["findings"] if f["severity"] != "advice"]


def edited(name: str) -> str:
    text = MODEL
    for old, new in EDITS[name]:
        assert old in text, (name, old)
        text = text.replace(old, new)
    return text


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project whose contract is accepted, then edited in every way."""
    folder = tmp_path_factory.mktemp("edits")
    (folder / "model.py").write_text(MODEL)
    write_manifest(folder, {"model": "model.py:model"})
    code, document = gate_json(cwd=folder, ci=False)
    assert (code, [_loud(m) for m in document["models"]]) == (0, [[]])
    assert run_command("snapshot", "accept", "model", cwd=folder, ci=False).returncode == 0
    assert gate_json(cwd=folder)[0] == 0
    for name in EDITS:
        (folder / f"{name}.py").write_text(edited(name))
        shutil.copy(folder / "snapshots" / "model.snap", folder / "snapshots" / f"{name}.snap")
    write_manifest(folder, {name: f"{name}.py:model" for name in ["model", *EDITS]})
    return folder


@pytest.fixture(scope="module")
def reports(project: Path) -> dict[str, dict[str, Any]]:
    code, document = gate_json(cwd=project)
    assert code == 1
    return {m["name"]: m for m in document["models"]}


# Edit → ids of everything that fails it, and words of the cause.
CAUSES: dict[str, tuple[set[str], str]] = {
    "swap_names": (
        {"name-order-mismatch", "states-reordered"},
        "state value_cache is key_cache, and key_cache is value_cache: the names are exchanged",
    ),
    "swap_registrations": (
        {"name-order-mismatch", "source-changed"},
        "sources of states 0 and 1 exchanged: key_cache is now buffer value_cache, value_cache is now buffer key_cache",
    ),
    "in_place": ({"promoted-input"}, "argument gain is a state (position 2) and no longer an input"),
    "keyword_order": (
        {"argument-order", "name-order-mismatch", "source-changed"},
        "the asset takes its arguments in another order than forward",
    ),
    "strict": (
        {"name-order-mismatch", "source-changed"},
        "strict export orders buffers by first use",
    ),
    "return_state": ({"output-vanished"}, "return 1 is the state key_cache itself"),
    "state_named_as_output": (
        {"duplicate-or-shadowed-name"},
        "key_cache is a state and an output",
    ),
    "dropped_mutation": ({"state-never-written"}, "buffer key_cache is never written by forward"),
    "cache_dtype": ({"dtype-changed"}, "float16"),
    "static_dimension": ({"became-static"}, "query"),
    "renamed_output": ({"output-renamed"}, "attention"),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(EDITS))
def test_edit_fails_the_gate_and_is_named(name: str, reports: dict[str, dict[str, Any]]) -> None:
    report = reports[name]
    failing = [f for f in report["findings"] if f["severity"] == "error"]
    failing += [c for c in report["changes"] if c["counts"]]
    ids, words = CAUSES[name]
    said = "\n".join("\n".join([f["message"], *f.get("evidence", [])]) for f in failing)
    assert report["verdict"] == "fail"
    assert ids <= {f["id"] for f in failing}, said
    assert words in said


def test_the_unedited_model_passes(reports: dict[str, dict[str, Any]]) -> None:
    assert (reports["model"]["verdict"], _loud(reports["model"])) == ("pass", [])


@pytest.mark.parametrize("name", ["swap_registrations", "in_place", "dropped_mutation"])
def test_the_cause_stands_on_the_first_screen(name: str, project: Path) -> None:
    result = run_command("gate", name, cwd=project)
    assert result.returncode == 1
    first_screen = "\n".join(result.stdout.splitlines()[:24])
    assert CAUSES[name][1] in first_screen


def test_nothing_is_written_in_ci(project: Path, reports: dict[str, dict[str, Any]]) -> None:
    assert list((project / "snapshots").glob("*.new")) == []
    assert not any(r["pending_snapshot"] for r in reports.values())
