"""The Python API: assets read and compared without torch."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import coreai_audit
import pytest
from conftest import run_command

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture(scope="module")
def kvcache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The guide's example as an asset, with its contract beside it."""
    folder = tmp_path_factory.mktemp("api")
    recipe = f"{EXAMPLES / 'kvcache.py'}:kvcache"
    result = run_command("convert", recipe, "-o", "kvcache.aimodel", "--contract", "kvcache.json", cwd=folder)
    assert result.returncode == 0, result.stderr
    return folder / "kvcache.aimodel"


def test_inspect_gives_typed_objects(kvcache: Path) -> None:
    asset = coreai_audit.inspect(kvcache)
    main = asset.contract.function("main")
    assert [(s.name, s.dtype, s.shape, s.access) for s in main.states] == [
        ("kv_cache", "float32", (1, 4), "read-write"),
        ("pos_idx", "float32", (1,), "read-write"),
        ("y_state", "float32", (1, 4), "read-write"),
    ]
    assert [p.name for p in main.inputs] == ["query", "context"]
    assert asset.producer == "coreai-core 1.0.0b3"
    assert (asset.integrity, asset.debug_files, asset.remarks) == ("good", (), ())
    assert (asset.ops["read_handle"], asset.ops["broadcasting_add"]) == (5, 3)
    assert asset.ops_with_definitions["add"] == 3
    assert len(asset.fingerprint) == 64


def test_contract_of_a_file_has_sources(kvcache: Path) -> None:
    contract = coreai_audit.contract(kvcache.with_suffix(".json"))
    sources = [s.source for s in contract.function().states]
    assert [(s.kind, s.name) for s in sources if s is not None] == [
        ("buffer", "kv_cache"),
        ("buffer", "pos_idx"),
        ("argument", "y"),
    ]
    assert contract.function().strict is False


def test_diff_takes_assets_and_files_in_any_mix(kvcache: Path) -> None:
    changes = coreai_audit.diff(kvcache, kvcache.with_suffix(".json"))
    assert {(c.id, c.severity) for c in changes} == {
        ("source-on-one-side", "note"),
        ("export-mode-on-one-side", "note"),
    }
    assert coreai_audit.diff(kvcache, kvcache) == ()


def test_a_damaged_asset_is_told(kvcache: Path, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.aimodel"
    shutil.copytree(kvcache, damaged)
    program = damaged / "main.mlirb"
    program.write_bytes(program.read_bytes() + b"\0")
    with pytest.raises(coreai_audit.AuditError, match=r"main\.mlirb"):
        coreai_audit.inspect(damaged)
    shutil.copytree(kvcache, tmp_path / "hash.aimodel")
    (tmp_path / "hash.aimodel" / "main.hash").write_bytes(bytes(32))
    assert coreai_audit.inspect(tmp_path / "hash.aimodel").integrity == "mismatch"
    with pytest.raises(coreai_audit.AuditError, match="nowhere"):
        coreai_audit.contract(tmp_path / "nowhere.json")


def test_an_unknown_function_names_those_there_are(kvcache: Path) -> None:
    with pytest.raises(KeyError, match="functions: main"):
        coreai_audit.inspect(kvcache).contract.function("decode")


def test_nothing_heavy_is_imported(kvcache: Path) -> None:
    code = (
        "import sys, coreai_audit; "
        f"coreai_audit.inspect({str(kvcache)!r}); "
        "print(sorted({'torch', 'numpy', 'coreai'} & sys.modules.keys()))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
