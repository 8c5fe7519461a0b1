"""Every kind of recipe that the documentation promises, converted and read."""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import gate_json, run_command, write_manifest
from coreai_audit.worker.session import Session

RECIPES = """\
import dataclasses
from pathlib import Path

import torch
from torch import nn
from coreai_audit import Call, Recipe


class Sum(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(1, 4))

    def forward(self, x):
        self.total.add_(x)
        return self.total * 2


NAMES = dict(input_names=["x"], output_names=["y"], state_names=["total"])
X = (torch.ones(1, 4),)


@dataclasses.dataclass
class Cache:
    keys: torch.Tensor
    values: torch.Tensor


class Nested(nn.Module):
    def forward(self, x, cache, layers, *, scale):
        cache.keys.add_(x)
        layers[0]["k"].mul_(2)
        return {"sum": cache.keys + cache.values, "rest": [layers[0]["k"] * scale, layers[1]["v"] - x]}


class Returned(nn.Module):
    def forward(self, x):
        return Cache(keys=x * 2, values=x * 3)


def four():
    return torch.ones(1, 4)


def nested():
    return Recipe(
        module=Nested().eval(),
        args=(four(), Cache(four(), four()), [{"k": four()}, {"v": four()}]),
        kwargs={"scale": four()},
        input_names=["x", "values", "v1", "scale"],
        output_names=["sum", "k", "v"],
        state_names=["keys", "k0"],
    )


def dataclass_result():
    return Recipe(module=Returned().eval(), args=(four(),), input_names=["x"], output_names=["a", "b"], state_names=[])


def exported():
    with torch.no_grad():
        return Recipe(exported=torch.export.export(Sum().eval(), X), **NAMES)


def exported_by_callable():
    return Recipe(exported=lambda: torch.export.export(Sum().eval(), X), **NAMES)


def build(optimize=True):
    from coreai_torch import TorchConverter, get_decomp_table

    program = torch.export.export(Sum().eval(), X).run_decompositions(get_decomp_table())
    return TorchConverter(mode=TorchConverter.Mode.RELEASE).add_exported_program(program, **NAMES).to_coreai()


def program():
    return Recipe(program=build)


def asset():
    path = Path(__file__).with_name("made_elsewhere.aimodel")
    build().save_asset(path)
    return Recipe(asset="made_elsewhere.aimodel")


def strict():
    return Recipe(module=Sum().eval(), args=X, strict=True, **NAMES)


def named_function():
    return Recipe(module=Sum().eval(), args=X, entrypoint_name="decode", **NAMES)


def dynamic():
    rows = torch.export.Dim("rows", min=1, max=8)

    class Rows(nn.Module):
        def forward(self, x):
            return x * 2

    return Recipe(module=Rows().eval(), args=(torch.ones(3, 4),), dynamic_shapes={"x": {0: rows}},
                  input_names=["x"], output_names=["y"], state_names=[])


def calls():
    return Recipe(module=Sum().eval(), args=X, calls=[X, {"x": four() * 2}, Call((four(),))], **NAMES)


def dictionary():
    return {"module": Sum().eval(), "args": X, **NAMES}


def imports_a_neighbour():
    from neighbour import Sum as Other

    return Recipe(module=Other().eval(), args=X, **NAMES)


def training():
    return Recipe(module=nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5)).train(), args=X,
                  input_names=["x"], output_names=["y"], state_names=[])


def says_there_are_no_states():
    return Recipe(module=Sum().eval(), args=X, input_names=["x"], output_names=["y"], state_names=[])


def functions_in_two_orders():
    class Core(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("k", torch.zeros(1, 4))
            self.register_buffer("v", torch.zeros(1, 4))

    class Write(nn.Module):
        def __init__(self, core):
            super().__init__()
            self.core = core

        def forward(self, x):
            self.core.k.add_(x)
            self.core.v.add_(x * 2)
            return self.core.k + self.core.v

    class Read(nn.Module):
        def __init__(self, core):
            super().__init__()
            self.core = core

        def forward(self, x):
            return self.core.k * x

    core = Core()
    reader = Recipe(module=Read(core).eval(), args=X, entrypoint_name="peek",
                    input_names=["x"], output_names=["y"], state_names=[])
    return Recipe(module=Write(core).eval(), args=X, input_names=["x"], output_names=["y"],
                  state_names=["k", "v"], functions=[reader])
"""

