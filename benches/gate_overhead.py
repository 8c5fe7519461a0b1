"""The gate's own share of the time, against a bare script that converts the same models.

Both convert every model of the manifest in one process with the same imports: export, decomposition,
conversion and save. What the gate takes more is its own: two eager calls, printing and reading the
program, the runtime descriptor, the comparison. Rounds alternate, so that drift of the machine hits
both; the ratio is the median of the rounds' ratios.

    python benches/gate_overhead.py [--rounds 5]
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

BARE = """\
import importlib.util, os, sys, tomllib, warnings
from pathlib import Path
warnings.filterwarnings("ignore")
import torch
from coreai_torch import TorchConverter, get_decomp_table
import coreai_audit

out = Path(sys.argv[1])
for name, model in tomllib.loads(Path("coreai-audit.toml").read_text())["models"].items():
    file, function = model["recipe"].split(":")
    spec = importlib.util.spec_from_file_location("recipe", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    torch.manual_seed(0)
    converter = TorchConverter(mode=TorchConverter.Mode.RELEASE)
    for r in getattr(module, function)().entry_points():
        r.module.eval()
        with torch.no_grad():
            program = torch.export.export(
                r.module, tuple(r.args), dict(r.kwargs), dynamic_shapes=r.dynamic_shapes, strict=r.strict)
            program = program.run_decompositions(get_decomp_table())
        converter.add_exported_program(
            program, input_names=r.input_names, output_names=r.output_names,
            state_names=r.state_names, entrypoint_name=r.entrypoint_name)
    converter.to_coreai().save_asset(out / f"{name}.aimodel")
# The gate ends its worker without tearing the interpreter down; neither does this.
os._exit(0)
"""


def timed(command: list[str]) -> float:
    began = time.perf_counter()
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    gate = str(Path(sys.executable).with_name("coreai-audit"))
    bare_times, gate_times, ratios = [], [], []
    for round_number in range(rounds + 1):
        with tempfile.TemporaryDirectory() as folder:
            bare = timed([sys.executable, "-c", BARE, folder])
        with tempfile.TemporaryDirectory() as folder:
            judged = timed([gate, "gate", "--out", folder])
        if round_number == 0:
            continue  # the first round fills the page cache
        bare_times.append(bare)
        gate_times.append(judged)
        ratios.append(judged / bare)
        print(
            f"round {round_number}: script {bare:6.2f} s   gate {judged:6.2f} s   ratio {judged / bare:.3f}"
        )
    print(
        f"median:  script {statistics.median(bare_times):6.2f} s, gate {statistics.median(gate_times):6.2f} s"
    )
    share = 100 * (statistics.median(ratios) - 1)
    print(f"the gate's own share: {share:+.1f} % of the script's time (goal: at most 10 %)")


if __name__ == "__main__":
    main()
