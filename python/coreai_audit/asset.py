"""Read assets and compare contracts from Python, without torch.

The reading is done by the compiled core; here are the types it is handed over in. All are frozen
dataclasses in the terms of the command line's JSON documents.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from . import _core

__all__ = [
    "Asset",
    "AuditError",
    "Change",
    "Constant",
    "Contract",
    "Function",
    "Port",
    "Source",
    "State",
    "contract",
    "diff",
    "inspect",
]

Path = str | bytes | os.PathLike[str] | os.PathLike[bytes]
#: An extent; ``None`` where dynamic.
Shape = tuple[int | None, ...]

AuditError = _core.AuditError


@dataclass(frozen=True)
class Source:
    """The PyTorch buffer or ``forward`` argument behind a port."""

    kind: str
    name: str
    #: The dtype it has in torch.
    dtype: str
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True)
class Port:
    """An input or output."""

    name: str
    #: The runtime's name: ``float32``, ``bfloat16``, ``int32``, ``bool`` …
    dtype: str
    shape: Shape
    source: Source | None = None


@dataclass(frozen=True)
class State(Port):
    """A value the caller owns and the function updates in place."""

    #: ``read-write``, ``write-only``, ``read-only`` or ``unused``.
    access: str = "read-write"


@dataclass(frozen=True)
class Function:
    """One entry point; order is part of each list."""

    name: str
    inputs: tuple[Port, ...]
    states: tuple[State, ...]
    outputs: tuple[Port, ...]
    #: Whether it was exported with ``strict``; ``None`` where that is not known.
    strict: bool | None = None


@dataclass(frozen=True)
class Contract:
    """The ordered inputs, states and outputs of every function."""

    functions: tuple[Function, ...]

    def function(self, name: str = "main") -> Function:
        """The function of that name; ``KeyError`` names those there are."""
        for function in self.functions:
            if function.name == name:
                return function
        raise KeyError(f"{name!r}; functions: {', '.join(f.name for f in self.functions)}")


@dataclass(frozen=True)
class Change:
    """One difference between two contracts."""

    id: str
    #: ``breaking``, ``compatible`` or ``note``.
    severity: str
    function: str
    #: ``input``, ``state`` or ``output``; ``None`` for a function as a whole.
    role: str | None
    subject: str | None
    old_positions: tuple[int, ...]
    new_positions: tuple[int, ...]
    old: str | None
    new: str | None
    message: str
    #: What a consumer sees that binds by position, and by name.
    by_position: str
    by_name: str


@dataclass(frozen=True)
class Constant:
    """One of the largest constants of an asset."""

    graph: str
    #: Position of the op in its graph.
    op: int
    dtype: str
    shape: tuple[int, ...]
    bytes: int
    #: ``inline`` or ``resource``.
    storage: str


@dataclass(frozen=True)
class Asset:
    """What is in an asset."""

    path: str
    contract: Contract
    #: Who made it, such as ``coreai-core 1.0.0b3``; ``None`` for the oldest producers.
    producer: str | None
    #: ``YYYYMMDDThhmmssZ``.
    creation_date: str | None
    #: The dialect revision the program needs, a date ``YYYYMMDD``.
    revision: int | None
    #: ``good``, ``mismatch``, ``missing`` or ``unreadable``.
    integrity: str
    #: Equal for two conversions of one model.
    fingerprint: str
    #: Size of the whole asset, and of its weights, in bytes.
    total_bytes: int
    weight_bytes: int
    #: Bytes of constants by dtype.
    weights: Mapping[str, int]
    largest: tuple[Constant, ...]
    #: How often each op occurs in the graphs, and with the stored definitions.
    ops: Mapping[str, int]
    ops_with_definitions: Mapping[str, int]
    #: Source files named in the debug information.
    debug_files: tuple[str, ...]
    #: What a reader should know before using it.
    remarks: tuple[str, ...]
    #: The whole document, as ``coreai-audit inspect --format json`` prints it.
    document: Mapping[str, Any] = field(repr=False, compare=False)


def inspect(path: Path) -> Asset:
    """Read the asset at ``path``; nothing is executed and no weight is copied.

    :class:`AuditError` names the file, the byte and what was expected where it cannot be read.
    """
    document: dict[str, Any] = json.loads(_core.inspect_json(os.fsdecode(path)))
    metadata: dict[str, Any] = document["metadata"] or {}
    return Asset(
        path=os.fsdecode(path),
        contract=Contract(tuple(_function(f) for f in document["functions"])),
        producer=metadata.get("producer"),
        creation_date=metadata.get("creation_date"),
        revision=document["bytecode"]["revision"],
        integrity=document["integrity"]["status"],
        fingerprint=document["fingerprint"],
        total_bytes=document["files"]["total_bytes"],
        weight_bytes=document["weights"]["bytes"],
        weights={name: entry["bytes"] for name, entry in document["weights"]["by_dtype"].items()},
        largest=tuple(Constant(**{**c, "shape": tuple(c["shape"])}) for c in document["weights"]["largest"]),
        ops=document["ops"]["graph"],
        ops_with_definitions=document["ops"]["all"],
        debug_files=tuple(document["debug"]["files"]),
        remarks=tuple(r["message"] for r in document["remarks"]),
        document=document,
    )


def contract(path: Path) -> Contract:
    """The contract in an asset, a contract file (JSON) or a snapshot."""
    document: dict[str, Any] = json.loads(_core.contract_json(os.fsdecode(path)))
    return Contract(tuple(_function(f) for f in document["functions"]))


def diff(old: Path, new: Path) -> tuple[Change, ...]:
    """What changed between two assets, contract files or snapshots, in any mix; breaking first."""
    changes: list[dict[str, Any]] = json.loads(_core.diff_json(os.fsdecode(old), os.fsdecode(new)))
    return tuple(_change(c) for c in changes)


def _change(data: dict[str, Any]) -> Change:
    positions = {k: tuple(data[k]) for k in ("old_positions", "new_positions")}
    return Change(**{**data, **positions})


def _function(data: dict[str, Any]) -> Function:
    export = data.get("export")
    return Function(
        name=data["name"],
        inputs=tuple(Port(**_port(p)) for p in data["inputs"]),
        states=tuple(State(**_port(p), access=p["access"]) for p in data["states"]),
        outputs=tuple(Port(**_port(p)) for p in data["outputs"]),
        strict=None if export is None else export["strict"],
    )


def _port(data: dict[str, Any]) -> dict[str, Any]:
    source = data.get("source")
    if source is not None:
        source = Source(**{**source, "aliases": tuple(source.get("aliases", ()))})
    return {
        "name": data["name"],
        "dtype": data["dtype"],
        "shape": tuple(data["shape"]),
        "source": source,
    }