GOOD = [
    "nested", "dataclass_result", "exported", "exported_by_callable", "program", "asset", "strict",
    "named_function", "dynamic", "calls", "dictionary", "imports_a_neighbour",
]  # fmt: skip


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recipes")
    (folder / "recipes.py").write_text(RECIPES)
    body = RECIPES.split("NAMES =")[0]
    (folder / "neighbour.py").write_text(body)
    others = ["training", "says_there_are_no_states", "functions_in_two_orders"]
    write_manifest(folder, {name: f"recipes.py:{name}" for name in [*GOOD, *others]})
    return folder


@pytest.fixture(scope="module")
def reports(project: Path) -> dict[str, dict[str, Any]]:
    _, document = gate_json(cwd=project, ci=False)
    return {m["name"]: m for m in document["models"]}


def ports(report: dict[str, Any], role: str, function: int = 0) -> list[tuple[str, str | None]]:
    """Name and source of each entry of one list."""
    entries = report["contract"]["functions"][function][role]
    return [(p["name"], p.get("source", {}).get("name")) for p in entries]


@pytest.mark.parametrize("name", GOOD)
def test_recipe_converts_without_complaint(name: str, reports: dict[str, dict[str, Any]]) -> None:
    worse = [f for f in reports[name]["findings"] if f["severity"] != "advice"]
    assert (reports[name]["verdict"], worse) == ("new", [])


def test_nested_arguments_are_named_by_their_path(reports: dict[str, dict[str, Any]]) -> None:
    report = reports["nested"]
    assert ports(report, "states") == [("keys", "cache.keys"), ("k0", "layers[0]['k']")]
    assert ports(report, "inputs") == [
        ("x", "x"), ("values", "cache.values"), ("v1", "layers[1]['v']"), ("scale", "scale"),
    ]  # fmt: skip
    assert [n for n, _ in ports(report, "outputs")] == ["sum", "k", "v"]


@pytest.mark.parametrize("name", ["exported", "exported_by_callable", "strict", "named_function", "calls"])
def test_states_have_their_buffer_as_source(name: str, reports: dict[str, dict[str, Any]]) -> None:
    assert ports(reports[name], "states") == [("total", "total")]


@pytest.mark.parametrize("name", ["program", "asset"])
def test_a_program_without_signature_is_read_all_the_same(
    name: str, reports: dict[str, dict[str, Any]]
) -> None:
    [state] = reports[name]["contract"]["functions"][0]["states"]
    assert state == {"name": "total", "dtype": "float32", "shape": [1, 4], "access": "read-write"}


def test_the_export_mode_is_part_of_the_contract(reports: dict[str, dict[str, Any]]) -> None:
    modes = {n: reports[n]["contract"]["functions"][0].get("export") for n in ("strict", "calls", "program")}
    assert modes == {"strict": {"strict": True}, "calls": {"strict": False}, "program": None}


def test_the_entry_point_has_its_name(reports: dict[str, dict[str, Any]]) -> None:
    assert [f["name"] for f in reports["named_function"]["contract"]["functions"]] == ["decode"]


def test_a_dynamic_dimension_is_null(reports: dict[str, dict[str, Any]]) -> None:
    assert reports["dynamic"]["contract"]["functions"][0]["inputs"][0]["shape"] == [None, 4]


def test_training_mode_is_told(reports: dict[str, dict[str, Any]]) -> None:
    assert [f["id"] for f in reports["training"]["findings"]] == ["training-mode"]


def test_an_empty_list_asserts_that_there_is_nothing(reports: dict[str, dict[str, Any]]) -> None:
    report = reports["says_there_are_no_states"]
    [finding] = [f for f in report["findings"] if f["severity"] == "error"]
    assert finding["id"] == "unexpected-port"
    assert finding["message"] == "state_names is empty, and the asset has 1 state"
    assert finding["evidence"] == [
        "state 0: b_total is buffer total, written at recipes.py:15: self.total.add_(x)"
    ]


def test_a_function_that_only_reads_a_state_is_told(reports: dict[str, dict[str, Any]]) -> None:
    findings = reports["functions_in_two_orders"]["findings"]
    [finding] = [f for f in findings if f["id"] == "functions-disagree"]
    assert finding["severity"] == "error"
    assert finding["message"] == "k is a state of main and a constant in peek"


