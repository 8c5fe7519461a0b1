"""Which files a conversion was made from: the recipe, what it imports, and the data it opens.

Whoever keeps results needs to know when they no longer hold. Installed packages are left out: they
belong to the environment.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from typing import Any

_opened: set[str] = set()
_written: set[str] = set()
_watching = False


def watch() -> None:
    """From now on note which files Python code opens; for the life of the process."""
    global _watching
    if not _watching:
        _watching = True
        sys.addaudithook(_note)


def begin() -> None:
    """Forget what was opened before."""
    _opened.clear()
    _written.clear()


def files(recipe: str) -> list[str]:
    """Absolute paths, sorted, of the existing files outside of installed packages."""
    imported = (getattr(m, "__file__", None) for m in list(sys.modules.values()))
    candidates = {f for f in imported if isinstance(f, str)} | (_opened - _written) | {recipe}
    kept = {os.path.abspath(f) for f in candidates}
    libraries = _libraries()
    return sorted(f for f in kept if _counts(f, libraries))


def _note(event: str, arguments: tuple[Any, ...]) -> None:
    if event != "open":
        return
    path, mode, flags = arguments
    if not isinstance(path, str) or "\0" in path:
        return
    writes = any(c in mode for c in "wax+") if isinstance(mode, str) else bool(flags & 3)
    (_written if writes else _opened).add(path)


def _libraries() -> list[str]:
    own = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    places = [own, sys.prefix, sys.base_prefix, *sysconfig.get_paths().values(), "/proc", "/sys", "/dev"]
    return [os.path.join(os.path.abspath(p), "") for p in places if len(p) > 1]


def _counts(file: str, libraries: list[str]) -> bool:
    parts = file.split(os.sep)
    if "site-packages" in parts or "dist-packages" in parts or file.endswith((".pyc", ".so")):
        return False
    return os.path.isfile(file) and not any(file.startswith(p) for p in libraries)
