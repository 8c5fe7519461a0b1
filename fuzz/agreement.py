"""Random programs, read three ways: bytecode, printed IR, runtime descriptor.

    python fuzz/agreement.py [--binary target/release/coreai-audit] [--count 200] [--seed 0]

Needs coreai-core in the Python that runs it. Each program is random: functions, inputs, states with
every kind of access, outputs, element types, dynamic extents, helper graphs, branches, loops, weights
inline and in resources, names that need quoting. The vendor's own writer saves it; then

- `coreai-audit inspect --ir` must print, letter by letter, what the vendor prints, and
- `coreai-audit contract` must say what the runtime's descriptor says.

Programs the runtime cannot load (a state that nothing uses) are compared as printed. The first
disagreement ends the run, and its asset is kept.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from typing import Any

ELEMENTS = [
    "f32",
    "f16",
    "bf16",
    "f64",
    "si8",
    "si16",
    "si32",
    "si64",
    "ui8",
    "ui16",
    "ui32",
    "ui64",
    "i1",
    "si4",
    "ui4",
    "f8E4M3FN",
    "f8E5M2",
    "complex<f32>",
]
NAMES = ["x", "a b", 'q"uote', "back\\slash", "größe", "tab\t", "layers.0.k", "日本", "x'y", "state-1"]
UNARY = ["exp", "tanh", "sqrt", "abs", "relu", "silu", "sigmoid"]
BINARY = ["add", "sub", "mul", "maximum", "minimum"]


def quote(text: str) -> str:
    def letter(b: int) -> str:
        return chr(b) if 32 <= b < 127 and b not in (34, 92) else f"\\{b:02X}"

    return '"' + "".join(letter(b) for b in text.encode()) + '"'


class Program:
    """One random module as text."""

    def __init__(self, rng: random.Random):
        self.rng = rng
        self.lines: list[str] = []
        self.next = 0
        helpers = [f"helper_{i}" for i in range(rng.randrange(3))]
        self.helpers = helpers
        for name in helpers:
            composite = ""
            if rng.random() < 0.5:
                composite = (
                    f' attributes {{composite_decl = #coreai.composite_declaration<"thing" = '
                    f'{{input_names = ["a"], op_attrs = {{eps = {rng.random():.6e} : f32, n = {rng.randrange(99)} : si64}}, '
                    f'output_names = ["b"]}}>}}'
                )
            self.lines.append(
                f'coreai.graph private noinline @{name}(%a: tensor<4xf32> {{coreai.name = "a"}}) -> '
                f'(tensor<4xf32> {{coreai.name = "b"}}){composite} {{ %0 = coreai.{rng.choice(UNARY)} %a : '
                + self.unary_types(name)
                + "\ncoreai.output %0 : tensor<4xf32> }"
            )
        for i in range(rng.randrange(1, 4)):
            self.function(f"main_{i}" if i else "main")

    def unary_types(self, _: str) -> str:
        # Filled in by `fix`: some unary ops take their type in parentheses.
        return "TYPES(tensor<4xf32>)"

    def value(self) -> str:
        self.next += 1
        return f"%v{self.next}"

    def function(self, name: str) -> None:
        rng = self.rng
        names = rng.sample(NAMES, len(NAMES))
        args, results, body, ends, end_types = [], [], [], [], []
        body.append("%t = coreai.create_token : !coreai.token")
        known: list[str] = []  # values of tensor<4xf32>
        for i in range(rng.randrange(0, 4)):
            port = names.pop()
            if rng.random() < 0.6:
                args.append(f"%i{i}: tensor<4xf32> {{coreai.name = {quote(port)}}}")
                known.append(f"%i{i}")
            else:
                dims = "".join(rng.choice(["?x", "1x", "3x", "128x"]) for _ in range(rng.randrange(4)))
                args.append(f"%i{i}: tensor<{dims}{rng.choice(ELEMENTS)}> {{coreai.name = {quote(port)}}}")
        for i in range(rng.randrange(0, 3)):
            port = quote(names.pop())
            # Tokens must come back in the order of the handles, so a handle never goes before one.
            last = max((n for n, arg in enumerate(args) if "handle" in arg), default=-1)
            args.insert(
                rng.randrange(last + 1, len(args) + 1),
                f"%h{i}: !coreai.handle<tensor<4xf32>> {{MutableBuffers.buffer_mutation = {port}, coreai.name = {port}}}",
            )
            token = "%t"
            for step in rng.choice(["", "r", "w", "rw", "wr", "rwr"]):
                after = self.value()
                if step == "r":
                    read = self.value()
                    body.append(
                        f"{read}, {after} = coreai.read_handle %h{i}, {token} : (<tensor<4xf32>>, !coreai.token) -> "
                        "(tensor<4xf32>, !coreai.token)"
                    )
                    known.append(read)
                elif known:
                    body.append(
                        f"{after} = coreai.write_handle %h{i}, {rng.choice(known)}, {token} : (<tensor<4xf32>>, tensor<4xf32>, "
                        "!coreai.token) -> !coreai.token"
                    )
                else:
                    continue
                token = after
            ends.append(token)
            end_types.append("!coreai.token")
            results.append(f"!coreai.token {{coreai.name = {port}}}")
        self.ops(body, known)
        for _ in range(rng.randrange(1, 3)):
            results.append(f"tensor<4xf32> {{coreai.name = {quote(names.pop())}}}")
            if not known:
                known.append(self.constant(body))
            ends.append(rng.choice(known))
            end_types.append("tensor<4xf32>")
        body.append(f"coreai.output {', '.join(ends)} : {', '.join(end_types)}")
        newline = "\n"
        self.lines.append(
            f"coreai.graph @{name}({', '.join(args)}) -> ({', '.join(results)}) {{\n{newline.join(body)}\n}}"
        )

    def constant(self, body: list[str]) -> str:
        value = self.value()
        data = ", ".join(repr(round(self.rng.uniform(-9, 9), 6)) for _ in range(4))
        body.append(f"{value} = coreai.constant dense<[{data}]> : tensor<4xf32>")
        return value

    def ops(self, body: list[str], known: list[str], depth: int = 0) -> None:
        rng = self.rng
        for _ in range(rng.randrange(1, 6)):
            if not known or rng.random() < 0.2:
                known.append(self.constant(body))
            value, kind = self.value(), rng.random()
            a, b = rng.choice(known), rng.choice(known)
            t = "tensor<4xf32>"
            if kind < 0.35:
                body.append(f"{value} = coreai.{rng.choice(UNARY)} {a} : TYPES({t})")
            elif kind < 0.7:
                body.append(
                    f"{value} = coreai.decomposable.broadcasting_{rng.choice(BINARY)} {a}, {b} : ({t}, {t}) -> {t}"
                )
            elif kind < 0.8 and self.helpers:
                body.append(f"{value} = coreai.invoke @{rng.choice(self.helpers)}({a}) : ({t}) -> {t}")
            elif kind < 0.9 and depth < 2:
                condition = self.value()
                body.append(
                    f"{condition} = coreai.constant dense<{rng.choice(['true', 'false'])}> : tensor<i1>"
                )
                branches = []
                for _ in range(2):
                    inner: list[str] = []
                    seen = list(known)
                    self.ops(inner, seen, depth + 1)
                    inner.append(f"coreai.yield {rng.choice(seen)} : {t}")
                    branches.append("\n".join(inner))
                body.append(
                    f"{value} = coreai.if {condition} {{\n{branches[0]}\n}} else {{\n{branches[1]}\n}} : tensor<i1> -> {t}"
                )
            else:
                # A weight large enough for a resource, summed away.
                weight, axis, total = self.value(), self.value(), self.value()
                count = 512
                data = ", ".join(repr(round(rng.uniform(-1, 1), 4)) for _ in range(count))
                body.append(f"{weight} = coreai.constant dense<[{data}]> : tensor<{count}xf32>")
                body.append(f"{axis} = coreai.constant dense<0> : tensor<1xsi32>")
                body.append(
                    f"{total} = coreai.reduce_sum {weight}, {axis} : (tensor<{count}xf32>, tensor<1xsi32>) -> tensor<1xf32>"
                )
                body.append(
                    f"{value} = coreai.decomposable.broadcasting_add {a}, {total} : ({t}, tensor<1xf32>) -> {t}"
                )
            known.append(value)

    def text(self) -> str:
        out = []
        for line in "\n".join(self.lines).split("\n"):
            if "TYPES(" in line:
                op = (
                    line.split("coreai.")[-1].split(" ")[0]
                    if " = coreai." not in line
                    else line.rsplit(" = coreai.", 1)[1].split(" ")[0]
                )
                t = "tensor<4xf32>"
                bare = op not in ("relu", "silu", "sigmoid")
                line = line.replace(f"TYPES({t})", f"{t} -> {t}" if bare else f"({t}) -> {t}")
            out.append(line)
        return "module {\n" + "\n".join(out) + "\n}\n"


def descriptor(asset: Any) -> dict[str, Any]:
    async def read() -> dict[str, Any]:
        functions = {}
        async with asset.executable() as model:
            for name in model.function_names:
                d = model.load_function(name).desc
                ports = {}
                for kind in ("input", "state", "output"):
                    get = getattr(d, f"{kind}_descriptor")
                    found = []
                    for port in getattr(d, f"{kind}_names"):
                        one = get(port)
                        shape = [None if n < 0 else n for n in one.shape]
                        found.append([port, str(one.dtype), shape])
                    ports[f"{kind}s"] = found
                functions[name] = ports
        return functions

    return asyncio.run(read())


def check(path: pathlib.Path, source: str, binary: str, stage: Callable[[str], object]) -> str | None:
    """Saves and compares; what disagrees. `stage` is told what is done, as the next step may be deadly."""
    from coreai._compiler.context import Context
    from coreai._compiler.ir import Location, Module
    from coreai.authoring import AIProgram

    context = Context()._mlir_context
    with context, Location.unknown():
        AIProgram._from_mlir_module(Module.parse(source)).save_asset(path)
    return compare(path, binary, stage)


def compare(path: pathlib.Path, binary: str, stage: Callable[[str], object]) -> str | None:
    """Compares our two readings of an asset with the vendor's."""
    from coreai.authoring import AIModelAsset

    asset = AIModelAsset.load(path)
    # Before coreai-core 1.0.0b3 the program holds its module itself.
    op = getattr(asset.program, "_module", asset.program)._mlir_module.operation
    theirs = op.get_asm(large_elements_limit=32, use_local_scope=True).rstrip()
    ours = subprocess.run([binary, "inspect", "--ir", str(path)], capture_output=True, text=True)
    if ours.returncode or ours.stdout.rstrip() != theirs:
        for a, b in zip(ours.stdout.splitlines(), theirs.splitlines(), strict=False):
            if a != b:
                return f"printed program:\n  ours   {a[:300]}\n  theirs {b[:300]}"
        return f"printed program: {ours.stderr or 'one ends early'}"
    contract = subprocess.run(
        [binary, "contract", "--format", "json", str(path)], capture_output=True, text=True
    )
    if contract.returncode:
        return contract.stderr
    mine = {
        f["name"]: {
            kind: [[p["name"], p["dtype"], p["shape"]] for p in f[kind]]
            for kind in ("inputs", "states", "outputs")
        }
        for f in json.loads(contract.stdout)["functions"]
    }
    stage("printed")
    try:
        described = descriptor(asset)
    except Exception:
        return None
    # The runtime lists private helpers, too.
    runtime = {name: ports for name, ports in described.items() if not name.startswith("helper_")}
    stage("agreed")
    if mine != runtime:
        return f"contract:\n  ours    {mine}\n  runtime {runtime}"
    return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", default="target/release/coreai-audit")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    directory = pathlib.Path(tempfile.mkdtemp(prefix="agreement-"))
    count = Counts()
    for number in range(arguments.seed, arguments.seed + arguments.count):
        source = Program(random.Random(number)).text()
        path = directory / f"{number}.aimodel"
        count.add(number, path, lambda stage: check(path, source, arguments.binary, stage))  # noqa: B023
        shutil.rmtree(path, ignore_errors=True)
    count.close(directory)


