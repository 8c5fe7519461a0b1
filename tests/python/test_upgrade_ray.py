"""``upgrade --executor ray`` on a one-node cluster gives what the local executor gives."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest
from upgrading import Upgrade, environment, recipe, states, uv, uv_cache, without_runs

# A cluster that is named by its address asks for a token otherwise.
NO_TOKEN = {"RAY_AUTH_MODE": "disabled"}


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python with this tool and Ray, in an environment of its own."""
    folder = tmp_path_factory.mktemp("ray") / "env"
    subprocess.run([uv(), "venv", "--quiet", "--python", sys.executable, str(folder)], check=True)
    python = folder / "bin" / "python"
    subprocess.run(
        [uv(), "pip", "install", "--quiet", "--python", str(python), "ray[default]==2.60.0", "uv"],
        check=True, env={**os.environ, "UV_CACHE_DIR": uv_cache()},
    )  # fmt: skip
    site = next((folder / "lib").glob("python*")) / "site-packages"
    (site / "base.pth").write_text(sysconfig.get_path("purelib") + "\n")
    (site / "tool.pth").write_text(f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n")
    return python


@pytest.fixture(scope="module")
def cluster(python: Path) -> Iterator[str]:
    """The address of a one-node Ray; its sockets need a short path."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    folder = Path(tempfile.mkdtemp(prefix="ray-", dir="/tmp"))
    log = folder / "start.log"
    with log.open("w") as out:
        node = subprocess.Popen(
            [str(python.with_name("ray")), "start", "--head", "--block", "--port", str(port), "--num-cpus", "2",
             "--include-dashboard", "false", "--temp-dir", str(folder), "--disable-usage-stats"],
            stdout=out, stderr=out, start_new_session=True,
            env={**os.environ, "UV_CACHE_DIR": uv_cache(), **NO_TOKEN},
        )  # fmt: skip
    try:
        for _ in range(1200):
            assert node.poll() is None, log.read_text()
            if "Ray runtime started" in log.read_text():
                break
            time.sleep(0.1)
        yield f"127.0.0.1:{port}"
    finally:
        node.send_signal(signal.SIGTERM)
        node.wait(timeout=60)
        shutil.rmtree(folder, ignore_errors=True)


def run(upgrade: Upgrade, python: Path, *args: str) -> tuple[int, str, str]:
    result = subprocess.run(
        [str(python), "-m", "coreai_audit", "upgrade", *args],
        cwd=upgrade.folder, env={**upgrade.env, **NO_TOKEN}, capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    return result.returncode, result.stdout, result.stderr


def test_tasks_of_a_cluster_give_what_workers_here_give(tmp_path: Path, python: Path, cluster: str) -> None:
    recipe(tmp_path, "first")
    environment(tmp_path / "new", shim=True)
    upgrade = Upgrade(tmp_path)
    # One environment that Ray makes for its tasks, and one that exists.
    now = " ".join(f"{p}=={metadata.version(p)}" for p in ("torch", "coreai-torch", "coreai-core"))
    args = ["first.py:first", "--from", now, "--to", "new", "--format", "json"]
    code, out, log = run(upgrade, python, *args, "--executor", "ray", "--ray-address", cluster)
    remote = json.loads(out)
    assert code == 1, [c["record"]["failure"] for c in remote["models"][0]["cells"]]
    assert states(remote) == {"first": ["reference", "contract-changed"]}
    assert not list((upgrade.cache / "coreai-audit").glob("envs/*")), "nothing was made here"

    code, out, log = run(upgrade, python, *args, "--fresh")
    assert code == 1, log
    assert "installing" in log
    assert without_runs(json.loads(out)) == without_runs(remote)
    # What the cluster found out is kept here like what was found out here.
    code, out, log = run(upgrade, python, *args)
    assert (code, log) == (1, "")


def test_a_cluster_that_is_not_there_and_a_python_without_ray_are_one_line(
    tmp_path: Path, python: Path
) -> None:
    recipe(tmp_path, "first")
    environment(tmp_path / "old")
    environment(tmp_path / "new")
    upgrade = Upgrade(tmp_path)
    args = ["first.py:first", "--from", "old", "--to", "new", "--executor", "ray", "--format", "json"]
    without = upgrade.json(*args[:-2])
    message = without["models"][0]["cells"][0]["record"]["failure"]["message"]
    assert message == f'ray is not installed in {sys.executable}: pip install "coreai-audit[ray]"'
    assert without["exit"] == 2
    code, out, _ = run(upgrade, python, *args, "--ray-address", "127.0.0.1:1")
    assert code == 2
    failure = json.loads(out)["models"][0]["cells"][0]["record"]["failure"]
    assert failure["stage"] == "environment"
    assert failure["message"] == "no Ray cluster at 127.0.0.1:1: [Errno 111] Connection refused"
