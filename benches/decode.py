"""A decode step and a prefill, against coreai-core's interpreter and torch eager, in one run.

    python benches/decode.py small            two layers, hidden 64
    python benches/decode.py large            a 0.6-billion-parameter shape in float16
    python benches/decode.py packed           that shape with 8 layers, weights of 4 bits in blocks of 32
    python benches/decode.py capacity         step time against cache capacity, 512 to 32,768

Needs an environment with torch, coreai-torch and this package built for release. Assets are made from
random weights and kept in ``--dir``. What is compared runs in turns, on the same number of threads; times
are medians, and every figure that matters is the median of the ratios of neighbouring turns.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

K = TypeVar("K")

SHAPES: dict[str, dict[str, int]] = {
    "small": {},
    "large": {
        "LAYERS": 28, "HIDDEN": 1024, "HEADS": 16, "KV_HEADS": 8, "HEAD_DIM": 128,
        "INTERMEDIATE": 3072, "VOCABULARY": 151_936, "CONTEXT": 512,
    },
}  # fmt: skip
SHAPES["eight"] = {**SHAPES["large"], "LAYERS": 8}
SHAPES["packed"] = SHAPES["eight"]
#: Tokens in the cache when a step is timed.
FILLED = 16
PREFILL = 128


def shaped(name: str) -> Any:
    """The example decoder with the extents of ``name``."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
    import decoder

    for key, value in SHAPES[name].items():
        setattr(decoder, key, value)
    return decoder


def module(name: str) -> Any:
    import torch

    torch.manual_seed(7)
    torch.set_default_dtype(torch.float16)
    try:
        made = shaped(name).Decoder().eval()
    finally:
        torch.set_default_dtype(torch.float32)
    return packed(made) if name == "packed" else made


