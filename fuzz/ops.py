"""Every op, run twice: the vendor's interpreter, PyTorch and this runtime have to agree.

    python fuzz/ops.py [--binary target/release/coreai-audit] [--seed 0] [--only PATTERN] [--keep DIR]
        [--list]

Needs torch, coreai-torch and coreai-core in the Python that runs it. The cases (`ops_torch.py` and
`ops_ir.py`) are enumerated: modules for every operator the converter lowers, with all element types it
takes, ranks, attributes and edge values, and programs written as text for what no module reaches. Each is
saved by the vendor's writer and run by its interpreter, and by `coreai-audit run` on the same values.

A result is right if it agrees with the interpreter or with PyTorch: same shape, same type, NaN in the same
places, the rest within a tolerance of the type. Where the interpreter refuses a call, so has this runtime.
Where it dies, PyTorch alone is asked. Ends with counts for each family; exit code 1 if anything disagreed.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import fnmatch
import inspect
import json
import math
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "python" / "coreai_audit")]
from oracle import read, write  # noqa: E402 - the package's own reader and writer of safetensors

# How far results may be apart, relative and absolute; integers and booleans are exact.
TOLERANCES = {
    "float64": (1e-9, 1e-12),
    "float32": (1e-4, 1e-5),
    "float16": (1e-4, 1e-5),
    "bfloat16": (1e-4, 1e-5),
    "complex64": (1e-4, 1e-5),
}


# Sums of products, where the interpreter rounds every step and this runtime does not.
SUMS = {**TOLERANCES, "float16": (4e-3, 4e-3), "bfloat16": (3e-2, 3e-2), "float32": (1e-4, 2e-5)}
SUMMING = {"matmul", "linear", "einsum", "conv", "convt", "sdpa", "composite", "norms", "rnn", "compress"}


@dataclass
class Case:
    """One asset and what goes in.

    `build` saves the asset and returns the inputs of each call, in the order of the asset's inputs, and what
    PyTorch computes (None without PyTorch).
    """

    name: str
    build: Callable[[pathlib.Path], tuple[list[list[np.ndarray]], list[list[np.ndarray]] | None]]
    tolerance: tuple[float, float] | None = None
    tags: dict[str, Any] = field(default_factory=dict)

    @property
    def family(self) -> str:
        return self.name.split("/")[0]


def contract(binary: str, asset: pathlib.Path) -> dict[str, Any]:
    told = subprocess.run(
        [binary, "contract", "--format", "json", str(asset)], capture_output=True, text=True
    )
    if told.returncode:
        raise RuntimeError(f"contract: {told.stderr.strip()}")
    described: dict[str, Any] = json.loads(told.stdout)["functions"][0]
    return described


async def interpret(
    asset: pathlib.Path, function: str, calls: list[dict[str, np.ndarray]], folder: pathlib.Path
) -> None:
    """Runs the calls on the vendor's interpreter; one file each."""
    from coreai.authoring import AIModelAsset
    from coreai.runtime import NDArray

    async with AIModelAsset.load(asset).executable() as model:
        loaded = model.load_function(function)
        (folder / "loaded").touch()
        states = {}
        for n, call in enumerate(calls):
            given = {k: v for k, v in call.items() if not k.startswith("state:")}
            for name, value in call.items():
                if name.startswith("state:") and n == 0:
                    states[name[6:]] = NDArray(value)
            try:
                outputs = loaded(inputs={k: NDArray(v) for k, v in given.items()}, state=states)
                if inspect.isawaitable(outputs):
                    outputs = await outputs
            except Exception as error:
                (folder / f"theirs{n}.error").write_text(str(error))
                continue
            found = {k: v.numpy() for k, v in outputs.items()}
            found.update({f"state/{k}": v.numpy() for k, v in states.items()})
            write(folder / f"theirs{n}.safetensors", found)


def ours(binary: str, asset: pathlib.Path, calls: list[dict[str, np.ndarray]], folder: pathlib.Path) -> None:
    """Runs the calls on this runtime, each by itself unless there are states."""
    given = {}
    states = {}
    for n, call in enumerate(calls):
        for name, value in call.items():
            if name.startswith("state:"):
                states[name[6:]] = value
            else:
                given[f"{n}/{name}"] = value
    stateful = bool(states)
    if stateful:
        write(folder / "states.safetensors", states)
    for n in [0] if stateful else range(len(calls)):
        chosen = given if stateful else {k: v for k, v in given.items() if k.startswith(f"{n}/")}
        write(
            folder / "in.safetensors", {k if stateful else k.split("/", 1)[1]: v for k, v in chosen.items()}
        )
        command = [binary, "run", str(asset), "--inputs", str(folder / "in.safetensors")]
        command += ["--save", str(folder / f"ours{n}.safetensors"), "--format", "json"]
        command += ["--steps", str(len(calls) if stateful else 1)]
        if stateful:
            command += ["--states", str(folder / "states.safetensors")]
        told = subprocess.run(command, capture_output=True, text=True)
        if told.returncode:
            (folder / f"ours{n}.error").write_text(f"[{told.returncode}] {told.stderr.strip()}")


