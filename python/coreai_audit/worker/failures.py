"""A Python exception as data: the user's own frames first, the rest counted."""

from __future__ import annotations

import os
import site
import sys
import sysconfig
import traceback
from types import TracebackType
from typing import Any

from ..recipe import RecipeError

_MAX_MESSAGE = 8000


def describe(error: BaseException, recipe_path: str | None) -> dict[str, Any]:
    """Type, message, and frames marked as the user's or a library's."""
    chain = _root(error)
    if isinstance(error, RecipeError):
        kind = "usage"
    elif isinstance(error, ModuleNotFoundError) and _missing_converter(error):
        kind = "missing-package"
    else:
        kind = "python"
    folder = os.path.dirname(os.path.abspath(recipe_path)) if recipe_path else None
    frames = [
        {
            "file": _plain(frame.filename),
            "line": frame.lineno,
            "function": _plain(frame.name),
            "code": None if frame.line is None else _plain(frame.line),
            "user": _is_user(frame.filename, folder),
        }
        for frame in _frames(chain.__traceback__)
    ]
    message = _message(error)
    if chain is not error and _message(chain) not in message:
        message = f"{message}\ncaused by {type(chain).__name__}: {_message(chain)}"
    return {
        "kind": kind,
        "type": type(error).__name__,
        "message": message[:_MAX_MESSAGE],
        "module": getattr(error, "name", None) if kind == "missing-package" else None,
        "frames": frames,
    }


def _message(error: BaseException) -> str:
    """The exception's text, also where it has no usable one."""
    try:
        return _plain(str(error))
    except Exception as broken:
        return f"(its text cannot be made: __str__ raises {type(broken).__name__})"


def _plain(text: str) -> str:
    """Text that JSON can carry: a lone surrogate becomes its escape."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _root(error: BaseException) -> BaseException:
    seen = {id(error)}
    while error.__cause__ is not None and id(error.__cause__) not in seen:
        error = error.__cause__
        seen.add(id(error))
    return error


def _missing_converter(error: ModuleNotFoundError) -> bool:
    return (error.name or "").partition(".")[0] in ("torch", "coreai_torch", "coreai", "numpy")


def _frames(trace: TracebackType | None) -> list[traceback.FrameSummary]:
    own = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    return [
        f
        for f in traceback.extract_tb(trace)
        if not f.filename.startswith((own, "<")) and "coreai_audit" + os.sep + "worker" not in f.filename
    ]


def _is_user(file: str, folder: str | None) -> bool:
    path = os.path.abspath(file)
    libraries = {
        *site.getsitepackages(),
        sysconfig.get_path("stdlib"),
        sysconfig.get_path("purelib"),
        os.path.join(sys.prefix, "lib"),
    }
    if any(path.startswith(os.path.join(lib, "")) for lib in libraries):
        return False
    return True if folder is None else path.startswith(folder) or "site-packages" not in path
