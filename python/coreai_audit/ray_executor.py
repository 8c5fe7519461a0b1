"""Cells of ``upgrade`` as tasks of a Ray cluster.

Started by the command line, which sends one JSON document on standard input and reads one JSON document
a line on standard output: ``{"id": …, "record": …}`` or ``{"id": …, "error": "one line"}`` for each cell,
or ``{"error": …}`` when the cluster cannot be used. Standard input stays open: when it closes, nobody is
left to tell, and everything ends.

An environment that is to be made is the ``runtime_env`` of its tasks, and Ray makes it where they run. One
that exists is used by its path, which must be the same on every machine; so must the recipe's.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
from pathlib import Path
from typing import IO, Any

# Seconds for the first word of a cluster that is named by its address.
_REACHABLE_WITHIN = 10


def main() -> None:
    """Serve one plan and end the process."""
    # Whatever Ray prints must not get between the answers.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    plan = json.loads(sys.stdin.readline())
    threading.Thread(target=_watch, daemon=True).start()
    try:
        ray = _connect(plan["address"])
    except Exception as error:
        _tell(answers, {"error": _line(error)})
        return
    try:
        _run(ray, plan["jobs"], answers)
    finally:
        ray.shutdown()


def _connect(address: str | None) -> Any:
    if address is not None:
        _reach(address)
    # A checkout ignores the compiled module in git; the cluster needs it.
    os.environ.setdefault("RAY_RUNTIME_ENV_IGNORE_GITIGNORE", "1")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    try:
        import ray
    except ModuleNotFoundError:
        raise RuntimeError(
            f'ray is not installed in {sys.executable}: pip install "coreai-audit[ray]"'
        ) from None
    ray.init(
        address=address,
        runtime_env={"py_modules": [str(Path(__file__).parent)]},
        log_to_driver=False,
        logging_level="error",
        include_dashboard=False if address is None else None,
    )
    return ray


def _watch() -> None:
    """End everything as soon as the command line is gone."""
    sys.stdin.read()
    if "ray" in sys.modules:
        sys.modules["ray"].shutdown()
    os._exit(1)


def _reach(address: str) -> None:
    """Ray itself waits for minutes for a cluster that is not there."""
    host, _, port = address.rpartition("//")[2].rpartition(":")
    if host and port.isdigit():
        try:
            socket.create_connection((host, int(port)), timeout=_REACHABLE_WITHIN).close()
        except OSError as error:
            raise RuntimeError(f"no Ray cluster at {address}: {error}") from None


def _run(ray: Any, jobs: list[dict[str, Any]], answers: IO[str]) -> None:
    task = ray.remote(max_retries=0)(_cell)
    pending: dict[Any, dict[str, Any]] = {}

    def submit(job: dict[str, Any], given: Any) -> None:
        options = {"runtime_env": {"uv": _uv(job["packages"])}} if job["packages"] else {}
        if job["memory"]:
            options["memory"] = job["memory"]
        pending[task.options(**options).remote(json.dumps(job["cell"]), given, job["records"])] = job

    # What is run against a reference that is to be recorded waits for it.
    recording = {job["model"] for job in jobs if job["records"]}
    waiting = [job for job in jobs if not job["records"] and job["model"] in recording]
    for job in jobs:
        if job["records"]:
            submit(job, None)
        elif job["model"] not in recording:
            submit(job, _bytes(job["trace"]))
    while pending:
        [done], _ = ray.wait(list(pending), num_returns=1)
        job = pending.pop(done)
        recorded = None
        try:
            record, recorded = ray.get(done)
            if recorded is not None:
                Path(job["trace"]).write_bytes(recorded)
            _tell(answers, {"id": job["id"], "record": json.loads(record)})
        except ray.exceptions.RuntimeEnvSetupError as error:
            _tell(answers, {"id": job["id"], "error": f"Ray cannot make the environment: {_cause(error)}"})
        except Exception as error:
            _tell(answers, {"id": job["id"], "error": f"the task was lost: {_line(error)}"})
        if job["records"]:
            given = None if recorded is None else ray.put(recorded)
            for other in (j for j in waiting if j["model"] == job["model"]):
                submit(other, given)


def _bytes(path: str | None) -> bytes | None:
    return Path(path).read_bytes() if path and Path(path).is_file() else None


def _uv(packages: list[str]) -> dict[str, Any]:
    return {"packages": packages, "uv_pip_install_options": ["--no-deps", "--link-mode", "hardlink"]}


def _cell(cell: str, given: bytes | None, records: bool) -> tuple[str, bytes | None]:
    """Runs on the cluster, in the environment of the cell."""
    from coreai_audit import _core

    return _core.upgrade_cell(cell, given, records)


def _tell(answers: IO[str], answer: dict[str, Any]) -> None:
    answers.write(json.dumps(answer) + "\n")
    answers.flush()


def _line(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return text[:400] or type(error).__name__


def _cause(error: BaseException) -> str:
    """The installer's own last words: Ray puts its log before them."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    told = [line for line in lines if line.startswith(("error:", "Caused by", "cause:", "Because "))]
    return " ".join((told or lines[-1:])[:4])[:400]
