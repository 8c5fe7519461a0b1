"""Which files a conversion was made from: the recipe, what it imports, and the data it opens.

Whoever keeps results needs to know when they no longer hold. Installed packages are left out: they
belong to the environment.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from types import FrameType
from typing import Any

_opened: set[str] = set()
_written: set[str] = set()
_listed: set[str] = set()
_watching = False
_STANDARD_LIBRARY = os.path.join(os.path.dirname(os.path.abspath(os.__file__)), "")


def watch() -> None:
    """From now on note which files Python code opens, and which folders code that is in no installed
    package lists; for the life of the process."""
    global _watching
    if not _watching:
        _watching = True
        sys.addaudithook(_note)


def begin() -> None:
    """Forget what was opened before."""
    _opened.clear()
    _written.clear()
    _listed.clear()


def files(recipe: str) -> list[str]:
    """Absolute paths, sorted, of the existing files and listed folders outside of installed packages."""
    imported = (getattr(m, "__file__", None) for m in list(sys.modules.values()))
    candidates = {f for f in imported if isinstance(f, str)} | (_opened - _written) | {recipe}
    kept = {os.path.abspath(f) for f in candidates}
    libraries = _libraries()
    folders = {os.path.abspath(f) for f in _listed - _written}
    return sorted(
        {f for f in kept if _counts(f, libraries) and os.path.isfile(f)}
        | {f for f in folders if _counts(f, libraries) and os.path.isdir(f)}
    )


def _note(event: str, arguments: tuple[Any, ...]) -> None:
    if event in ("os.listdir", "os.scandir"):
        _note_listing(arguments[0])
        return
    if event == "os.mkdir" and isinstance(arguments[0], str):
        _written.add(arguments[0])
    if event != "open":
        return
    path, mode, flags = arguments
    if not isinstance(path, str) or "\0" in path:
        return
    writes = any(c in mode for c in "wax+") if isinstance(mode, str) else bool(flags & 3)
    (_written if writes else _opened).add(path)


def _note_listing(path: Any) -> None:
    """Imports and installed packages list folders all the time; what the recipe's own code lists counts."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and _is_python_itself(frame.f_code.co_filename):
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return
        frame = frame.f_back
    folder = os.fspath(path) if isinstance(path, os.PathLike) else "." if path is None else path
    if frame is not None and isinstance(folder, str) and _counts(frame.f_code.co_filename, _libraries()):
        _listed.add(folder)


def _is_python_itself(file: str) -> bool:
    return file.startswith(("<", _STANDARD_LIBRARY)) and "site-packages" not in file


def _libraries() -> list[str]:
    own = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    places = [own, sys.prefix, sys.base_prefix, *sysconfig.get_paths().values(), "/proc", "/sys", "/dev"]
    return [os.path.join(os.path.abspath(p), "") for p in places if len(p) > 1]


def _counts(file: str, libraries: list[str]) -> bool:
    parts = file.split(os.sep)
    if "site-packages" in parts or "dist-packages" in parts or file.endswith((".pyc", ".so")):
        return False
    return not any(file.startswith(p) for p in libraries)