def prepare(case: Case, number: int, binary: str, root: pathlib.Path, tell: Callable[[str], None]) -> None:
    """Builds a case and runs it everywhere; results are files below `root / number`."""
    folder = root / str(number)
    folder.mkdir(parents=True)
    asset = folder / "model.aimodel"
    try:
        calls, reference = case.build(asset)
        described = contract(binary, asset)
    except Exception as error:
        (folder / "refused").write_text(
            f"{type(error).__name__}: {str(error.__cause__ or error).strip()[:300]}\n"
            f"{traceback.format_exc()[-1500:]}"
        )
        return
    names = [p["name"] for p in described["inputs"]]
    states = [p["name"] for p in described["states"]]
    named = []
    for values in calls:
        values = [np.asarray(v) for v in values]
        if len(values) != len(names) + len(states):
            (folder / "refused").write_text(f"{len(values)} values for {states} {names}")
            return
        call = {f"state:{k}": v for k, v in zip(states, values, strict=False)}
        call.update(zip(names, values[len(states) :], strict=True))
        named.append(call)
    outputs = [p["name"] for p in described["outputs"]]
    told = {"outputs": outputs, "states": states, "calls": len(calls), "stateful": bool(states)}
    for n, values in enumerate(reference or []):
        write(folder / f"torch{n}.safetensors", {f"{i}": np.asarray(v) for i, v in enumerate(values)})
    (folder / "case.json").write_text(json.dumps(told))
    ours(binary, asset, named, folder)
    tell("i")
    try:
        asyncio.run(interpret(asset, described["name"], named, folder))
    except Exception as error:
        (folder / "unloadable").write_text(str(error)[:2000])


def wide(a: np.ndarray) -> np.ndarray:
    if a.dtype.kind in "c":
        return np.stack([a.real, a.imag], -1).astype("float64")
    if a.dtype.kind in "iu" and a.dtype.itemsize == 8:
        return a.astype(object)
    return a.astype("float64")


def differs(a: np.ndarray, b: np.ndarray, tolerance: Any, narrowed: bool, summing: bool) -> str | None:
    """The first difference of `a` from the reference `b`."""
    if a.shape != b.shape:
        return f"shape {list(a.shape)}, expected {list(b.shape)}"
    if {a.dtype.name, b.dtype.name} == {"int8", "uint8"}:
        # Integers below eight bits have no type of their own in an array.
        a, b = a.view("int8"), b.view("int8")
    if not narrowed and a.dtype != b.dtype:
        return f"type {a.dtype}, expected {b.dtype}"
    rtol, atol = tolerance or (SUMS if summing else TOLERANCES).get(a.dtype.name, (0.0, 0.0))
    x, y = wide(a).reshape(-1), wide(b).reshape(-1)
    for i, (p, q) in enumerate(zip(x.tolist(), y.tolist(), strict=True)):
        if p == q or (p != p and q != q):
            continue
        if not (abs(p - q) <= atol + rtol * abs(q)) or math.isinf(q):
            return f"element {i} of {list(a.shape)} is {p!r}, expected {q!r}"
    return None


def judge(case: Case, folder: pathlib.Path) -> tuple[str, str]:
    """A verdict and what was seen."""
    if (folder / "refused").exists():
        return "refused", (folder / "refused").read_text().splitlines()[0]
    if not (folder / "case.json").exists():
        return "refused", "died while building"
    told = json.loads((folder / "case.json").read_text())
    loaded = (folder / "loaded").exists()
    verdict = "agrees"
    summing = case.family.removeprefix("ir-") in SUMMING | {"scan"}
    for n in range(told["calls"]):
        mine = folder / f"ours{0 if told['stateful'] else n}.safetensors"
        error = mine.with_suffix(".error")
        if error.exists() and not error.read_text().startswith("[2] "):
            return "differs", "CRASH " + error.read_text()
        theirs = folder / f"theirs{n}.safetensors"
        torch = folder / f"torch{n}.safetensors"
        refusal = theirs.with_suffix(".error")
        if error.exists():
            if refusal.exists():
                continue
            known = [p.name for p in (theirs, torch) if p.exists()]
            if known:
                return "differs", f"call {n}: ours: {error.read_text()} (but {known})"
            verdict = "nobody"
            continue
        values = read(mine)
        if not told["stateful"]:
            values = {k.split("/", 1)[1]: v for k, v in values.items() if k.startswith("0/")}
        else:
            last = n == told["calls"] - 1
            values = {
                (k if k.startswith("state/") else k.split("/", 1)[1]): v
                for k, v in values.items()
                if k.startswith(f"{n}/") or (last and k.startswith("state/"))
            }
        if refusal.exists() and "unsupportedType" not in refusal.read_text():
            return "differs", f"call {n}: we run what the interpreter refuses: {refusal.read_text()[:300]}"
        found: dict[str, list[str | None]] = {k: [] for k in values}
        if theirs.exists():
            for k, v in read(theirs).items():
                if k in values:
                    found[k].append(differs(values[k], v, case.tolerance, False, summing))
                elif not k.startswith("state/"):
                    return "differs", f"call {n}: output {k} is missing"
        if torch.exists():
            for k, v in read(torch).items():
                if int(k) < len(told["outputs"]) and told["outputs"][int(k)] in values:
                    name = told["outputs"][int(k)]
                    found[name].append(differs(values[name], v, case.tolerance, True, summing))
        for k, all_of in found.items():
            if not all_of:
                verdict = "nobody"
            elif all(all_of):
                return "differs", f"call {n}: {k}: " + "; torch: ".join(str(s) for s in all_of)
        if not theirs.exists():
            why = (folder / "unloadable").read_text()[:200] if (folder / "unloadable").exists() else "died"
            verdict = "torch alone" if verdict == "agrees" else verdict
            case.tags["why"] = f"{'loaded, ' if loaded else ''}{why}"
    return verdict, case.tags.get("why", "")


