"""Reading assets: this tool against the vendor's summary, by size of the weights.

    python benches/reader.py [--binary target/release/coreai-audit] [--sizes 1,100,1200] [--json OUT]

Needs coreai-core and numpy in the Python that runs it, GNU time, and the binary built with --release. For each size in
megabytes an asset of random float16 weights is made with the vendor's own writer (a chain of matrix
products over a state), then read:

- by the vendor, `AIModelAsset.load(p).summary(...)` without and with statistics, in one warm process
  whose imports are not counted;
- by `coreai-audit contract`, as a whole process, with its peak memory.

Medians are shown. Assets are kept in --directory between runs.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

WIDTH = 2048


def make(path: pathlib.Path, megabytes: int) -> None:
    """An asset of about that many megabytes: layers of WIDTH by WIDTH float16, smaller for small ones."""
    import numpy as np
    from coreai._compiler.context import Context
    from coreai._compiler.ir import DenseResourceElementsAttr, Location, Module, Type
    from coreai.authoring import AIProgram

    width = WIDTH if megabytes >= 50 else 256
    layers = max(1, megabytes * 1_000_000 // (2 * width * width))
    x, w, h = f"tensor<1x{width}xf16>", f"tensor<{width}x{width}xf16>", f"tensor<1x{width}xf16>"
    lines = [
        f'module {{ coreai.graph @main(%state: !coreai.handle<{h}> {{MutableBuffers.buffer_mutation = "s", coreai.name = "s"}}, '
        f'%v0: {x} {{coreai.name = "x"}}) -> (!coreai.token {{coreai.name = "s"}}, {x} {{coreai.name = "y"}}) {{',
        "%t = coreai.create_token : !coreai.token",
    ]
    for i in range(layers):
        # A placeholder value, replaced below by a resource.
        lines.append(f"%w{i} = coreai.constant dense<{i}.0> : {w}")
        lines.append(
            f"%v{i + 1} = coreai.decomposable.broadcasting_batch_matmul %v{i}, %w{i} : ({x}, {w}) -> {x}"
        )
    lines += [
        f"%u = coreai.write_handle %state, %v{layers}, %t : (<{h}>, {h}, !coreai.token) -> !coreai.token",
        f"coreai.output %u, %v{layers} : !coreai.token, {x}",
        "} }",
    ]
    rng = np.random.default_rng(0)
    context = Context()._mlir_context
    with context, Location.unknown():
        module = Module.parse("\n".join(lines))
        tensor = Type.parse(w)
        for i, op in enumerate(module.body.operations[0].regions[0].blocks[0].operations):
            if op.operation.name == "coreai.constant":
                weights = rng.standard_normal(width * width, dtype=np.float32).astype(np.float16)
                op.operation.attributes["value"] = DenseResourceElementsAttr.get_from_buffer(
                    weights, f"weights_{i}", tensor
                )
        AIProgram._from_mlir_module(module).save_asset(path)


def in_fresh_process(work, *args) -> None:
    child = os.fork()
    if child == 0:
        try:
            work(*args)
        except BaseException as error:
            print(error, file=sys.stderr)
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if status:
        sys.exit(f"making an asset failed with status {status}")


def vendor(path: pathlib.Path, statistics_: bool, rounds: int) -> dict:
    """Median seconds and peak memory of the vendor's summary in a warm process."""
    code = (
        "import pathlib, resource, statistics, sys, time\n"
        "from coreai.authoring import AIModelAsset\n"
        "path, stats, rounds = pathlib.Path(sys.argv[1]), sys.argv[2] == '1', int(sys.argv[3])\n"
        "times = []\n"
        "for _ in range(rounds + 1):\n"
        "    start = time.perf_counter()\n"
        "    AIModelAsset.load(path).summary(include_statistics=stats)\n"
        "    times.append(time.perf_counter() - start)\n"
        "print(statistics.median(times[1:]), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)\n"
    )
    out = subprocess.run(
        [sys.executable, "-c", code, str(path), str(int(statistics_)), str(rounds)],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()
    return {"seconds": float(out[-2]), "peak_kb": int(out[-1])}


def ours(command: list[str], rounds: int) -> dict:
    """Median seconds and peak memory of a whole process; one round to warm up."""
    times = []
    for _ in range(rounds + 1):
        start = time.perf_counter()
        subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
        times.append(time.perf_counter() - start)
    # A child of this process would be charged with this process's own memory, so time(1) starts it.
    measured = subprocess.run(
        ["/usr/bin/time", "-f", "%M", *command],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=True,
    )
    return {"seconds": statistics.median(times[1:]), "peak_kb": int(measured.stderr.split()[-1])}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", default="target/release/coreai-audit")
    parser.add_argument("--sizes", default="1,100,1200", help="megabytes of weights, separated by commas")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--directory", default=os.path.join(tempfile.gettempdir(), "coreai-audit-bench"))
    parser.add_argument("--json", help="also write the numbers here")
    arguments = parser.parse_args()
    directory = pathlib.Path(arguments.directory)
    directory.mkdir(parents=True, exist_ok=True)
    rows = []
    for size in map(int, arguments.sizes.split(",")):
        path = directory / f"weights_{size}mb.aimodel"
        if not path.exists():
            in_fresh_process(make, path, size)
        row = {
            "megabytes": size,
            "bytes": (path / "main.mlirb").stat().st_size,
            "vendor": vendor(path, False, arguments.rounds),
            "vendor with statistics": vendor(path, True, arguments.rounds),
            "contract": ours([arguments.binary, "contract", str(path)], 4 * arguments.rounds),
            "contract --verify-hash": ours(
                [arguments.binary, "contract", "--verify-hash", str(path)], arguments.rounds
            ),
            "inspect": ours([arguments.binary, "inspect", str(path)], arguments.rounds),
            "inspect --quick": ours([arguments.binary, "inspect", "--quick", str(path)], arguments.rounds),
        }
        rows.append(row)
        print(f"{size} MB of weights, {row['bytes']} bytes")
        for what, measured in row.items():
            if isinstance(measured, dict):
                print(
                    f"  {what:<24} {1000 * measured['seconds']:10.2f} ms  {measured['peak_kb'] / 1024:9.1f} MB"
                )
        fastest = min(row["vendor"]["seconds"], row["vendor with statistics"]["seconds"])
        print(
            f"  contract is {fastest / row['contract']['seconds']:.0f} times faster than the vendor's fastest"
        )
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
