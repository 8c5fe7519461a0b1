"""Environments that ``upgrade`` makes: by uv from what it has cached, and with a uv that misbehaves."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
from conftest import COMMAND
from upgrading import SHIM, Upgrade, recipe, states

# Answers as uv does, and fails where FAKE_UV says.
FAKE_UV = """\
#!{python}
import os, pathlib, shutil, subprocess, sys, sysconfig, time, tomllib
args = sys.argv[1:]
fails = os.environ.get("FAKE_UV", "")
def last_folder():
    return pathlib.Path(args[args.index("--python") + 1])
if args[:2] == ["pip", "compile"]:
    if fails == "unsolvable":
        sys.exit(
            "error: No solution found when resolving dependencies\\n  cause: Because there is no version of "
            "torch==9.9 and you require torch==9.9, we can conclude that your requirements are unsatisfiable."
        )
    if fails == "network":
        sys.exit("error: Failed to fetch: `https://pypi.org/simple/torch/`\\n  cause: dns error")
    size = 10**16 if fails == "huge" else 1000
    print('[[packages]]\\nname = "torch"\\nversion = "9.9"\\nwheels = [{ size = %d }]' % size)
    for line in sys.stdin.read().split():
        if line.startswith("./"):
            print('[[packages]]\\nname = "%s"\\ndirectory = { path = "%s", editable = true }' % (line[2:], line))
elif args[0] == "venv":
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", args[-1]], check=True)
elif args[:2] == ["pip", "sync"] and "--dry-run" in args:
    print("DEBUG Identified uncached distribution: torch==9.9\\nWould download 1 package", file=sys.stderr)
elif args[:2] == ["pip", "sync"]:
    (last_folder() / "half").write_text("half")
    if fails == "full":
        sys.exit("error: Failed to install: torch-9.9.whl\\n  cause: No space left on device (os error 28)")
    if fails == "slow":
        pathlib.Path(os.environ["FAKE_UV_PID"]).write_text(str(os.getpid()))
        time.sleep(600)
    site = next((last_folder() / "lib").glob("python*")) / "site-packages"
    (site / "base.pth").write_text(sysconfig.get_path("purelib"))
    lock = tomllib.loads(pathlib.Path(args[args.index("--python") + 2]).read_text())
    for package in lock["packages"]:
        info = site / (package["name"] + ".dist-info")
        info.mkdir()
        version = "9.8" if fails == "other" else package.get("version", "1.0")
        (info / "METADATA").write_text("Name: %s\\nVersion: %s\\n" % (package["name"], version))
        if "directory" in package:
            folder = pathlib.Path(package["directory"]["path"])
            assert args[args.index("--refresh-package") + 1] == package["name"]
            (info / "direct_url.json").write_text('{"url": "%s", "dir_info": {}}' % folder.as_uri())
            shutil.copytree(folder / package["name"], site / package["name"])
elif args[:2] == ["cache", "dir"]:
    print(os.environ["XDG_CACHE_HOME"])
