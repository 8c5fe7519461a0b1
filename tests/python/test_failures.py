"""What cannot be judged: exit code 2, a clear line that says where and what to do, nothing half-written."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import gate_json, run_command, write_manifest
from coreai_audit import Call, Recipe, RecipeError
from coreai_audit.worker import failures, recipes

HEAD = """\
import os, signal, sys, time
import torch
from torch import nn
from coreai_audit import Recipe


class Model(nn.Module):
    def __init__(self, hook=lambda: None):
        super().__init__()
        self.register_buffer("total", torch.zeros(1, 4))
        self.hook = [hook]

    def forward(self, x):
        self.hook[0]()
        self.total.add_(x)
        return self.total * 2


def good(hook=lambda: None, **fields):
    given = dict(input_names=["x"], output_names=["y"], state_names=["total"])
    return Recipe(module=Model(hook).eval(), args=(torch.ones(1, 4),), **{**given, **fields})


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def dying(owner, name, how=die):
    setattr(owner, name, lambda *a, **k: how())
    return good()
"""

# Stage → a recipe whose worker is killed in it.
KILLED = {
    "recipe": "die(); return good()",
    "observe": "return good(hook=lambda: None if torch.compiler.is_exporting() else die())",
    "reference": "from coreai_audit.worker import trace; return dying(trace, 'record')",
    "export": "return good(hook=lambda: die() if torch.compiler.is_exporting() else None)",
    "decompose": "return dying(torch.export.ExportedProgram, 'run_decompositions')",
    "convert": "import coreai_torch; return dying(coreai_torch.TorchConverter, 'to_coreai')",
    "optimize": "import coreai.authoring as a; a.AIProgram.optimize = lambda self: die(); return good()",
    "print": "from coreai_audit.worker import session; return dying(session.Session, 'print_ir')",
    "save": "import coreai.authoring as a; return dying(a.AIProgram, 'save_asset')",
    "describe": "from coreai_audit.worker import describe; return dying(describe, 'describe')",
}


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int, dict[str, dict[str, Any]]]:
    """A run in which every other model loses its worker, each in another stage."""
    folder = tmp_path_factory.mktemp("killed")
    functions = [f"def {stage}():\n    {body}\n" for stage, body in KILLED.items()]
    (folder / "recipes.py").write_text("\n\n".join([HEAD, *functions]))
    write_manifest(folder, {name: f"recipes.py:{name}" for name in [*KILLED, "good"]})
    code, document = gate_json("--out", "assets", cwd=folder, ci=False)
    return folder, code, {m["name"]: m for m in document["models"]}


def _loud(report: dict[str, Any]) -> list[dict[str, Any]]:
    """What is more than advice."""
    return [f for f in report["findings"] if f["severity"] != "advice"]


@pytest.mark.parametrize("stage", KILLED)
def test_a_killed_worker_fails_its_model_with_the_stage(
    stage: str, killed: tuple[Path, int, dict[str, dict[str, Any]]]
) -> None:
    _, code, reports = killed
    [finding] = [f for f in reports[stage]["findings"] if f["id"] == "worker-died"]
    assert code == 2
    assert reports[stage]["verdict"] == "error"
    assert finding["message"] == f"in stage {stage}: the worker process died of SIGKILL (signal 9)"


def test_the_next_model_gets_a_fresh_worker(killed: tuple[Path, int, dict[str, dict[str, Any]]]) -> None:
    _, _, reports = killed
    assert (reports["good"]["verdict"], _loud(reports["good"])) == ("new", [])


def test_no_half_written_asset_is_left(killed: tuple[Path, int, dict[str, dict[str, Any]]]) -> None:
    folder, _, _ = killed
    # The worker killed while the descriptor was read had saved a whole asset.
    assert sorted(p.name for p in (folder / "assets").iterdir()) == [
        "describe.aimodel", "describe.trace.safetensors", "good.aimodel", "good.trace.safetensors",
    ]  # fmt: skip


def test_an_abort_of_the_converter_is_told_with_its_last_words(tmp_path: Path) -> None:
    body = (
        "def abort():\n    import coreai_torch\n"
        "    def crash():\n        print('LLVM ERROR: out of registers', file=sys.stderr, flush=True)\n        os.abort()\n"
        "    return dying(coreai_torch.TorchConverter, 'to_coreai', crash)\n"
    )
    (tmp_path / "recipes.py").write_text(HEAD + "\n\n" + body)
    result = run_command("gate", "recipes.py:abort", cwd=tmp_path)
    assert result.returncode == 2
    assert "in stage convert: the worker process died of SIGABRT (signal 6)" in result.stdout
    assert "log: LLVM ERROR: out of registers" in result.stdout


def test_a_hang_ends_at_the_timeout(tmp_path: Path) -> None:
    (tmp_path / "recipes.py").write_text(HEAD + "\n\ndef hang():\n    time.sleep(600)\n")
    result = run_command("gate", "recipes.py:hang", "--timeout", "60", cwd=tmp_path)
    assert result.returncode == 2
    assert "timed-out" in result.stdout
    assert "in stage recipe: ran longer than --timeout 60s" in result.stdout


def test_memory_beyond_the_limit_ends_the_worker(tmp_path: Path) -> None:
    (tmp_path / "recipes.py").write_text(
        HEAD + "\n\ndef grow():\n    big = b'1' * 3_000_000_000\n    time.sleep(600)\n"
    )
    result = run_command("gate", "recipes.py:grow", "--max-memory", "2GB", cwd=tmp_path)
    assert result.returncode == 2
    assert "out-of-memory" in result.stdout
    assert "more than --max-memory 2.0 GB" in result.stdout


def test_torch_missing_is_told_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "recipes.py").write_text(HEAD)
    bare = Path(sys.base_prefix) / "bin" / "python3"
    result = run_command("gate", "recipes.py:good", "--python", str(bare), cwd=tmp_path)
    assert result.returncode == 2
    assert "missing-package" in result.stdout
    assert 'pip install "coreai-audit[convert]"' in result.stdout


# Recipe body → words of the message; none needs more than the recipe itself.
RECIPES = {
    "raises": ("raise OSError('weights are gone')", ["OSError: weights are gone", "recipes.py"]),
    "returns_nothing": ("return None", ["expected the function to return a coreai_audit.Recipe, got NoneType"]),
    "nothing_to_convert": ("return Recipe()", ["exactly one of module, exported, program and asset", "none of them"]),
    "unknown_field": ("return {'modul': Model()}", ["unknown field 'modul'; did you mean 'module'?"]),
    "one_name_as_string": ("return good(state_names='total')", ["state_names must be a list of strings, got str"]),
    "duplicate_states": ("return good(state_names=['total', 'total'])", ["'total' twice"]),
    "input_and_state_alike": ("return good(input_names=['total'])", ["'total' twice"]),
    "empty_name": ("return good(output_names=[''])", ["output_names[0] must be a non-empty string"]),
    "too_many_states": (
        "return good(state_names=['total', 'velocity'])",
        ["state_names has 2 names, the program has 1 state", "state 0: total for buffer total", "state 1: velocity for (nothing)"],
    ),
    "too_few_inputs": (
        "m = Model(); m.forward = lambda x, z: x * z; return Recipe(module=m.eval(), args=(torch.ones(1), torch.ones(1)), "
        "input_names=['a'], output_names=['y'], state_names=[])",
        ["input_names has 1 name, the program has 2 inputs", "input 1: (no name) for argument z"],
    ),
    "too_many_outputs": (
        "return good(output_names=['y', 'z'])",
        ["output_names has 2 names, the program has 1 output", "output 1: z for (nothing)"],
    ),
    "same_entry_point": (
        "return good(functions=[good()])",
        ["entrypoint_name 'main' is used by 2 functions"],
    ),
    "asset_is_not_there": ("return Recipe(asset='nowhere.aimodel')", ["nowhere.aimodel is not an .aimodel folder"]),
    "syntax_of_another_file": ("import broken_neighbour", ["SyntaxError"]),
}  # fmt: skip


@pytest.fixture(scope="module")
def wrong_recipes(tmp_path_factory: pytest.TempPathFactory) -> tuple[int, dict[str, dict[str, Any]]]:
    folder = tmp_path_factory.mktemp("recipes")
    functions = [f"def {name}():\n    {body}\n" for name, (body, _) in RECIPES.items()]
    (folder / "recipes.py").write_text("\n\n".join([HEAD, *functions]))
    (folder / "broken_neighbour.py").write_text("def f(:\n")
    models = {name: f"recipes.py:{name}" for name in RECIPES}
    models |= {"no_file": "missing.py:good", "no_function": "recipes.py:goood"}
    write_manifest(folder, models)
    code, document = gate_json(cwd=folder)
    return code, {m["name"]: m for m in document["models"]}


@pytest.mark.parametrize("name", RECIPES)
def test_a_wrong_recipe_is_told(name: str, wrong_recipes: tuple[int, dict[str, dict[str, Any]]]) -> None:
    code, reports = wrong_recipes
    [finding] = reports[name]["findings"]
    said = "\n".join([finding["message"], *finding.get("evidence", [])])
    assert (code, reports[name]["verdict"]) == (2, "error")
    for words in RECIPES[name][1]:
        assert words in said


def test_a_missing_file_and_function_are_told(
    wrong_recipes: tuple[int, dict[str, dict[str, Any]]],
) -> None:
    _, reports = wrong_recipes
    assert "missing.py: no such recipe file" in reports["no_file"]["findings"][0]["message"]
    message = reports["no_function"]["findings"][0]["message"]
    assert "no function 'goood'; did you mean 'good'?" in message


# Fields of a recipe → the whole message.
FIELDS = {
    "strict_is_a_string": (dict(strict="no"), "Recipe: strict must be True or False, got 'no'"),
    "training_is_a_number": (dict(training=1), "Recipe: training must be True or False, got 1"),
    "seed_is_a_string": (dict(seed="7"), "Recipe: seed must be an integer of 64 bits, got '7'"),
    "seed_is_a_truth_value": (dict(seed=True), "Recipe: seed must be an integer of 64 bits, got True"),
    "seed_is_too_large": (dict(seed=2**64), "Recipe: seed must be an integer of 64 bits, got 18446744073709551616"),
    "no_calls": (dict(calls=[]), "Recipe: calls must be a list with at least one call, got an empty one; leave it out to repeat the example"),
    "calls_is_a_dictionary": (dict(calls={"x": 1}), "Recipe: calls must be a list with at least one call, got dict; leave it out to repeat the example"),
    "a_call_is_a_number": (dict(calls=[(), 3]), "Recipe: calls[1] must be a tuple of arguments, a dictionary of keyword arguments or a Call; got int"),
    "arguments_of_a_call": (dict(calls=[Call(args=3)]), "Recipe: calls[0].args must be a tuple of example arguments, got int; write args=(x,) for a single one"),
    "functions_is_a_dictionary": (dict(functions={}), "Recipe: functions must be a list of Recipe, got dict; write functions=[recipe] for a single one"),
    "a_function_is_a_number": (dict(functions=[3]), "Recipe: functions[0] must be a Recipe or a dictionary of its fields, got int"),
    "a_function_is_an_asset": (dict(functions=[{"asset": "a.aimodel"}]), "Recipe: functions[0] gives asset; a further entry point needs module or exported"),
    "name_with_a_surrogate": (dict(output_names=["\ud800"]), "Recipe: output_names[0] must be text that UTF-8 can hold, without NUL and lone surrogates; got '\\ud800'"),
    "entry_point_with_a_nul": (dict(entrypoint_name="a\0"), "Recipe: entrypoint_name must be text that UTF-8 can hold, without NUL and lone surrogates; got 'a\\x00'"),
    "keyword_that_is_none": (dict(kwargs={1: 2}), "Recipe: kwargs must have strings as keys, got 1"),
}  # fmt: skip


@pytest.mark.parametrize("name", FIELDS)
def test_a_wrong_field_is_told(name: str) -> None:
    fields, message = FIELDS[name]
    with pytest.raises(RecipeError) as told:
        Recipe(**{"exported": lambda: None, **_without_effect_left_out(fields)})
    assert str(told.value) == message


def _without_effect_left_out(fields: dict[str, Any]) -> dict[str, Any]:
    """strict and training belong to a module."""
    if fields.keys() & {"strict", "training"}:
        from torch import nn

        return {"exported": None, "module": nn.Identity(), **fields}
    return fields


# Recipes that ask for what does not happen → the whole message.
WITHOUT_EFFECT = {
    "names_of_a_program": (
        dict(program=dict, input_names=["x"], entrypoint_name="step"),
        "Recipe: input_names and entrypoint_name have no effect with program; "
        "give it to the exporter and to add_exported_program where the program is made",
    ),
    "strict_of_an_asset": (
        dict(asset="a.aimodel", strict=True),
        "Recipe: strict has no effect with asset; the asset is read as it is",
    ),
    "empty_names_of_an_asset": (
        dict(asset="a.aimodel", state_names=[]),
        "Recipe: state_names has no effect with asset; the asset is read as it is",
    ),
    "shapes_of_an_export": (
        dict(exported=dict, dynamic_shapes={"x": None}),
        "Recipe: dynamic_shapes has no effect with exported; "
        "give it to torch.export.export where the program is exported",
    ),
    "a_program_as_export": (
        dict(exported=3),
        "Recipe: exported must be an ExportedProgram or a callable that returns one, got int",
    ),
    "an_asset_that_is_no_path": (
        dict(asset=b"a.aimodel"),
        "Recipe: asset must be the path of an .aimodel folder, got b'a.aimodel'",
    ),
}


@pytest.mark.parametrize("name", WITHOUT_EFFECT)
def test_a_field_without_effect_is_told(name: str) -> None:
    fields, message = WITHOUT_EFFECT[name]
    with pytest.raises(RecipeError) as told:
        Recipe(**fields)
    assert str(told.value) == message


def test_a_module_in_the_wrong_place_is_told() -> None:
    from torch import nn

    with pytest.raises(RecipeError, match="got Linear; give it as module="):
        Recipe(exported=nn.Linear(1, 1))
    with pytest.raises(RecipeError, match="got the class Linear; call the class to make one"):
        Recipe(module=nn.Linear)


def test_entry_points_of_entry_points_follow_them() -> None:
    def entry(name: str, *further: Recipe) -> Recipe:
        return Recipe(exported=dict, entrypoint_name=name, functions=further)

    recipe = entry("a", entry("b", entry("c")), entry("d"))
    assert [e.entrypoint_name for e in recipe.entry_points()] == ["a", "b", "c", "d"]
    with pytest.raises(RecipeError, match="entrypoint_name 'a' is used by 2 functions"):
        entry("a", entry("b", entry("a")))


# Recipe file → what is said of its function.
FUNCTIONS = {
    "def f(size, *, depth=1): ...": "expected a function without arguments, this one needs size; give defaults, or name a function that calls it",
    "async def f(): ...": "expected a plain function, this one is async; use def, with asyncio.run(...) inside for what must be awaited",
    "def f(): yield 1": "expected a function that returns one Recipe, this one yields; use return (and functions=[...] for more than one entry point)",
    "from torch import nn\ndef f(): return nn.Identity()": "expected the function to return a coreai_audit.Recipe, got Identity; write return Recipe(module=..., args=(...))",
}  # fmt: skip


@pytest.mark.parametrize("text", FUNCTIONS)
def test_a_function_that_is_no_recipe_function_is_told(text: str, tmp_path: Path) -> None:
    path = tmp_path / "recipes.py"
    path.write_text(text + "\n")
    with pytest.raises(RecipeError) as told:
        recipes.load(str(path), "f")
    assert str(told.value) == f"{path}:f: {FUNCTIONS[text]}"
    assert failures.describe(told.value, str(path))["kind"] == "usage"


def test_an_exception_of_the_recipe_stays_its_own(tmp_path: Path) -> None:
    path = tmp_path / "recipes.py"
    path.write_text("def f():\n    (lambda x: x)()\n")
    with pytest.raises(TypeError) as told:
        recipes.load(str(path), "f")
    said = failures.describe(told.value, str(path))
    assert (said["kind"], said["type"], said["frames"][-1]["line"]) == ("python", "TypeError", 2)


def test_an_exception_without_usable_text_is_described() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise OSError

    assert failures.describe(Mute(), None)["message"] == "(its text cannot be made: __str__ raises OSError)"
    said = failures.describe(ValueError("lone \ud800"), None)["message"]
    assert json.dumps(said, ensure_ascii=False).encode("utf-8") == b'"lone \\\\ud800"'


# Manifest → words of the message; these end before anything is converted.
MANIFESTS = {
    "unknown_key": ("snapshot = 'x'", 'coreai-audit.toml:1: unknown key snapshot; did you mean "snapshots"?'),
    "unknown_model_key": (
        "[models.a]\nrecipes = 'r.py:f'",
        'coreai-audit.toml:2: unknown key models.a.recipes; did you mean "recipe"?',
    ),
    "not_toml": ("[models.a\n", "coreai-audit.toml:1"),
    "no_recipe": ("[models.a]\n", "missing field `recipe`"),
    "not_a_recipe": ("[models.a]\nrecipe = 'r.py'", "expected a recipe as path.py:function"),
    "no_reason": (
        "[models.a]\nrecipe = 'r.py:f'\nallow = [{id = 'write-lost', reason = ''}]",
        "write-lost needs a reason",
    ),
    "no_models": ("level = 'strict'", "lists no models"),
    "wrong_level": ("level = 'severe'", "unknown variant `severe`"),
    "endless_timeout": ("timeout = 1e300", "positive number of seconds"),
    "unknown_exception": (
        "[models.a]\nrecipe = 'r.py:f'\nallow = [{id = 'promted-input', reason = 'x'}]",
        'no finding has the id "promted-input"; did you mean "promoted-input"?',
    ),
    "shared_file": (
        "[models.'a b']\nrecipe = 'r.py:f'\n[models.a_b]\nrecipe = 'r.py:f'",
        "would share the file",
    ),
    "wrong_timeout": ("timeout = -1.0", "positive number of seconds"),
}


@pytest.mark.parametrize("name", MANIFESTS)
def test_a_wrong_manifest_is_told_at_once(name: str, tmp_path: Path) -> None:
    text, words = MANIFESTS[name]
    (tmp_path / "coreai-audit.toml").write_text(text)
    result = run_command("gate", cwd=tmp_path)
    assert result.returncode == 2
    assert words in result.stderr
    assert list(tmp_path.iterdir()) == [tmp_path / "coreai-audit.toml"]


def test_an_unknown_model_is_told_with_the_nearest(tmp_path: Path) -> None:
    write_manifest(tmp_path, {"decoder": "r.py:f"})
    result = run_command("gate", "decodr", cwd=tmp_path)
    assert result.returncode == 2
    assert 'no model "decodr"; did you mean "decoder"?' in result.stderr


def test_without_a_manifest_the_way_out_is_told(tmp_path: Path) -> None:
    result = run_command("gate", cwd=tmp_path)
    assert result.returncode == 2
    assert "coreai-audit init" in result.stderr


def test_a_python_that_is_none_is_told(tmp_path: Path) -> None:
    write_manifest(tmp_path, {"decoder": "r.py:f"})
    result = run_command("gate", "--python", "nowhere", cwd=tmp_path)
    assert result.returncode == 2
    assert "nowhere: no Python there" in result.stderr


def test_an_output_without_the_suffix_is_told(tmp_path: Path) -> None:
    result = run_command("convert", "r.py:f", "-o", "model.bin", cwd=tmp_path)
    assert result.returncode == 2
    assert "expected a path that ends in .aimodel" in result.stderr


def test_an_exception_never_covers_a_conversion_that_failed(tmp_path: Path) -> None:
    body = (
        "\n\nclass InPlace(Model):\n    def forward(self, x):\n        x.mul_(2)\n        return super().forward(x)\n\n\n"
        "def promoted():\n    return good(module=InPlace().eval())\n"
    )
    recipe = HEAD.replace("return Recipe(module=Model(hook).eval(), ", "return Recipe(").replace(
        'state_names=["total"])', 'state_names=["total"], module=Model(hook).eval())'
    )
    (tmp_path / "recipes.py").write_text(recipe + body)
    (tmp_path / "coreai-audit.toml").write_text(
        "[models.promoted]\nrecipe = 'recipes.py:promoted'\n"
        "allow = [{ id = 'promoted-input', reason = 'meant so' }]\n"
    )
    code, document = gate_json(cwd=tmp_path)
    [model] = document["models"]
    assert (code, model["verdict"], model["accepted"]) == (1, "fail", [])
    assert [f["id"] for f in model["findings"]] == ["promoted-input"]


def test_what_is_in_the_way_of_an_asset_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "recipes.py").write_text(HEAD)
    (tmp_path / "out" / "good.aimodel").mkdir(parents=True)
    (tmp_path / "out" / "good.aimodel" / "notes.txt").write_text("mine")
    result = run_command("gate", "recipes.py:good", "--out", "out", cwd=tmp_path, ci=False)
    assert result.returncode == 2
    assert "exists and is no asset" in result.stdout
    assert sorted(p.name for p in (tmp_path / "out").rglob("*")) == ["good.aimodel", "notes.txt"], (
        "no trace either"
    )


def test_a_broken_snapshot_is_the_error_of_its_model_alone(tmp_path: Path) -> None:
    (tmp_path / "recipes.py").write_text(HEAD)
    write_manifest(tmp_path, {"first": "recipes.py:good", "second": "recipes.py:good"})
    (tmp_path / "snapshots").mkdir()
    (tmp_path / "snapshots" / "first.snap").write_text("nonsense")
    code, document = gate_json(cwd=tmp_path, ci=False)
    verdicts = {m["name"]: m["verdict"] for m in document["models"]}
    assert (code, verdicts) == (2, {"first": "error", "second": "new"})
    assert [f["id"] for f in _loud(document["models"][0])] == ["snapshot-unusable"]


def test_a_recipe_that_spoils_the_worker_spoils_no_other_model(tmp_path: Path) -> None:
    spoil = "\n\ndef spoils():\n    import torch.export\n    torch.export.export = None\n    os.chdir('/')\n    return good()\n"
    (tmp_path / "recipes.py").write_text(HEAD + spoil)
    write_manifest(tmp_path, {"spoils": "recipes.py:spoils", "good": "recipes.py:good"})
    code, document = gate_json("--out", "out", cwd=tmp_path, ci=False)
    verdicts = {m["name"]: m["verdict"] for m in document["models"]}
    assert (code, verdicts) == (2, {"spoils": "error", "good": "new"})
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["good.aimodel", "good.trace.safetensors"]