def test_convert_writes_asset_and_contract(project: Path) -> None:
    result = run_command(
        "convert", "recipes.py:strict", "-o", "out/strict.aimodel", "--contract", "strict.json", cwd=project
    )
    assert (result.returncode, result.stdout.splitlines()[-1]) == (0, "out/strict.aimodel")
    assert sorted(p.name for p in (project / "out" / "strict.aimodel").iterdir()) == [
        "main.hash", "main.mlirb", "metadata.json",
    ]  # fmt: skip
    assert '"state' not in (project / "strict.json").read_text().splitlines()[0]


def test_what_init_writes_runs_as_it_is(tmp_path: Path) -> None:
    assert run_command("init", cwd=tmp_path).returncode == 0
    assert sorted(p.name for p in tmp_path.iterdir()) == ["coreai-audit.toml", "recipes.py"]
    code, document = gate_json(cwd=tmp_path, ci=False)
    assert code == 0
    [model] = document["models"]
    assert (model["name"], model["verdict"]) == ("example", "new")
    assert {f["id"] for f in model["findings"]} <= {"no-prefix-reuse"}
    again = run_command("init", cwd=tmp_path)
    assert again.returncode == 2
    assert "exists; nothing was written" in again.stderr


def test_ci_neither_writes_nor_accepts(tmp_path: Path) -> None:
    run_command("init", cwd=tmp_path)
    code, document = gate_json(cwd=tmp_path, ci=True)
    assert (code, document["models"][0]["verdict"]) == (1, "fail")
    assert not (tmp_path / "snapshots").exists()


def test_an_orphaned_snapshot_is_reported(tmp_path: Path) -> None:
    run_command("init", cwd=tmp_path)
    gate_json(cwd=tmp_path, ci=False)
    assert run_command("snapshot", "accept", "example", cwd=tmp_path, ci=False).returncode == 0
    (tmp_path / "snapshots" / "example.snap").rename(tmp_path / "snapshots" / "gone.snap")
    text = (tmp_path / "snapshots" / "gone.snap").read_text()
    (tmp_path / "snapshots" / "gone.snap").write_text(text.replace("expression: example", "expression: gone"))
    code, document = gate_json(cwd=tmp_path, ci=False)
    assert (code, document["orphans"]) == (0, ["gone.snap"])


def run_stages(path: Path, name: str, upto: str = "observe") -> Session:
    """The stages of a conversion up to one of observe and decompose; the caller closes the session."""
    session = Session(str(path), name, False)
    session.load()
    session.observe()
    if upto == "decompose":
        session.export()
        session.decompose()
    return session


STRICT = """\
import neighbour
import torch
from torch import nn
from coreai_audit import Recipe

SCALE_{letter} = {scale}


class Scaled(nn.Module):
    def forward(self, x):
        return x * SCALE_{letter} + neighbour.OFFSET_{letter}


def scaled():
    return Recipe(module=Scaled().eval(), args=(torch.ones(2),), strict=True)
"""


def test_two_recipe_files_in_one_worker_know_nothing_of_each_other(tmp_path: Path) -> None:
    found = []
    for letter, scale in (("a", 2.0), ("b", 3.0)):
        folder = tmp_path / letter
        folder.mkdir()
        (folder / "neighbour.py").write_text(f"OFFSET_{letter} = {scale * 10}\n")
        recipe = folder / "recipes.py"
        recipe.write_text(STRICT.format(letter=letter, scale=scale))
        session = run_stages(recipe, "scaled", "decompose")
        found.append([a for n in session.programs[0].graph.nodes for a in n.args if isinstance(a, float)])
        session.close()
    assert found == [[2.0, 20.0], [3.0, 30.0]]
    assert not [m for m in sys.modules if m.startswith("coreai_audit_recipe_file") or m == "neighbour"]


SPOILS = """\
import os, sys, warnings
import torch
from coreai_audit import Recipe


def spoils():
    os.chdir("/")
    os.environ["LEFT_BY_A_RECIPE"] = "1"
    os.environ.pop("TAKEN_BY_A_RECIPE")
    sys.path.append(os.path.join(os.path.dirname(__file__), "elsewhere"))
    import left_elsewhere
    warnings.simplefilter("error")
    torch.set_default_dtype(torch.float64)
    torch.set_default_device("meta")
    torch.set_grad_enabled(False)
    sys.stdout = sys.stderr = None
    os.close(1)
    os.close(2)
    return Recipe(module=torch.nn.Identity(), args=(torch.ones(2),))
"""


