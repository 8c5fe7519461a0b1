"""``upgrade``: the same models under several toolchains, what moved, and what is not done twice."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import COMMAND
from upgrading import Upgrade, environment, recipe, states, without_runs


@pytest.fixture(scope="module")
def upgrade(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Upgrade]:
    """A folder with two recipes and environments: the reference, one with the shim, one without torch."""
    folder = tmp_path_factory.mktemp("upgrade")
    recipe(folder, "first")
    recipe(folder, "second", 3.0, "from helper import NOTHING")
    (folder / "helper.py").write_text("NOTHING = 0\n")
    (folder / "coreai-audit.toml").write_text(
        '[models.first]\nrecipe = "first.py:first"\n[models.second]\nrecipe = "second.py:second"\n'
    )
    environment(folder / "old")
    environment(folder / "new", shim=True)
    environment(folder / "bare", torch=False)
    yield Upgrade(folder)
    shutil.rmtree(folder)


def test_a_swap_of_placeholders_is_told_although_names_order_and_shapes_are_equal(upgrade: Upgrade) -> None:
    document = upgrade.json("--from", "old", "--to", "new")
    assert document["exit"] == 1
    assert states(document) == {
        "first": ["reference", "contract-changed"],
        "second": ["reference", "contract-changed"],
    }
    old, new = (c["record"]["contract"]["functions"][0]["states"] for c in document["models"][0]["cells"])
    bare = [[(s["name"], s["dtype"], s["shape"]) for s in side] for side in (old, new)]
    assert bare[0] == bare[1] == [("key_cache", "float32", [1, 4]), ("value_cache", "float32", [1, 4])]

    [step] = document["models"][0]["steps"]
    [change] = step["contract"]
    assert change["id"] == "source-changed"
    assert [c["record"]["checked"] for c in document["models"][0]["cells"]] == [True, False]
    assert change["counts"] is True
    assert change["message"] == (
        "sources of states 0 and 1 exchanged: key_cache is now buffer value, value_cache is now buffer key"
    )
    assert [c["message"] for c in step["signature"] if c["kind"] == "state-order"] == [
        "what is written comes in another order: key, value became value, key"
    ]
    assert document["environments"][1]["packages"]["placeholder-shim"] == "2.0"


def test_what_is_unchanged_is_not_converted_again(upgrade: Upgrade) -> None:
    upgrade.json("--from", "old", "--to", "new")
    began = time.perf_counter()
    again = upgrade.json("--from", "old", "--to", "new")
    assert time.perf_counter() - began < 3
    assert again["log"] == ""
    assert all(c["record"]["run"]["cached"] for m in again["models"] for c in m["cells"])

    # A file that one recipe imports: that model alone is done again, and told the same.
    helper = upgrade.folder / "helper.py"
    helper.write_text("NOTHING = 1\n")
    touched = upgrade.json("--from", "old", "--to", "new")
    assert touched["log"].startswith("2 conversions to do, 2 results known\n")
    assert [c["record"]["run"]["cached"] for c in touched["models"][0]["cells"]] == [True, True]
    assert [c["record"]["run"]["cached"] for c in touched["models"][1]["cells"]] == [False, False]
    assert without_runs(touched) == without_runs(again)
    helper.write_text("NOTHING = 0\n")
    assert upgrade.json("--from", "old", "--to", "new")["log"] == "", "going back finds the old result"


LISTS = """\
import glob, json, os, pathlib, sys, tempfile
from coreai_audit.worker import inputs
inputs.watch()
inputs.begin()
here = pathlib.Path(sys.argv[1])
code = compile((here / "lists.py").read_text(), str(here / "lists.py"), "exec")
sys.path.insert(0, str(here))
exec(code)
print(json.dumps(inputs.files(str(here / "lists.py"))))
"""


def test_folders_that_a_recipe_lists_are_inputs_and_those_that_imports_list_are_not(tmp_path: Path) -> None:
    for name in ("globbed", "walked", "listed", "iterated", "imported"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "data.json").write_text("1")
    (tmp_path / "imported" / "__init__.py").write_text("X = 1\n")
    (tmp_path / "lists.py").write_text(
        "import glob, json, os, pathlib, shutil, tempfile\n"
        "import imported\n"
        f"here = pathlib.Path({str(tmp_path)!r})\n"
        "list((here / 'globbed').glob('*.json'))\n"
        "list(os.walk(here / 'walked'))\n"
        "os.listdir(str(here / 'listed'))\n"
        "for file in (here / 'iterated').iterdir():\n"
        "    file.read_text()\n"
        "folder = tempfile.mkdtemp(dir=here)\n"
        "os.listdir(folder)\n"
    )
    shown = subprocess.run(
        [sys.executable, "-c", LISTS, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert [str(Path(f).relative_to(tmp_path)) for f in json.loads(shown.stdout)] == [
        "globbed", "imported/__init__.py", "iterated", "iterated/data.json", "listed", "lists.py", "walked",
    ]  # fmt: skip


def test_a_chain_says_which_step_moved_the_contract(upgrade: Upgrade) -> None:
    environment(upgrade.folder / "middle")
    environment(upgrade.folder / "last", shim=True)
    result = upgrade.run("upgrade", "first", "--from", "old", "--to", "middle", "--to", "new", "--to", "last")
    assert result.returncode == 1
    table, details = result.stdout.split("\n\n", 1)
    moved = "contract changed, check fails, 2 new findings"
    assert [" ".join(line.split()) for line in table.splitlines()] == [
        "model old middle new last",
        f"first reference same {moved} {moved}",
    ]
    assert "error[name-order-mismatch] main" in details
    # Running shows it too, whatever the signature says.
    assert "error[swapped-binding] main, key_cache: states key_cache and value_cache are exchanged" in details
    assert "new: since middle: placeholder-shim 2.0\n" in details
    assert "last: since new: the same packages\n" in details
    assert "  middle → new: the contract changed\n    breaking[source-changed] main: sources of" in details
    assert "old → middle" not in details
    assert "new → last" not in details


def test_parts_joined_are_the_whole(upgrade: Upgrade) -> None:
    whole = upgrade.json("--from", "old", "--to", "new")
    parts = []
    for k in (1, 2):
        part = upgrade.json("--from", "old", "--to", "new", "--shard", f"{k}/2")
        part.pop("log")
        parts.append(upgrade.folder / f"{k}.json")
        parts[-1].write_text(json.dumps(part))
        assert sum(s == "elsewhere" for m in states(part).values() for s in m) == 2
    merged = upgrade.run("report", "merge", "--format", "json", *map(str, parts))
    assert merged.returncode == 1
    assert without_runs(json.loads(merged.stdout)) == without_runs(whole)

    alone = upgrade.run("report", "merge", str(parts[0]))
    assert alone.returncode == 2
    assert alone.stderr == "error: part 2/2 is missing: 2 cells of 4 not judged\n"
    other = upgrade.run("upgrade", "--format", "json", "first", "--from", "old", "--to", "new").stdout
    (upgrade.folder / "other.json").write_text(other)
    refused = upgrade.run("report", "merge", "1.json", "other.json")
    assert refused.returncode == 2
    assert refused.stderr == "error: other.json: is no part of the same run as 1.json: the models differ\n"
    assert upgrade.run("report", "merge", "coreai-audit.toml").returncode == 2


def test_a_broken_environment_is_one_line_and_stops_nothing_else(upgrade: Upgrade) -> None:
    gone = str(upgrade.folder / "gone" / "bin" / "python")
    (upgrade.folder / "not-python").write_text("hello")
    (upgrade.folder / "not-python").chmod(0o755)
    document = upgrade.json(
        "first", "--from", "old", "--to", "bare", "--to", "not-python", "--to", gone, "--to", "new"
    )
    assert document["exit"] == 2
    cells = document["models"][0]["cells"]
    assert [c["state"] for c in cells] == [
        "reference",
        "cannot-convert",
        "cannot-convert",
        "cannot-convert",
        "contract-changed",
    ]
    assert cells[1]["record"]["failure"] == {
        "stage": "start",
        "message": "coreai-torch is not installed in the Python that converts: torch and coreai-torch are needed there",
        "outside": True,
    }
    assert cells[2]["record"]["failure"]["stage"] == "environment"
    assert "not-python: cannot be run: Exec format error" in cells[2]["record"]["failure"]["message"]
    assert cells[3]["record"]["failure"]["message"] == (
        f"{gone}: no such environment, interpreter or requirements file"
    )
    [step] = document["models"][0]["steps"]
    assert step["across"] == ["bare", "not-python", gone]

    # Where nothing is left to compare, nothing begins.
    missing = upgrade.run("upgrade", "--from", "old", "--to", gone)
    assert missing.returncode == 2
    assert missing.stderr == f"error: {gone}: no such environment, interpreter or requirements file\n"


def test_an_environment_deleted_during_the_run_loses_only_its_own_cells(upgrade: Upgrade) -> None:
    doomed = environment(upgrade.folder / "doomed", shim=True)
    # The environment goes when the first conversion in it has begun.
    (upgrade.folder / "deletes.py").write_text(
        "import shutil, sys, os\n"
        "def deletes():\n"
        "    if 'doomed' in sys.prefix:\n"
        "        shutil.rmtree(sys.prefix)\n"
        "        os.kill(os.getpid(), 9)\n"
        "    import first\n"
        "    return first.first()\n"
    )
    document = upgrade.json(
        "deletes.py:deletes", "first.py:first", "--from", "old", "--to", str(doomed), "--jobs", "1"
    )
    assert document["exit"] == 2
    for model in document["models"]:
        assert model["cells"][0]["state"] == "reference"
        failure = model["cells"][1]["record"]["failure"]
        assert failure["stage"] == "environment"
        assert failure["message"] == f"the environment {doomed} was deleted during the run; run again"


def test_a_killed_run_resumes_and_leaves_nothing_unfinished(upgrade: Upgrade) -> None:
    (upgrade.folder / "waits.py").write_text(
        "import pathlib, time\n"
        "def waits():\n"
        "    while pathlib.Path(__file__).with_name('wait').exists():\n"
        "        time.sleep(0.05)\n"
        "    import first\n"
        "    return first.first()\n"
    )
    wait = upgrade.folder / "wait"
    wait.touch()
    scratch = upgrade.folder / "scratch"
    scratch.mkdir()
    args = ["first.py:first", "waits.py:waits", "--from", "old", "--to", "new", "--jobs", "1"]
    process = subprocess.Popen(
        [str(COMMAND), "upgrade", *args, "--fresh"],
        cwd=upgrade.folder, env={**upgrade.env, "TMPDIR": str(scratch)}, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stderr is not None
    while "first in old: converted" not in process.stderr.readline():
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=30) == 130
    process.stderr.close()
    # PyTorch keeps a folder of its own there.
    assert [p.name for p in scratch.iterdir() if not p.name.startswith("torchinductor")] == []
    wait.unlink()
    resumed = upgrade.json(*args)
    assert resumed["models"][0]["cells"][0]["record"]["run"]["cached"] is True
    assert states(resumed)["waits"] == ["reference", "contract-changed"]


def test_a_model_that_no_longer_converts_has_moved(upgrade: Upgrade) -> None:
    (upgrade.folder / "breaks.py").write_text(
        "import importlib.util\n"
        "def breaks():\n"
        "    if importlib.util.find_spec('placeholder_shim'):\n"
        "        raise RuntimeError('not with version 2.0')\n"
        "    import first\n"
        "    return first.first()\n"
    )
    document = upgrade.json("breaks.py:breaks", "--from", "old", "--to", "new")
    assert document["exit"] == 1
    assert states(document) == {"breaks": ["reference", "cannot-convert"]}
    failure = document["models"][0]["cells"][1]["record"]["failure"]
    assert failure["stage"] == "recipe"
    assert "not with version 2.0" in failure["message"]
    # The other way round there is nothing to compare with.
    back = upgrade.json("breaks.py:breaks", "--from", "new", "--to", "old")
    assert back["exit"] == 2
    assert states(back) == {"breaks": ["cannot-convert", "not-compared"]}


def test_wrong_use_is_told(upgrade: Upgrade) -> None:
    def error(*args: str) -> str:
        result = upgrade.run("upgrade", *args)
        assert result.returncode == 2
        return result.stderr

    assert error() == (
        "error: two environments are needed to compare: give --from and --to, or list them as "
        "[[upgrade.env]] in the manifest\n"
    )
    assert error("--from", "old", "--to", "old") == 'error: environment "old" is asked for twice\n'
    assert "expected a part of a whole such as 1/4" in error("--from", "old", "--to", "new", "--shard", "3/2")
    assert error("--to", "helper.py/x") == (
        "error: helper.py/x: no such environment, interpreter or requirements file\n"
    )
    assert Path(upgrade.folder / "snapshots").exists() is False