def packed(made: Any) -> Any:
    """The module with the weights of every linear layer in 4 bits, a scale for each 32 of a row."""
    import torch
    from coreai_torch._compression.custom_layers import WeightDequantizeModule

    class Packed(torch.nn.Module):
        def __init__(self, weight: torch.Tensor) -> None:
            super().__init__()
            rows, columns = weight.shape
            blocks = weight.float().reshape(rows, columns // 32, 32)
            scale = blocks.abs().amax(-1).clamp(min=1e-6) / 7
            integers = (blocks / scale[..., None]).round().clamp(-8, 7).to(torch.int8)
            # The converter sees that 4 bits are enough.
            self.weight = WeightDequantizeModule(integers.reshape(rows, columns), scale.half())

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.linear(x, self.weight())

    for parent in list(made.modules()):
        for key, child in list(parent.named_children()):
            if isinstance(child, torch.nn.Linear):
                setattr(parent, key, Packed(child.weight.detach()))
    return made


def make(name: str, path: Path) -> None:
    """Convert in a process of its own: it needs several times the memory of the weights."""
    if path.exists():
        return
    folder = str(Path(__file__).parent)
    code = (
        f"import sys; sys.path.insert(0, {folder!r}); import decode; decode.convert({name!r}, {str(path)!r})"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def convert(name: str, path: str) -> None:
    import torch
    from coreai_torch import TorchConverter, get_decomp_table
    from torch.export import Dim

    d = shaped(name)
    new, total, context = (
        Dim("new", max=256),
        Dim("total", min=3, max=65536),
        Dim("context", min=3, max=65536),
    )
    keys = torch.zeros(d.LAYERS, 1, d.KV_HEADS, d.CONTEXT, d.HEAD_DIM, dtype=torch.float16)
    args = (
        torch.zeros(1, 16, dtype=torch.int32),
        torch.arange(24, dtype=torch.int32)[None],
        keys,
        torch.zeros_like(keys),
    )
    with torch.no_grad():
        program = torch.export.export(
            module(name), args, dynamic_shapes=({1: new}, {1: total}, {3: context}, {3: context})
        ).run_decompositions(get_decomp_table())
    converter = TorchConverter().add_exported_program(
        program,
        input_names=["input_ids", "position_ids"],
        output_names=["logits"],
        state_names=["keyCache", "valueCache"],
    )
    temporary = path.replace(".aimodel", ".tmp.aimodel")
    converter.to_coreai().save_asset(Path(temporary))
    os.rename(temporary, path)


def forget(path: Path) -> None:
    """Leave the asset on disk alone, as it is for a process that starts after the machine.

    How the system keeps a file in memory depends on how it came there: one that was just written lies in
    other pages than one that was read.
    """
    file = os.open(path / "main.mlirb", os.O_RDONLY)
    os.fsync(file)
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(file)


def timed(call: Callable[[], Any], times: int) -> float:
    """The median of ``times`` calls, in seconds."""
    call()
    seen = []
    for _ in range(times):
        start = time.perf_counter()
        call()
        seen.append(time.perf_counter() - start)
    return statistics.median(seen)


#: How often everything that is compared has its turn.
TURNS = 10


def in_turns(calls: dict[K, Callable[[], Any]], times: int, turns: int = TURNS) -> dict[K, list[float]]:
    """For each call the medians of its turns, in seconds.

    Memory is faster in one second than in the next where others use it too: what is compared runs in
    turns, and a ratio is taken of neighbours.
    """
    took: dict[K, list[float]] = {key: [] for key in calls}
    for _ in range(turns):
        for key, call in calls.items():
            took[key].append(timed(call, times))
    return took


def ratio(above: list[float], below: list[float]) -> float:
    """The median of the ratios of turns."""
    return statistics.median(a / b for a, b in zip(above, below, strict=True))


def tokens(count: int, vocabulary: int) -> Any:
    import numpy as np

    return np.random.default_rng(3).integers(0, vocabulary, (1, count)).astype(np.int32)


def positions(total: int) -> Any:
    import numpy as np

    return np.arange(total, dtype=np.int32)[None]


class Ours:
    """This project's runtime."""

    def __init__(self, path: Path, d: Any, capacity: int, threads: int) -> None:
        import coreai_audit

        start = time.perf_counter()
        before = own_memory()
        self.main = coreai_audit.Model.load(path, threads=threads).function("main")
        self.load = time.perf_counter() - start
        self.load_memory = own_memory() - before
        shape = (d.LAYERS, 1, d.KV_HEADS, capacity, d.HEAD_DIM)
        self.states = self.main.zero_states({"keyCache": shape, "valueCache": shape})

    def __call__(self, ids: Any, total: int) -> Any:
        return self.main.run({"input_ids": ids, "position_ids": positions(total)}, self.states)["logits"]


class Torch:
    """The module the asset was made from, in eager mode."""

    def __init__(self, name: str, d: Any, capacity: int) -> None:
        import torch

        self.torch = torch
        self.module = module(name)
        shape = (d.LAYERS, 1, d.KV_HEADS, capacity, d.HEAD_DIM)
        self.caches = [torch.zeros(shape, dtype=torch.float16) for _ in range(2)]

    def on(self, threads: int, ids: Any, total: int) -> Callable[[], Any]:
        """A call on so many threads."""

        def call() -> Any:
            self.torch.set_num_threads(threads)
            return self(ids, total)

        return call

    def __call__(self, ids: Any, total: int) -> Any:
        torch = self.torch
        with torch.no_grad():
            return self.module(torch.from_numpy(ids), torch.from_numpy(positions(total)), *self.caches)


class Interpreter:
    """coreai-core's interpreter."""

    def __init__(self, path: Path, d: Any, capacity: int) -> None:
        import asyncio

        import numpy as np
        from coreai.authoring import AIModelAsset
        from coreai.runtime import NDArray

        self.loop = asyncio.new_event_loop()
        self.array = NDArray
        start = time.perf_counter()
        self.asset = AIModelAsset.load(path).executable()
        self.model = self.loop.run_until_complete(self.asset.__aenter__())
        self.load = time.perf_counter() - start
        self.function = self.model.load_function("main")
        shape = (d.LAYERS, 1, d.KV_HEADS, capacity, d.HEAD_DIM)
        self.states = {n: NDArray(np.zeros(shape, np.float16)) for n in ("keyCache", "valueCache")}

    def __call__(self, ids: Any, total: int) -> Any:
        inputs = {"input_ids": self.array(ids), "position_ids": self.array(positions(total))}
        return self.loop.run_until_complete(self.function(inputs=inputs, state=self.states))["logits"].numpy()


def own_memory() -> int:
    """Memory of this process in bytes, pages of mapped files left out."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise OSError("/proc/self/status has no RssAnon")


def reading(path: Path, threads: int) -> Callable[[], Any]:
    """Reads all weights from memory: the maximum of every word, on so many threads."""
    import numpy as np

    words = np.memmap(path / "main.mlirb", dtype=np.uint8, mode="r")
    words = words[: len(words) // 8 * 8].view(np.uint64)
    parts = np.array_split(words, threads)

    def read() -> None:
        workers = [threading.Thread(target=part.max) for part in parts]
        for w in workers:
            w.start()
        for w in workers:
            w.join()

    return read


def compare(name: str, folder: Path, threads: int, steps: int, interpreter: bool) -> dict[str, Any]:
    """One decode step and one prefill of everything."""
    import numpy as np

    d = shaped(name)
    path = folder / f"decode-{name}.aimodel"
    make(name, path)
    capacity = d.CONTEXT if name == "large" else 512
    prompt, token = tokens(FILLED, d.VOCABULARY), tokens(1, d.VOCABULARY)
    long = tokens(PREFILL, d.VOCABULARY)
    forget(path)
    ours = Ours(path, d, capacity, threads)
    result: dict[str, Any] = {
        "model": name, "threads": threads,
        "load_from_disk_s": ours.load, "load_memory_mb": ours.load_memory / 1e6,
    }  # fmt: skip
    logits = ours(prompt, FILLED)
    result["load_s"] = Ours(path, d, capacity, threads).load
    peer = Torch(name, d, capacity)
    reference = peer(prompt, FILLED)
    difference = float(np.abs(logits.astype(np.float32) - reference.float().numpy()).max())
    result["largest_difference"] = difference
    step: dict[str, Callable[[], Any]] = {
        "ours": lambda: ours(token, FILLED + 1),
        **{f"torch_{n}_threads": peer.on(n, token, FILLED + 1) for n in sorted({1, threads})},
    }
    if name == "large":
        step["read_weights"] = reading(path, threads)
    prefill: dict[str, Callable[[], Any]] = {
        "ours": lambda: ours(long, PREFILL),
        **{f"torch_{n}_threads": peer.on(n, long, PREFILL) for n in sorted({1, threads})},
    }
    few = 3 if name == "large" else TURNS
    for what, calls, times, turns in (("step", step, steps, TURNS), ("prefill", prefill, 1, few)):
        took = in_turns(calls, times, turns)
        for key, values in took.items():
            result[f"{key}_{what}_ms" if key != "read_weights" else "read_weights_ms"] = 1e3 * (
                statistics.median(values)
            )
        best = min((k for k in took if k.startswith("torch")), key=lambda k: statistics.median(took[k]))
        result[f"torch / ours, {what}"] = ratio(took[best], took["ours"])
        if "read_weights" in took:
            result["ours / reading the weights"] = ratio(took["ours"], took["read_weights"])
    if interpreter:
        other = Interpreter(path, d, capacity)
        result["interpreter_load_s"] = other.load
        # A step takes it as long whatever is in the cache, and the prompt minutes where the model is large.
        if name != "large":
            other(prompt, FILLED)
        took = []
        for _ in range(1 if name == "large" else steps):
            start = time.perf_counter()
            other(token, FILLED + 1)
            took.append(time.perf_counter() - start)
        result["interpreter_step_ms"] = 1e3 * statistics.median(took)
        result["interpreter / ours"] = result["interpreter_step_ms"] / result["ours_step_ms"]
    return result


def weights(folder: Path, threads: int, steps: int) -> dict[str, Any]:
    """The same step with weights of 4 bits and of 16."""
    d = shaped("eight")
    result: dict[str, Any] = {"threads": threads}
    prompt, token = tokens(FILLED, d.VOCABULARY), tokens(1, d.VOCABULARY)
    calls: dict[str, Callable[[], Any]] = {}
    for name in ("eight", "packed"):
        path = folder / f"decode-{name}.aimodel"
        make(name, path)
        result[f"{name}_bytes"] = (path / "main.mlirb").stat().st_size
        forget(path)
        ours = Ours(path, d, d.CONTEXT, threads)
        result[f"{name}_load_from_disk_s"] = ours.load
        logits = ours(prompt, FILLED)
        calls[name] = partial(ours, token, FILLED + 1)
    peer = Torch("packed", d, d.CONTEXT)
    reference = peer(prompt, FILLED).float().numpy()
    result["largest_difference"] = float(abs(logits.astype("float32") - reference).max())
    took = in_turns(calls, steps)
    slow = in_turns({f"torch_{n}_threads": peer.on(n, token, FILLED + 1) for n in sorted({1, threads})}, 1, 3)
    for key, values in {**took, **slow}.items():
        result[f"{key}_step_ms"] = 1e3 * statistics.median(values)
    best = min(result[f"{key}_step_ms"] for key in slow)
    result["torch / ours"] = best / result["packed_step_ms"]
    result["4 bits / 16 bits"] = ratio(took["packed"], took["eight"])
    return result


def capacities(folder: Path, threads: int, steps: int) -> dict[str, Any]:
    """The same step in caches of growing capacity."""
    d = shaped("small")
    path = folder / "decode-small.aimodel"
    make("small", path)
    prompt, token = tokens(FILLED, d.VOCABULARY), tokens(1, d.VOCABULARY)
    result: dict[str, Any] = {"model": "small", "threads": threads}
    of = {capacity: Ours(path, d, capacity, threads) for capacity in (512, 2048, 8192, 32768)}
    for ours in of.values():
        ours(prompt, FILLED)
    calls = {capacity: partial(ours, token, FILLED + 1) for capacity, ours in of.items()}
    took = in_turns(calls, steps)
    for capacity, times in took.items():
        result[f"step_ms_at_{capacity}"] = 1e3 * statistics.median(times)
    result["32768 / 512"] = ratio(took[32768], took[512])
    return result


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["small", "large", "packed", "capacity"])
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--steps", type=int)
    parser.add_argument("--dir", type=Path, default=Path(tempfile.gettempdir()) / "coreai-audit-bench")
    parser.add_argument("--no-interpreter", action="store_true")
    arguments = parser.parse_args()
    arguments.dir.mkdir(parents=True, exist_ok=True)
    steps = arguments.steps or (3 if arguments.what == "large" else 20)
    if arguments.what == "capacity":
        result = capacities(arguments.dir, arguments.threads, steps)
    elif arguments.what == "packed":
        result = weights(arguments.dir, arguments.threads, steps)
    else:
        result = compare(
            arguments.what, arguments.dir, arguments.threads, steps, not arguments.no_interpreter
        )
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