def test_what_a_recipe_does_to_the_process_is_undone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAKEN_BY_A_RECIPE", "here")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "left_elsewhere.py").write_text("")
    (tmp_path / "recipes.py").write_text(SPOILS)

    def process() -> dict[str, Any]:
        return {
            "folder": os.getcwd(),
            "environment": dict(os.environ),
            "path": list(sys.path),
            "filters": list(warnings.filters),
            "streams": (sys.stdin, sys.stdout, sys.stderr),
            "files": [os.fstat(d).st_ino for d in range(3)],
            "torch": (torch.get_default_dtype(), torch.get_default_device(), torch.is_grad_enabled()),
            "neighbour": sys.modules.get("left_elsewhere"),
        }

    before = process()
    session = run_stages(tmp_path / "recipes.py", "spoils")
    # The converter's own warnings must not end this model either.
    assert ("error", None, Warning, None, 0) not in warnings.filters
    session.close()
    assert process() == before


UNCOPYABLE = """\
import threading
import torch
from torch import nn
from coreai_audit import Recipe

made = 0


class Counts(nn.Module):
    def __init__(self, part):
        super().__init__()
        self.part = part
        self.register_buffer("total", torch.zeros(2))

    def forward(self, x, extra=None):
        self.total.add_(x)
        return self.total * 2


class Refuses:
    def __deepcopy__(self, memo):
        raise OSError("not this one")


def of(part, **fields):
    return Recipe(module=Counts(part).eval(), args=(torch.ones(2),), **fields)


def lock():
    return of(threading.Lock())


def open_file():
    return of(open(__file__))


def generator():
    return of(i for i in range(3))


def not_a_leaf():
    return of(nn.Parameter(torch.ones(2)) * 2)


def refuses():
    return of(Refuses())


def weight_norm():
    return of(nn.utils.weight_norm(nn.Linear(2, 2)))


def argument():
    return of(None, kwargs={"extra": threading.Lock()})


def compiled():
    made = of(None)
    made.module = torch.compile(made.module)
    return made


def once():
    import os
    if os.environ.get("MADE_ONCE"):
        raise RuntimeError("the weights were deleted after loading")
    os.environ["MADE_ONCE"] = "1"
    return of(threading.Lock())


def bad_call():
    return of(None, calls=[(torch.ones(2),), (torch.ones(3),)])
"""


@pytest.fixture
def uncopyable(tmp_path: Path) -> Path:
    path = tmp_path / "recipes.py"
    path.write_text(UNCOPYABLE)
    return path


@pytest.mark.parametrize(
    "name",
    ["lock", "open_file", "generator", "not_a_leaf", "refuses", "weight_norm", "argument", "compiled"],
)
def test_a_module_that_cannot_be_copied_is_observed(name: str, uncopyable: Path) -> None:
    session = run_stages(uncopyable, name)
    assert session.facts[0]["observed"] == {
        "mode": "eval",
        "changed": [
            {"name": "total", "kind": "buffer", "dtype": "float32", "appeared": False, "once": False}
        ],
        "error": None,
        "skipped": None,
    }
    # The one that is exported has not been called.
    assert session.recipe is not None
    assert session.recipe.module is not None
    assert session.recipe.module.total.tolist() == [0.0, 0.0]
    session.close()


def test_a_module_that_cannot_be_made_twice_is_not_observed(uncopyable: Path) -> None:
    session = run_stages(uncopyable, "once")
    assert session.facts[0]["observed"] == {
        "mode": "eval",
        "changed": [],
        "error": None,
        "skipped": "the module cannot be copied (TypeError: cannot pickle '_thread.lock' object), and the "
        "recipe function fails when it is called once more "
        "(RuntimeError: the weights were deleted after loading)",
    }
    session.close()


def test_a_call_that_fails_is_told_by_its_number(uncopyable: Path) -> None:
    session = run_stages(uncopyable, "bad_call")
    assert session.facts[0]["observed"]["error"].startswith(
        "call 2 of calls: RuntimeError: The size of tensor"
    )
    session.close()


def test_arguments_of_an_exported_program_keep_their_names(project: Path) -> None:
    session = run_stages(project / "recipes.py", "exported", "decompose")
    [x] = [p for p in session.facts[0]["program"]["placeholders"] if p["kind"] == "user_input"]
    assert (x["path"], x["rank"]) == ("x", 0)
    session.close()
