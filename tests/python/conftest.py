"""Runs the installed command; one worker serves many recipes, so that torch is imported once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

COMMAND = Path(sys.executable).with_name("coreai-audit")

Run = Callable[..., subprocess.CompletedProcess[str]]


def run_command(*args: str, cwd: Path, ci: bool = True, **env: str) -> subprocess.CompletedProcess[str]:
    """Run ``coreai-audit`` with ``args`` in ``cwd``, as CI would unless told otherwise."""
    environment = {**os.environ, **env}
    environment.pop("CI", None)
    if ci:
        environment["CI"] = "true"
    return subprocess.run(
        [str(COMMAND), *args], cwd=cwd, env=environment, capture_output=True, text=True, timeout=900
    )


def gate_json(*args: str, cwd: Path, ci: bool = True) -> tuple[int, dict[str, Any]]:
    """Exit code and document of ``gate --format json``."""
    result = run_command("gate", "--format", "json", *args, cwd=cwd, ci=ci)
    assert result.stdout, result.stderr
    document: dict[str, Any] = json.loads(result.stdout)
    assert document["exit"] == result.returncode
    return result.returncode, document


def write_manifest(folder: Path, models: dict[str, str], head: str = "") -> None:
    """A manifest with one model for each name → recipe."""
    lines = [head]
    for name, recipe in models.items():
        lines += [f"[models.{name}]", f"recipe = {json.dumps(recipe)}", ""]
    (folder / "coreai-audit.toml").write_text("\n".join(lines))


@pytest.fixture
def command() -> Run:
    return run_command
