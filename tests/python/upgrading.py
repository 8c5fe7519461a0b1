"""Environments for the tests of ``upgrade``: light ones over the packages of the one under test."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

from conftest import COMMAND

# Version 2.0 of a made-up package that hands over buffers of one shape in reverse order of their names;
# nothing else.
SHIM = """\
import importlib.abc
import sys


class Patch(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == "coreai_torch":
            sys.meta_path.remove(self)
            import torch

            ordered = torch.nn.Module.named_buffers

            def named_buffers(self, *args, **kwargs):
                found = list(ordered(self, *args, **kwargs))
                by_shape = {}
                for item in sorted(found, key=lambda item: item[0]):
                    by_shape.setdefault(item[1].shape, []).append(item)
                return iter([by_shape[b.shape].pop() for _, b in found])

            torch.nn.Module.named_buffers = named_buffers
        return None


sys.meta_path.insert(0, Patch())
"""

RECIPE = """\
import torch
from coreai_audit import Recipe
{imports}

class Cache(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("key", torch.zeros(1, 4))
        self.register_buffer("value", torch.zeros(1, 4))

    def forward(self, x):
        self.key.add_(x)
        self.value.mul_(x + {scale})
        return self.key + self.value


def {name}():
    return Recipe(
        module=Cache().eval(), args=(torch.ones(1, 4),),
        input_names=["x"], output_names=["y"], state_names=["key_cache", "value_cache"],
    )
"""


def recipe(folder: Path, name: str, scale: float = 2.0, imports: str = "") -> Path:
    """A recipe of two buffers of one shape."""
    path = folder / f"{name}.py"
    path.write_text(RECIPE.format(name=name, scale=scale, imports=imports))
    return path


def environment(folder: Path, *, torch: bool = True, shim: bool = False) -> Path:
    """A virtual environment that sees the packages of this one, the shim before them."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    site = next((folder / "lib").glob("python*")) / "site-packages"
    if torch:
        (site / "base.pth").write_text(sysconfig.get_path("purelib") + "\n")
    if shim:
        (site / "placeholder_shim.py").write_text(SHIM)
        (site / "placeholder_shim.pth").write_text("import placeholder_shim\n")
        info = site / "placeholder_shim-2.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: placeholder-shim\nVersion: 2.0\n")
    return folder


def uv() -> str:
    """The uv beside the Python of the tests, or the one on the search path."""
    beside = Path(sys.executable).with_name("uv")
    return str(beside) if beside.exists() else "uv"


def uv_cache() -> str:
    """The folder of uv's cache."""
    asked = subprocess.run([uv(), "cache", "dir"], check=True, capture_output=True, text=True)
    return asked.stdout.strip()


class Upgrade:
    """Runs ``coreai-audit upgrade`` in a folder with a cache of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cache = folder / "cache"
        self.env = {**os.environ, "CI": "true", "XDG_CACHE_HOME": str(self.cache)}
        # uv would follow, and download PyTorch again.
        self.env.setdefault("UV_CACHE_DIR", uv_cache())

    def run(self, *args: str, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(COMMAND), *args],
            cwd=self.folder, env={**self.env, **env}, capture_output=True, text=True, timeout=900,
        )  # fmt: skip

    def json(self, *args: str, **env: str) -> dict[str, Any]:
        """The document of ``upgrade``; its log is under ``log``."""
        result = self.run("upgrade", "--format", "json", *args, **env)
        assert result.stdout, result.stderr
        document: dict[str, Any] = json.loads(result.stdout)
        assert document["exit"] == result.returncode
        document["log"] = result.stderr
        return document


def states(document: dict[str, Any]) -> dict[str, list[str]]:
    """Model → state in each environment."""
    return {m["name"]: [c["state"] for c in m["cells"]] for m in document["models"]}


def without_runs(document: dict[str, Any]) -> dict[str, Any]:
    """The document without what differs from run to run."""
    for model in document["models"]:
        for cell in model["cells"]:
            if cell["record"]:
                del cell["record"]["run"]
    document.pop("log", None)
    return document
