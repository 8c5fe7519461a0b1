"""Random PyTorch modules, converted and read three ways: bytecode, printed IR, runtime descriptor.

    python fuzz/modules.py [--binary target/release/coreai-audit] [--count 200] [--seed 0]

Needs torch and coreai-torch in the Python that runs it, any versions: run it under every producer that
matters. Each module is random: buffers of many element types, registered, first read and written in
different orders, some of them in children; arguments that are mutated; several entry points; branches;
dynamic extents; weights inline and large; names given or left to the converter. Where the converter has
modes, each program is saved with and without debug information, and the two must have one fingerprint.
What is compared is what `agreement.py` compares.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import random
import shutil
import subprocess
import tempfile
import warnings
from collections.abc import Callable
from typing import Any

import torch
from agreement import NAMES, Counts, compare
from coreai_torch import TorchConverter, get_decomp_table
from torch import nn

WIDTH = 8
FLOATS = [torch.float32, torch.float16, torch.bfloat16]
STORED = [*FLOATS, torch.int32, torch.int16, torch.int8, torch.uint8]


class Child(nn.Module):
    """Holds buffers of its own, so that their names are qualified."""


class Entry(nn.Module):
    """One entry point over shared buffers: a random list of steps."""

    def __init__(self, rng: random.Random, holders: dict[str, nn.Module], buffers: list[tuple[str, str]]):
        super().__init__()
        self.holders = nn.ModuleDict(holders)
        self.wide = nn.Linear(WIDTH, 512)
        self.narrow = nn.Linear(512, WIDTH)
        self.buffers_used = rng.sample(buffers, rng.randrange(len(buffers) + 1))
        self.arguments = rng.randrange(3)
        self.mutated = [rng.random() < 0.4 for _ in range(self.arguments)]
        self.outputs = rng.randrange(1, 3)
        count = rng.randrange(2, 7)
        kinds = ["unary", "linear", "softmax", "branch", "read", "write", "add", "row", "argument"]
        self.steps = [(rng.choice(kinds), rng.randrange(1 << 16)) for _ in range(count)]
        self.casts = [rng.choice([*STORED, torch.bool]) for _ in range(self.outputs)]

    def buffer(self, number: int) -> torch.Tensor | None:
        if not self.buffers_used:
            return None
        holder, name = self.buffers_used[number % len(self.buffers_used)]
        return getattr(self.holders[holder], name)

    def forward(self, x: torch.Tensor, *arguments: torch.Tensor) -> tuple[torch.Tensor, ...]:
        for kind, number in self.steps:
            held = self.buffer(number)
            row = x.mean(dim=0)
            if kind == "unary":
                x = [torch.tanh, torch.relu, torch.sigmoid, torch.exp, torch.abs][number % 5](x)
            elif kind == "linear":
                x = self.narrow(torch.relu(self.wide(x)))
            elif kind == "softmax":
                x = torch.softmax(x, dim=-1)
            elif kind == "branch":
                x = torch.cond(row.sum() > 0, lambda v: v + 1.5, lambda v: v * 0.5, (x,))
            elif kind == "argument" and arguments:
                place = number % len(arguments)
                if self.mutated[place]:
                    arguments[place].add_(row)
                x = x + arguments[place]
            elif held is None:
                x = x * 2
            elif kind == "read":
                x = x + held[number % held.shape[0]].to(x.dtype)
            elif kind == "write":
                held.copy_(row.to(held.dtype).expand_as(held))
            elif kind == "add":
                held.add_(1)
            else:
                held[number % held.shape[0]] = row.to(held.dtype)
        return tuple((x + i).to(cast) for i, cast in enumerate(self.casts))


def program(rng: random.Random) -> list[tuple[str, Any, dict[str, Any]]]:
    """Exported entry points: name, program, names for the converter."""
    holders: dict[str, nn.Module] = {name: Child() for name in ["a", "b", "c"][: rng.randrange(1, 4)]}
    buffers = []
    for number in range(rng.randrange(5)):
        holder, name = rng.choice(list(holders)), f"held_{rng.randrange(100)}_{number}"
        holders[holder].register_buffer(
            name, torch.zeros(rng.randrange(1, 6), WIDTH, dtype=rng.choice(STORED))
        )
        buffers.append((holder, name))
    entries = []
    for number in range(rng.choice([1, 1, 2, 3])):
        module = Entry(rng, holders, buffers).eval()
        inputs = (torch.randn(4, WIDTH), *(torch.randn(WIDTH) for _ in range(module.arguments)))
        shapes: Any = None
        if rng.random() < 0.4:
            dynamic = {0: torch.export.Dim("rows", min=2, max=64)}
            shapes = (dynamic, (None,) * module.arguments) if module.arguments else (dynamic,)
        exported = torch.export.export(module, inputs, dynamic_shapes=shapes)
        exported = exported.run_decompositions(get_decomp_table())
        entries.append((f"main_{number}" if number else "main", exported, names(rng, exported)))
    return entries


def names(rng: random.Random, exported: Any) -> dict[str, Any]:
    """Names for every port, or none."""
    if rng.random() < 0.4:
        return {}
    signature = exported.graph_signature
    mutated = set(signature.user_inputs_to_mutate.values())
    free = rng.sample(NAMES, len(NAMES))
    free += [f"port_{i}" for i in range(20)]

    def take(count: int) -> list[str]:
        return [free.pop(0) for _ in range(count)]

    return {
        "input_names": take(sum(name not in mutated for name in signature.user_inputs)),
        "output_names": take(len(signature.user_outputs)),
        "state_names": take(len(signature.buffers_to_mutate) + len(mutated)),
    }


def converters() -> list[TorchConverter]:
    """One for every mode of the converter, in which all must mean the same."""
    modes = getattr(TorchConverter, "Mode", None)
    return [TorchConverter()] if modes is None else [TorchConverter(mode=mode) for mode in modes]


def fingerprint(binary: str, path: pathlib.Path) -> str:
    ran = subprocess.run([binary, "inspect", "--format", "json", str(path)], capture_output=True, text=True)
    return str(json.loads(ran.stdout)["fingerprint"])


def check(seed: int, path: pathlib.Path, binary: str, stage: Callable[[str], object]) -> str | None:
    warnings.simplefilter("ignore")
    torch.manual_seed(seed)
    entries = program(random.Random(seed))
    fingerprints, told = [], []
    for converter in converters():
        for name, exported, ports in entries:
            converter.add_exported_program(exported, entrypoint_name=name, **ports)
        made = converter.to_coreai()
        # A separate step of coreai-torch 0.4.0 to 0.4.2.
        made = getattr(made, "optimize", lambda: None)() or made
        shutil.rmtree(path, ignore_errors=True)
        made.save_asset(path)
        reached: list[str] = []
        different = compare(path, binary, reached.append)
        if different:
            return different
        told.append(reached)
        fingerprints.append(fingerprint(binary, path))
    if len(set(fingerprints)) != 1:
        return f"fingerprints of one program: {fingerprints}"
    # As far as the least of them came.
    for word in min(told, key=len):
        stage(word)
    return None


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--binary", default="target/release/coreai-audit")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    # Forked processes and threads of the parent do not go together.
    torch.set_num_threads(1)
    directory = pathlib.Path(tempfile.mkdtemp(prefix="modules-"))
    count = Counts()
    for seed in range(arguments.seed, arguments.seed + arguments.count):
        path = directory / f"{seed}.aimodel"
        count.add(seed, path, lambda stage: check(seed, path, arguments.binary, stage))  # noqa: B023
        shutil.rmtree(path, ignore_errors=True)
    count.close(directory)


if __name__ == "__main__":
    main()
