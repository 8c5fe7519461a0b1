"""Five models under two versions of PyTorch: this tool against doing it by hand.

By hand is what a careful person would write: two virtual environments made with uv from its cache, and in
each a script that converts every model of the manifest in one process, one environment after the other.
The tool starts without environments and without results (cold), then with both (warm).

    python benches/upgrade.py [--rounds 3] [--from SPEC] [--to SPEC]

Packages must be in uv's cache; run it once before. Rounds alternate, and medians are shown.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from gate_overhead import BARE, ROOT

OLD = "torch==2.13.0 coreai-torch==0.4.3"
NEW = "torch==2.15.0 coreai-torch==0.4.3"


def timed(command: list[str], env: dict[str, str], expect: tuple[int, ...] = (0,)) -> float:
    began = time.perf_counter()
    result = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True)
    if result.returncode not in expect:
        sys.exit(f"{command[:3]} exits with {result.returncode}:\n{result.stderr[-2000:]}")
    return time.perf_counter() - began


def by_hand(specs: list[str], env: dict[str, str], folder: Path) -> float:
    """Seconds for two environments and the script in each."""
    seconds = 0.0
    for number, spec in enumerate(specs):
        place = folder / f"env-{number}"
        python = str(place / "bin" / "python")
        seconds += timed(["uv", "venv", "--quiet", "--python", sys.executable, str(place)], env)
        seconds += timed(["uv", "pip", "install", "--quiet", "--python", python, *spec.split()], env)
        # The recipes import the package of this tool.
        script = f"import sys; sys.path.append({str(ROOT / 'python')!r})\n" + BARE
        out = folder / f"assets-{number}"
        out.mkdir()
        seconds += timed([python, "-c", script, str(out)], env)
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--from", dest="old", default=OLD)
    parser.add_argument("--to", dest="new", default=NEW)
    args = parser.parse_args()
    tool = str(Path(sys.executable).with_name("coreai-audit"))
    cache = subprocess.run(["uv", "cache", "dir"], check=True, capture_output=True, text=True).stdout.strip()
    env = {**os.environ, "UV_CACHE_DIR": cache}
    hand, cold, warm = [], [], []
    for number in range(args.rounds):
        # On the disk of uv's cache, so that packages are linked and not copied.
        with tempfile.TemporaryDirectory(dir=Path(cache).parent) as folder:
            hand.append(by_hand([args.old, args.new], env, Path(folder)))
        with tempfile.TemporaryDirectory(dir=Path(cache).parent) as folder:
            env["XDG_CACHE_HOME"] = folder
            command = [tool, "upgrade", "--from", args.old, "--to", args.new]
            cold.append(timed(command, env, (0, 1)))
            warm.append(timed(command, env, (0, 1)))
            del env["XDG_CACHE_HOME"]
        print(
            f"round {number + 1}: by hand {hand[-1]:6.2f} s, cold {cold[-1]:6.2f} s, warm {warm[-1]:5.2f} s"
        )
    by, first, again = (statistics.median(times) for times in (hand, cold, warm))
    print(f"median:  by hand {by:6.2f} s, cold {first:6.2f} s, warm {again:5.2f} s")
    print(f"cold is {by / first:.2f} times as fast (goal: 1), warm {by / again:.0f} times (goal: 10)")


if __name__ == "__main__":
    main()
