"""Runs calls on coreai-core's interpreter, for ``coreai-audit check --oracle``.

Started as a script in a process of its own, because on some assets the interpreter ends the process::

    python oracle.py FOLDER

``FOLDER/job.json`` says what to run, ``FOLDER/job.safetensors`` holds the values. Each step writes
``FOLDER/N.safetensors`` with its outputs and states and prints a line of JSON when that is done; the first
line says that everything is there, or what is missing. Nothing of this package is imported: the
interpreter's environment need not have it.
"""

from __future__ import annotations

import asyncio
import importlib.util
import inspect
import json
import struct
import sys
from pathlib import Path
from typing import Any

try:
    import numpy as np
except ImportError as error:
    missing = {"missing": str(error), "package": "numpy"}
    if importlib.util.find_spec("coreai") is None:  # which brings numpy along
        missing = {"missing": "neither coreai nor numpy can be imported", "package": "coreai-core"}
    print(json.dumps(missing), flush=True)
    sys.exit(1)

# How safetensors calls what numpy has; the rest goes by bit pattern.
_DTYPES = {
    "BOOL": "bool", "U8": "uint8", "I8": "int8", "U16": "uint16", "I16": "int16", "U32": "uint32",
    "I32": "int32", "U64": "uint64", "I64": "int64", "F16": "float16", "F32": "float32", "F64": "float64",
    "C64": "complex64",
}  # fmt: skip
_NAMES = {numpy: name for name, numpy in _DTYPES.items()}
_PATTERNS = {
    "BF16": ("bfloat16", "uint16"),
    "F8_E5M2": ("float8_e5m2", "uint8"), "F8_E4M3": ("float8_e4m3fn", "uint8"),
    "F8_E8M0": ("float8_e8m0fnu", "uint8"),
}  # fmt: skip


def read(path: Path) -> dict[str, Any]:
    """The tensors of a safetensors file, as arrays of their own."""
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    tensors = {}
    for name, entry in json.loads(data[8 : 8 + length]).items():
        if name == "__metadata__":
            continue
        start, end = entry["data_offsets"]
        kind, pattern = _PATTERNS.get(entry["dtype"], (None, None))
        raw = data[8 + length + start : 8 + length + end]
        array = np.frombuffer(raw, dtype=pattern or _DTYPES[entry["dtype"]]).reshape(entry["shape"]).copy()
        tensors[name] = array.view(_extra(kind)) if kind else array
    return tensors


def write(path: Path, tensors: dict[str, Any]) -> None:
    """A safetensors file, complete under its name or not there."""
    header: dict[str, Any] = {}
    chunks, offset = [], 0
    for name, array in tensors.items():
        array = np.ascontiguousarray(array).reshape(np.shape(array))
        found = [k for k, (kind, _) in _PATTERNS.items() if kind == array.dtype.name]
        dtype = found[0] if found else _NAMES.get(array.dtype.name)
        if dtype is None:  # narrow integers: one a byte
            array, dtype = array.astype("int8"), "I8"
        raw = array.tobytes()
        header[name] = {
            "dtype": dtype,
            "shape": list(array.shape),
            "data_offsets": [offset, offset + len(raw)],
        }
        chunks.append(raw)
        offset += len(raw)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    temporary = path.with_suffix(".part")
    temporary.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(chunks))
    temporary.rename(path)


def _extra(kind: str) -> Any:
    import ml_dtypes

    return np.dtype(getattr(ml_dtypes, kind))


async def run(folder: Path) -> None:
    """Every call of the job, on states carried along."""
    from coreai.authoring import AIModelAsset
    from coreai.runtime import NDArray

    job, values = json.loads((folder / "job.json").read_text()), read(folder / "job.safetensors")
    states = {name: NDArray(values[key]) for name, key in job["states"].items()}
    async with AIModelAsset.load(Path(job["asset"])).executable() as model:
        functions = {name: model.load_function(name) for name in {c["function"] for c in job["calls"]}}
        for step, call in enumerate(job["calls"]):
            states.update({name: NDArray(values[key]) for name, key in call["set"].items()})
            function = functions[call["function"]]
            own = {name: states[name] for name in call["states"]}
            inputs = {name: NDArray(values[key]) for name, key in call["inputs"].items()}
            outputs = function(inputs=inputs, state=own)
            if inspect.isawaitable(outputs):
                outputs = await outputs
            tensors = {f"output/{n}": a.numpy() for n, a in outputs.items()}
            tensors.update({f"state/{n}": a.numpy() for n, a in own.items()})
            write(folder / f"{step}.safetensors", tensors)
            print(json.dumps({"step": step}), flush=True)


def main(folder: Path) -> int:
    """Exit code 0 when every step ran; a refusal is a line of JSON, too."""
    try:
        import coreai.authoring
        import coreai.runtime  # noqa: F401
    except ImportError as error:
        print(json.dumps({"missing": str(error), "package": "coreai-core"}), flush=True)
        return 1
    print(json.dumps({"ready": True}), flush=True)
    try:
        asyncio.run(run(folder))
    except Exception as error:
        print(json.dumps({"error": f"{type(error).__name__}: {error}"}), flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