class Counts:
    """What became of the programs."""

    def __init__(self) -> None:
        self.agreed = self.printed = self.refused = 0
        self.last = ""

    def add(
        self, number: int, path: pathlib.Path, check: Callable[[Callable[[str], object]], str | None]
    ) -> None:
        """Runs a check in a process of its own: the vendor's libraries abort on what they do not like."""
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            try:
                told = check(lambda word: os.write(writer, f"{word} ".encode())) or ""
            except Exception as error:
                told = f"refused: {error}"
            os.write(writer, told.encode()[:60_000])
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader) as pipe:
            told = pipe.read()
        os.waitpid(child, 0)
        if told == "printed agreed ":
            self.agreed += 1
        elif told == "printed ":
            self.printed += 1
        elif told == "" or told.startswith("refused"):
            # The vendor's tools refused the program, or died of it.
            self.refused += 1
            self.last = told
        else:
            sys.exit(f"program {number}, kept as {path}\n{told}")

    def close(self, directory: pathlib.Path) -> None:
        """Prints the counts; an error where too few programs came through to mean anything."""
        print(
            f"{self.agreed} programs agree three ways; {self.printed} agree as printed, the runtime does not "
            f"load them; the vendor's tools refused {self.refused}"
        )
        if self.refused * 10 > self.agreed + self.printed + self.refused:
            sys.exit(f"too many were refused to mean anything; the last: {self.last[:1000]}")
        shutil.rmtree(directory)


if __name__ == "__main__":
    main()