"""


@pytest.fixture
def faked(tmp_path: Path) -> Upgrade:
    """A folder with one recipe and a uv that misbehaves."""
    recipe(tmp_path, "first")
    uv = tmp_path / "fake-uv"
    uv.write_text(FAKE_UV.replace("{python}", sys.executable))
    uv.chmod(0o755)
    upgrade = Upgrade(tmp_path)
    upgrade.env["UV"] = str(uv)
    return upgrade


def failures(upgrade: Upgrade, how: str, *more: str) -> list[str]:
    """What is said of the cell in each of two environments that cannot be made."""
    args = ["first.py:first", "--from", "torch==9.9", "--to", "torch==9.9 numpy", *more]
    document = upgrade.json(*args, FAKE_UV=how)
    assert document["exit"] == 2
    records = [cell["record"]["failure"] for cell in document["models"][0]["cells"]]
    assert all(f["stage"] == "environment" and f["outside"] for f in records)
    return [f["message"] for f in records]


def env_dir(upgrade: Upgrade) -> Path:
    return upgrade.cache / "coreai-audit" / "envs"


def test_what_would_not_fit_is_refused_before_anything_is_installed(faked: Upgrade) -> None:
    for message in failures(faked, "huge"):
        assert message.startswith(
            f"not enough disk in {env_dir(faked)}: about 17500.0 TB are needed (1 of 1 packages are not in uv's cache), "
        )
        assert message.endswith(
            " are free; free some, name another place with --env-dir, or `coreai-audit upgrade envs prune`"
        )
        assert "\n" not in message
    assert list(env_dir(faked).iterdir()) == []


def test_a_disk_that_fills_up_is_one_line_and_leaves_nothing(faked: Upgrade) -> None:
    for message in failures(faked, "full"):
        assert message == (
            "the disk is full: free some space, name another place with --env-dir, or `coreai-audit upgrade envs prune`"
        )
    assert list(env_dir(faked).iterdir()) == []


def test_what_is_installed_is_compared_with_what_was_resolved(faked: Upgrade) -> None:
    for message in failures(faked, "other"):
        assert message == (
            "what uv installed is not what it resolved: torch==9.9 was resolved, and 9.8 is installed"
        )
    assert list(env_dir(faked).iterdir()) == []


def test_a_project_that_is_edited_is_installed_and_converted_again(faked: Upgrade) -> None:
    package = faked.folder / "mymodels" / "mymodels"
    package.mkdir(parents=True)
    (faked.folder / "mymodels" / "pyproject.toml").write_text('[project]\nname = "mymodels"\n')
    # What the recipe raises tells which one is installed, without a conversion.
    (faked.folder / "uses.py").write_text(
        "import mymodels\ndef uses():\n    raise RuntimeError(mymodels.NAME)\n"
    )

    def shown(name: str) -> tuple[list[bool], str]:
        (package / "__init__.py").write_text(f"NAME = {name!r}\n")
        document = faked.json("uses.py:uses", "--from", "torch==9.9 ./mymodels", "--to=-e ./mymodels")
        failures = [c["record"]["failure"] for c in document["models"][0]["cells"]]
        assert [f["stage"] for f in failures] == ["recipe", "recipe"]
        return [name in f["message"] for f in failures], document["log"]

    assert shown("the first")[0] == [True, True]
    assert shown("the first") == ([True, True], "")
    told, log = shown("another")
    assert told == [True, True]
    assert "installed " in log
    assert "2 conversions to do, 0 results known" in log
    assert shown("the first") == ([True, True], ""), "going back finds the old ones"


def test_versions_that_do_not_go_together_and_a_dead_network_are_one_line(faked: Upgrade) -> None:
    assert failures(faked, "unsolvable")[0] == (
        "no such set of versions: there is no version of torch==9.9 and you require torch==9.9"
    )
    assert failures(faked, "network")[0] == (
        "the network is needed and https://pypi.org/simple/torch/ cannot be reached: "
        "with --offline only what is in uv's cache is used"
    )
    shown = faked.run(
        "upgrade", "first.py:first", "--from", "torch==9.9", "--to", "torch==9.9 numpy", FAKE_UV="unsolvable"
    )
    assert [line.split() for line in shown.stdout.splitlines()[:2]] == [
        ["model", "torch==9.9", "torch==9.9", "numpy"],
        ["first", "cannot", "convert", "(environment)", "cannot", "convert", "(environment)"],
    ]
    assert shown.stdout.count("no such set of versions") == 2


def test_an_interrupted_run_leaves_no_half_environment(faked: Upgrade) -> None:
    def slow() -> tuple[subprocess.Popen[str], int]:
        pid = faked.folder / "pid"
        pid.unlink(missing_ok=True)
        env = {**faked.env, "FAKE_UV": "slow", "FAKE_UV_PID": str(pid)}
        process = subprocess.Popen(
            [str(COMMAND), "upgrade", "first.py:first", "--from", "torch==9.9", "--to", "torch==9.9 numpy"],
            cwd=faked.folder, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        while not (pid.exists() and pid.read_text()):
            assert process.poll() is None
            time.sleep(0.02)
        return process, int(pid.read_text())

    process, installer = slow()
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=30) == 130
    assert list(env_dir(faked).iterdir()) == []
    wait_for_end(installer)

    # Nobody can tidy up after SIGKILL; the next run does.
    process, installer = slow()
    process.kill()
    process.wait()
    assert [p.name for p in env_dir(faked).iterdir()] == [f".making-{process.pid}-{key(faked)}"]
    os.kill(installer, signal.SIGKILL)
    wait_for_end(installer)
    assert faked.run("upgrade", "envs", "prune").returncode == 0
    assert list(env_dir(faked).iterdir()) == []


def key(upgrade: Upgrade) -> str:
    [folder] = env_dir(upgrade).iterdir()
    return folder.name.rsplit("-", 1)[1]


def wait_for_end(pid: int) -> None:
    for _ in range(200):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return
        if "State:\tZ" in Path(f"/proc/{pid}/status").read_text():
            return
        time.sleep(0.05)
    raise AssertionError(f"process {pid} is still there")


def shim_wheel(folder: Path) -> Path:
    """Version 2.0 of the made-up package as a wheel."""
    path = folder / "placeholder_shim-2.0-py3-none-any.whl"
    info = "placeholder_shim-2.0.dist-info"
    files = {
        "placeholder_shim.py": SHIM,
        "placeholder_shim.pth": "import placeholder_shim\n",
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: placeholder-shim\nVersion: 2.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    files[f"{info}/RECORD"] = "".join(f"{name},,\n" for name in [*files, f"{info}/RECORD"])
    with zipfile.ZipFile(path, "w") as wheel:
        for name, text in files.items():
            wheel.writestr(name, text)
    return path


def test_environments_are_made_by_uv_used_again_listed_and_pruned(tmp_path: Path) -> None:
    recipe(tmp_path, "first")
    (tmp_path / "wheels").mkdir()
    wheel = shim_wheel(tmp_path / "wheels")
    now = " ".join(f"{p}=={metadata.version(p)}" for p in ("torch", "coreai-torch", "coreai-core"))
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    # No index has it: where the resolver looks is where it must be installed from.
    pinned = f"placeholder-shim==2.0 \\\n  --hash=sha256:{digest}  # of the wheel\n"
    (tmp_path / "shimmed.txt").write_text("--find-links ./wheels\n" + now.replace(" ", "\n") + "\n" + pinned)
    (tmp_path / "coreai-audit.toml").write_text(
        '[models.first]\nrecipe = "first.py:first"\n'
        f'[[upgrade.env]]\nname = "plain"\nrequirements = {json.dumps(now.split())}\n'
        '[[upgrade.env]]\nname = "with the shim"\nfile = "shimmed.txt"\n'
    )
    upgrade = Upgrade(tmp_path)
    document = upgrade.json()
    assert document["exit"] == 1, document["log"]
    assert states(document) == {"first": ["reference", "contract-changed"]}
    assert "installed plain after " in document["log"]
    for environment, extra in zip(document["environments"], (0, 1), strict=True):
        assert environment["existing"] is False
        assert environment["packages"]["torch"] == metadata.version("torch")
        assert ("placeholder-shim" in environment["packages"]) == bool(extra)
        assert "pytest" not in environment["packages"]

    assert upgrade.json()["log"] == ""
    # With the results gone, the environments are still there.
    again = upgrade.json("--fresh", "--offline")
    assert "installing" not in again["log"]
    assert states(again) == states(document)

    listed = json.loads(upgrade.run("upgrade", "envs", "list", "--format", "json").stdout)
    assert len(listed["environments"]) == 2
    for made in listed["environments"]:
        assert made["packages"]["torch"] == metadata.version("torch")
        # The files are links into uv's cache.
        assert made["shared_bytes"] > 0.9 * made["bytes"]
    shown = upgrade.run("upgrade", "envs", "list").stdout.splitlines()
    assert shown[0].split() == [
        "env",
        "python",
        "torch",
        "coreai-torch",
        "packages",
        "size",
        "shared",
        "unused",
        "for",
    ]
    assert len(shown) == 4

    assert upgrade.run("upgrade", "envs", "prune").stdout.startswith("removed 0 of 2 environments, ")
    one = listed["environments"][0]["key"][:8]
    assert upgrade.run("upgrade", "envs", "prune", one).stdout.startswith("removed 1 of 2 environments, ")
    assert "no such environment" in upgrade.run("upgrade", "envs", "prune", one).stderr
    assert upgrade.run("upgrade", "envs", "prune", "--unused", "0").stdout.startswith(
        "removed 1 of 1 environment, "
    )
    assert list(env_dir(upgrade).iterdir()) == []

    refused = upgrade.json("first.py:first", "--from", "torch==0.0.1", "--to", "torch==0.0.2")
    for cell in refused["models"][0]["cells"]:
        assert cell["record"]["failure"]["message"].startswith("no such set of versions: ")

    wrong = (tmp_path / "shimmed.txt").read_text().replace(digest, "0" * 64)
    (tmp_path / "wrong.txt").write_text(wrong)
    refused = upgrade.json("first.py:first", "--from", "torch==0.0.1", "--to", "wrong.txt")
    assert refused["models"][0]["cells"][1]["record"]["failure"]["message"] == (
        "placeholder-shim==2.0: none of its files has a hash that the requirements ask for "
        f"(sha256:{'0' * 64}): expected sha256:{digest}"
    )
