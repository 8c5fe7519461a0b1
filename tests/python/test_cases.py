"""Failing inputs that users reported: each says at which stage it must be told, as what, and how.

The cases of the stages ``contract`` and ``convert`` are told by the gate itself. The cases of later
stages must not be accused of what they have not done.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest
from conftest import gate_json, run_command, write_manifest

CASES = sorted(Path(__file__).with_name("cases").glob("*.py"))
RECIPE = """\
import sys
sys.path.insert(0, {folder!r})
import importlib

def _make(name):
    def recipe():
        sys.modules.pop(name, None)
        return importlib.import_module(name).case()
    return recipe

for _name in {names!r}:
    globals()[_name] = _make(_name)
"""

# What the message must carry, word for word, for each case told by the gate.
SAYS = {
    "buffer_bound_to_the_argument_then_written": ["s and x are one tensor", "count mismatch"],
    "cache_that_grows_by_concatenation": ["buffer s is (1, 0, 4), the value written is (1, 1, 4)", "fixed capacity", "functional cache"],
    "cast_to_the_same_type_is_no_copy": ["forward returns 1 value, the asset has 0 outputs", "return 0 is the state s itself"],
    "copy_of_one_value_into_a_row": ["buffer s is (1, 4), the value written is (1, 1)", "expand", "slice assignment"],
    "dict_cache_follows_insertion": ["k is cache['v']", "v is cache['k']"],
    "keys_first_names_on_interleaved_buffers": ["k1 is layers.0.v", "k2 is layers.1.k", "v0 is layers.1.v", "v1 is layers.2.k", "k0 and v2 are right"],
    "middle_output_is_the_only_one_left": ["forward returns 3 values, the asset has 1 output", "return 0 is the state a", "return 2 is the state b", "position 0 now holds return 1"],
    "mirrored_list_hides_first_use": ["k0 is k1", "k1 is k0"],
    "module_dict_numeric_keys_descending": ["k1 is layers.10.k", "k10 is layers.1.k", "k2 and v2 are right"],
    "named_state_is_only_read": ["buffer s is never written", "constant", "the program has 0 states"],
    "one_mutated_tensor_for_two_arguments": ["arguments a and b are one tensor", "pass two tensors"],
    "optional_argument_left_none": ["argument mask is None", "leave it out of the example"],
    "repeated_output_name_swallows_the_first": ["forward returns 2 values, the asset has 1 output", "both named y", "keeps return 1"],
    "returned_state_disappears": ["forward returns 1 value, the asset has 0 outputs", "total + 0"],
    "ring_buffer_modulo_unsupported": ["aten.remainder.Scalar", "tensor divisor", "torch.fmod", "pos - pos // n * n"],
    "shared_layer_under_strict": ["state first_k is buffer second.k, which is also first.k"],
    "state_called_like_the_output": ["s is a state and an output", "1 returned, 0 in the asset"],
    "two_buffers_first_use_order": ["key_cache is value_cache", "value_cache is key_cache", "first use"],
    "two_buffers_flatten_to_one_name": ["b_inner_k is buffer inner_k", "b_inner_k_1 is buffer inner.k"],
    "two_functions_exported_in_different_modes": ["main: k is core.v, v is core.k", "peek: k is core.k, v is core.v"],
    "update_only_function": ["forward returns None", "return a tensor", "has no attribute 'meta'"],
}  # fmt: skip

# Told by comparing with an accepted contract or by nothing at all: tested further down.
ELSEWHERE = {"silent_swap_after_reorder", "quotes_and_spaces_in_a_state_name"}


def expectation(path: Path) -> dict[str, Any]:
    """``EXPECT`` of a case, without importing torch here."""
    for line in path.read_text().splitlines():
        if line.startswith("EXPECT = "):
            expect: dict[str, Any] = eval(line.removeprefix("EXPECT = "))
            return expect
    raise AssertionError(f"{path}: no EXPECT")


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """What the gate says of every case, from one run."""
    folder = tmp_path_factory.mktemp("cases")
    names = [p.stem for p in CASES]
    recipe = RECIPE.format(folder=str(CASES[0].parent), names=names)
    (folder / "recipes.py").write_text(recipe)
    write_manifest(folder, {name: f"recipes.py:{name}" for name in names})
    _, document = gate_json(cwd=folder, ci=False)
    return {m["name"]: m for m in document["models"]}


def told(cases: list[Path], *stages: str) -> list[str]:
    return [p.stem for p in cases if expectation(p)["stage"] in stages]


def text_of(report: dict[str, Any], finding: str) -> str:
    """Everything the findings of one kind say."""
    found = [f for f in report["findings"] if f["id"] == finding]
    assert found, f"no {finding}; found {[(f['id'], f['message']) for f in report['findings']]}"
    return "\n".join("\n".join([f["message"], *f.get("evidence", []), f.get("fix") or ""]) for f in found)


def test_every_case_of_the_gate_has_its_words() -> None:
    assert set(told(CASES, "contract", "convert")) == SAYS.keys() | ELSEWHERE


@pytest.mark.parametrize("name", sorted(SAYS))
def test_case_is_told(name: str, reports: dict[str, dict[str, Any]]) -> None:
    expect = expectation(Path(__file__).parent / "cases" / f"{name}.py")
    said = text_of(reports[name], expect["finding"])
    for words in SAYS[name]:
        assert words in said, f"{words!r} is not in:\n{said}"


@pytest.mark.parametrize("name", told(CASES, "convert"))
def test_a_conversion_that_fails_is_no_verdict(name: str, reports: dict[str, dict[str, Any]]) -> None:
    expected = "fail" if name == "named_state_is_only_read" else "error"
    assert reports[name]["verdict"] == expected


# The same for the cases that running the asset against PyTorch tells.
RUN_SAYS = {
    "attention_dropout_disappears": ["dropout_p 0.5", "has no trace in the asset", "the reference is random", "not a numerical error"],
    "attention_row_with_nothing_visible": ["row 0 of y is 0 in PyTorch", "attends to every cache row as if nothing were masked", "query 1 agrees"],
    "backward_overlapping_shift": ["overlap"],
    "class_attribute_poisoned_by_export": ["0 states", "the asset returns 2, 2, 2, 2, PyTorch 2, 3, 3.5, 3.75", "Model.history"],
    "data_attribute_assignment_lost": ["0 states", "y is 0 at step 1 where PyTorch gives 2"],
    "deque_window_frozen": ["0 states", "outputs differ from step 2"],
    "empty_state_reads_garbage": ["state s has shape [1, 0, 4]", "our runtime gives x", "the interpreter's output is undefined"],
    "initial_value_is_not_zero": ["buffer best starts at -10000, not 0; from zeros step 1 differs from PyTorch", "a consumer must fill"],
    "instance_norm_statistics_lost": ["n.running_mean", "n.running_var", "0 states", "outputs cannot show it"],
    "list_of_caches_never_updates": ["cache[0]", "cache[1]", "0 states", "outputs differ from step 2", "register"],
    "mean_over_rows_not_yet_written": ["parity", "poisoned unwritten rows of rows reach y until 8 rows are written"],
    "parameter_as_running_sum": ["2 outputs for 1 return", "differ from step 2"],
    "phase_accumulator_loses_its_fraction": ["float64", "float32", "y 0.3125 against 0.3 at step 1", "at step 4"],
    "position_taken_out_of_a_tensor": ["rows"],
    "position_tail_only": ["row 0"],
    "python_position_stays_zero": ["PyTorch writes rows 0, 1, 2, 3; the asset row 0 each time", "y differs from step 2", "strict"],
    "scalar_position_state": ["pos"],
    "transition_matrix_starts_at_identity": ["s starts at the identity", "from zeros every output is 0"],
    "truncated_increment_accumulates_fractions": ["2.7 against 2 at step 1", "the state drifts further at each step"],
    "two_rows_by_index_live": ["dies only when the static number of rows is 1 and rows have more than one element"],
    "uint8_counter_saturates": ["255 against 0 at step 2", "8-bit", "saturates"],
}  # fmt: skip


def test_every_case_of_the_check_has_its_words() -> None:
    with_finding = [n for n in told(CASES, "check") if expectation(CASES[0].with_name(f"{n}.py"))["finding"]]
    assert set(with_finding) == RUN_SAYS.keys()


@pytest.mark.parametrize("name", sorted(RUN_SAYS))
def test_case_is_told_by_running(name: str, reports: dict[str, dict[str, Any]]) -> None:
    expect = expectation(CASES[0].with_name(f"{name}.py"))
    said = text_of(reports[name], expect["finding"])
    for words in RUN_SAYS[name]:
        assert words in said, f"{words!r} is not in:\n{said}"


# Cases of later stages whose cause the join of the readings sees already.
ALREADY = {
    "argument_mutated_in_place": {"promoted-input"},
    "buffer_registered_inside_forward": {"promoted-input", "write-lost"},
    "inplace_activation_on_the_input": {"promoted-input"},
    "mask_argument_filled_through_a_slice": {"promoted-input"},
    "none_buffer_promotes_read_only_input": {"promoted-input", "write-lost", "values-differ"},
    "wide_dtypes_narrow": {"int64-narrowed"},
    "default_output_name_drifts": {"default-names"},
    "recurrent_taken_for_cache": {"no-prefix-reuse"},
}
# Findings that say what was left open, or what a consumer must know, and no more.
MILD = {
    "default-names", "promoted-input", "int64-narrowed", "training-mode", "no-prefix-reuse", "reads-unwritten-rows",
    "runtime-index-write",
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(ALREADY))
def test_later_case_is_told_already(name: str, reports: dict[str, dict[str, Any]]) -> None:
    for finding in ALREADY[name]:
        text_of(reports[name], finding)


@pytest.mark.parametrize("name", told(CASES, "lint", "run"))
def test_right_neighbours_are_not_accused(name: str, reports: dict[str, dict[str, Any]]) -> None:
    accused = {f["id"] for f in reports[name]["findings"]} - MILD - ALREADY.get(name, set())
    assert accused == set()


@pytest.mark.parametrize(
    "name",
    ["branch_selects_then_state_written", "state_written_inside_vmap", "truncation_to_eight_bits_is_kept"],
)
def test_what_is_right_is_not_accused_by_running(name: str, reports: dict[str, dict[str, Any]]) -> None:
    assert {f["id"] for f in reports[name]["findings"]} <= {"default-names", "no-prefix-reuse"}
    check = reports[name]["check"]
    assert [(r["kind"], r["calls"] == r["compared"]) for r in check["runs"]] == [("registered", True)]


def test_quotes_and_spaces_are_kept(reports: dict[str, dict[str, Any]]) -> None:
    report = reports["quotes_and_spaces_in_a_state_name"]
    assert {f["id"] for f in report["findings"]} <= {"no-prefix-reuse"}
    assert report["contract"]["functions"][0]["states"][0]["name"] == 'he said "k"'


def test_silent_swap_is_told_against_the_accepted_contract(tmp_path: Path) -> None:
    case = CASES[0].with_name("silent_swap_after_reorder.py")
    (tmp_path / "recipes.py").write_text(
        f"import sys\nsys.path.insert(0, {str(case.parent)!r})\n"
        "from silent_swap_after_reorder import case\n"
        "def model():\n    import os\n    return case(reordered=os.path.exists('reordered'))\n"
    )
    write_manifest(tmp_path, {"model": "recipes.py:model"})
    code, document = gate_json(cwd=tmp_path, ci=False)
    assert (code, document["models"][0]["verdict"]) == (0, "new")
    assert run_command("snapshot", "accept", "--all", cwd=tmp_path, ci=False).returncode == 0
    (tmp_path / "reordered").touch()
    code, document = gate_json(cwd=tmp_path)
    changes = document["models"][0]["changes"]
    assert code == 1
    assert [(c["id"], c["severity"], c["counts"]) for c in changes] == [("source-changed", "breaking", True)]
    assert "sources of states 0 and 1 exchanged" in changes[0]["message"]


def test_case_files_can_be_loaded() -> None:
    assert len(CASES) == 64
    for path in CASES:
        assert importlib.util.spec_from_file_location(path.stem, path) is not None