def work(cases: list[Case], numbers: range, binary: str, root: pathlib.Path, writer: int) -> None:
    """Some cases; `i` is written before one is interpreted, `d` when it is done."""

    def tell(word: str) -> None:
        os.write(writer, word.encode())

    for number in numbers:
        try:
            prepare(cases[number], number, binary, root, tell)
        except BaseException:
            (root / str(number) / "refused").write_text(traceback.format_exc()[-600:])
        tell("d")


def run(cases: list[Case], binary: str, root: pathlib.Path, batch: int, report: Callable[..., None]) -> None:
    """All cases, a batch to a process; where the process dies, the next one goes on behind the case."""
    at = 0
    while at < len(cases):
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            silence = os.open(os.devnull, os.O_WRONLY)
            os.dup2(silence, 1)
            os.dup2(silence, 2)
            work(cases, range(at, min(at + batch, len(cases))), binary, root, writer)
            os._exit(0)
        os.close(writer)
        done = 0
        with os.fdopen(reader, "rb") as pipe:
            while byte := pipe.read(1):
                if byte == b"d":
                    report(cases[at + done], root / str(at + done))
                    done += 1
        os.waitpid(child, 0)
        end = min(at + batch, len(cases))
        if at + done < end:
            report(cases[at + done], root / str(at + done))
            done += 1
        at += done


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", default="target/release/coreai-audit")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", action="append", help="shell pattern of case names")
    parser.add_argument("--every", type=int, default=1, help="run every N-th case, from --seed on")
    parser.add_argument("--batch", type=int, default=40, help="cases to a process")
    parser.add_argument("--keep", type=pathlib.Path, help="keep the assets and values of what disagrees here")
    parser.add_argument("--list", action="store_true", help="print the names of the cases")
    parser.add_argument("--verbose", action="store_true", help="print every verdict")
    arguments = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")

    import ops_ir
    import ops_torch

    cases = ops_torch.cases(arguments.seed) + ops_ir.cases(arguments.seed)
    if arguments.only:
        cases = [c for c in cases if any(fnmatch.fnmatch(c.name, p) for p in arguments.only)]
    cases = cases[arguments.seed % arguments.every :: arguments.every]
    if arguments.list:
        print("\n".join(c.name for c in cases))
        return 0
    root = pathlib.Path(tempfile.mkdtemp(prefix="ops-"))
    counts: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)

    def report(case: Case, folder: pathlib.Path) -> None:
        verdict, what = judge(case, folder)
        counts[case.family][verdict] += 1
        if verdict == "differs" or arguments.verbose:
            print(f"{verdict}: {case.name} [{folder.name}]: {what}", flush=True)
        if verdict == "differs" and arguments.keep:
            shutil.copytree(folder, arguments.keep / case.name.replace("/", "__"), dirs_exist_ok=True)
        shutil.rmtree(folder, ignore_errors=True)

    run(cases, arguments.binary, root, arguments.batch, report)
    shutil.rmtree(root, ignore_errors=True)
    total: collections.Counter[str] = collections.Counter()
    for family, count in sorted(counts.items()):
        total.update(count)
        print(f"{family}: " + ", ".join(f"{n} {v}" for v, n in count.most_common()))
    print(
        f"{total['agrees']} cases agree, {total['torch alone']} with PyTorch alone, "
        f"{total['differs']} differ; "
        f"{total['nobody']} nobody runs; the converter or the writer refused {total['refused']}"
    )
    return 1 if total["differs"] else 0


if __name__ == "__main__":
    sys.exit(main())
