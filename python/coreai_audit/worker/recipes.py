"""Find a recipe function, call it, and clean up after it."""

from __future__ import annotations

import contextlib
import difflib
import importlib.util
import inspect
import itertools
import os
import sys
import warnings
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any

from ..recipe import Recipe, RecipeError, from_mapping
from . import randomness

# Every load has a module name of its own: torch's tracers keep what they know by module name.
_MODULE_NAME = "coreai_audit_recipe_file"
_loads = itertools.count(1)


def load(path: str, name: str, seed: int | None = None) -> Recipe:
    """Import ``path`` and return what its function ``name`` returns.

    The file is executed anew each time: an export can leave fake tensors behind in globals, class
    attributes and default arguments, and the next model must not see them.
    """
    forget(path)
    function = _find_function(_execute(path), path, name)
    _seed(seed)
    recipe = as_recipe(_call(function, path, name), path, name)
    if seed is None and recipe.seed != 0:
        # The seed is a field of the recipe, so it is known only once the function has run.
        _seed(recipe.seed)
        recipe = as_recipe(_call(function, path, name), path, name)
    for entry_point in recipe.entry_points():
        entry_point.module = _as_written(entry_point.module)
    return recipe


@contextlib.contextmanager
def another(path: str, name: str) -> Iterator[Recipe]:
    """The recipe loaded once more, beside the one in use, which finds its modules again afterwards."""
    kept = forget(path)
    search = list(sys.path)
    try:
        yield load(path, name)
    finally:
        forget(path)
        sys.modules.update(kept)
        sys.path[:] = search


def as_recipe(value: Any, path: str, name: str) -> Recipe:
    """Accept a :class:`Recipe` or a dictionary of its fields."""
    if isinstance(value, Recipe):
        return value
    if isinstance(value, Mapping):
        return from_mapping(value, f"{path}:{name}")
    torch = sys.modules.get("torch")
    is_module = torch is not None and isinstance(value, torch.nn.Module)
    hint = "; write return Recipe(module=..., args=(...))" if is_module else ""
    raise RecipeError(
        f"{path}:{name}: expected the function to return a coreai_audit.Recipe, "
        f"got {type(value).__name__}{hint}"
    )


def _call(function: Any, path: str, name: str) -> Any:
    """Call a recipe function; what is wrong with the function itself is told before it runs."""
    try:
        needed = [
            p.name
            for p in inspect.signature(function).parameters.values()
            if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
        ]
    except (TypeError, ValueError):
        needed = []  # Something built in; calling it tells.
    if needed:
        raise RecipeError(
            f"{path}:{name}: expected a function without arguments, this one needs {', '.join(needed)}; "
            "give defaults, or name a function that calls it"
        )
    value = function()
    if inspect.iscoroutine(value):
        value.close()
        raise RecipeError(
            f"{path}:{name}: expected a plain function, this one is async; use def, "
            "with asyncio.run(...) inside for what must be awaited"
        )
    if inspect.isgenerator(value) or inspect.isasyncgen(value):
        raise RecipeError(
            f"{path}:{name}: expected a function that returns one Recipe, this one yields; use return "
            "(and functions=[...] for more than one entry point)"
        )
    return value


def _as_written(module: Any) -> Any:
    """The module that ``torch.compile`` wraps: under the wrapper every buffer has another name."""
    eval_frame = sys.modules.get("torch._dynamo.eval_frame")
    if eval_frame is not None and isinstance(module, eval_frame.OptimizedModule):
        return module._orig_mod
    return module


def forget(path: str, *folders: str) -> dict[str, ModuleType]:
    """Drop the modules that were imported from the recipe's folder and ``folders``; returns them."""
    places = [os.path.join(os.path.abspath(f), "") for f in (os.path.dirname(path) or os.curdir, *folders)]
    libraries = [os.path.join(sys.prefix, ""), os.path.join(sys.base_prefix, "")]
    dropped: dict[str, ModuleType] = {}
    for key, module in list(sys.modules.items()):
        if key.startswith(_MODULE_NAME + "_") or (
            key.partition(".")[0] != "coreai_audit" and _is_inside(module, places, libraries)
        ):
            dropped[key] = sys.modules.pop(key)
    return dropped


def _is_inside(module: Any, places: list[str], libraries: list[str]) -> bool:
    file = getattr(module, "__file__", None)
    if not isinstance(file, str):
        return False
    file = os.path.abspath(file)
    if "site-packages" in file.split(os.sep):
        return False
    return any(file.startswith(p) for p in places) and not any(file.startswith(p) for p in libraries)


def _execute(path: str) -> ModuleType:
    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.isfile(path):
        raise RecipeError(f"{path}: no such recipe file")
    module_name = f"{_MODULE_NAME}_{next(_loads)}"
    spec = importlib.util.spec_from_file_location(module_name, path)
    if spec is None or spec.loader is None:
        raise RecipeError(f"{path}: expected a Python file (.py)")
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module
    sys.path[:] = [folder, *(p for p in sys.path if p != folder)]
    spec.loader.exec_module(module)
    return module


def _find_function(module: ModuleType, path: str, name: str) -> Any:
    function = getattr(module, name, None)
    if function is None:
        candidates = [
            key
            for key, value in vars(module).items()
            if inspect.isfunction(value) and value.__module__ == module.__name__ and not key.startswith("_")
        ]
        near = difflib.get_close_matches(name, candidates, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        there = ", ".join(candidates) if candidates else "none"
        raise RecipeError(f"{path}: no function {name!r}{hint} (functions there: {there})")
    if not callable(function):
        raise RecipeError(
            f"{path}:{name}: expected a function that returns a Recipe, got {type(function).__name__}"
        )
    return function


def _seed(seed: int | None) -> None:
    randomness.seed(seed or 0)


class Process:
    """What a recipe can change in its process, saved so that the next model starts from the same.

    Descriptors 0 to 2, folder, environment, import path, warning filters, the streams of ``sys``, and
    torch's default dtype, default device and gradient mode. What a recipe patches in a library stays.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            self.folder: str | None = os.getcwd()
        except OSError:
            self.folder = None
        self.environment = dict(os.environ)
        self.search = list(sys.path)
        self.streams = (sys.stdin, sys.stdout, sys.stderr)
        self.descriptors = [_duplicate(d) for d in range(3)]
        self.warnings = warnings.catch_warnings()
        self.warnings.__enter__()
        torch = sys.modules.get("torch")
        self.torch = (
            None
            if torch is None
            else (torch.get_default_dtype(), torch.is_grad_enabled(), torch.get_default_device())
        )

    def after_recipe(self) -> None:
        """What the stages after the recipe function need: streams, and warnings that are no errors."""
        self.restore_streams()
        self.warnings.__exit__(None, None, None)
        self.warnings = warnings.catch_warnings()
        self.warnings.__enter__()

    def restore_streams(self) -> None:
        """Put descriptors 0 to 2 and the streams of ``sys`` back; may be called more than once.

        A closed descriptor would be handed to the next file that is opened, and get the log's text.
        """
        for number, saved in enumerate(self.descriptors):
            if saved is not None:
                with contextlib.suppress(OSError):
                    os.dup2(saved, number)
        sys.stdin, sys.stdout, sys.stderr = self.streams
        for number, key in ((1, "stdout"), (2, "stderr")):
            if getattr(getattr(sys, key), "closed", False):
                reopened = os.fdopen(number, "w", buffering=1, errors="backslashreplace", closefd=False)
                setattr(sys, key, reopened)

    def restore(self) -> None:
        """Put everything back and forget what the recipe imported; call it once."""
        self.restore_streams()
        for saved in self.descriptors:
            if saved is not None:
                with contextlib.suppress(OSError):
                    os.close(saved)
        self.descriptors = []
        if self.folder is not None:
            with contextlib.suppress(OSError):
                os.chdir(self.folder)
        for key in [k for k in os.environ if k not in self.environment]:
            del os.environ[key]
        for key, value in self.environment.items():
            if os.environ.get(key) != value:
                os.environ[key] = value
        added = [p for p in sys.path if isinstance(p, str) and p not in self.search]
        sys.path[:] = self.search
        _forget_imports(forget(self.path, *added))
        self.warnings.__exit__(None, None, None)
        torch = sys.modules.get("torch")
        if torch is not None and self.torch is not None:
            dtype, gradients, device = self.torch
            torch.set_default_dtype(dtype)
            torch.set_grad_enabled(gradients)
            if torch.get_default_device() != device:
                torch.set_default_device(None)


def _duplicate(descriptor: int) -> int | None:
    import fcntl

    try:
        # Not below 3: the place of a closed one must stay free.
        return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 3)
    except OSError:
        return None


def _forget_imports(modules: dict[str, ModuleType]) -> None:
    """Clear what torch's tracer remembers of ``modules``: globals of its own, by module name."""
    names = ["__import_" + key.replace(".", "_dot_") for key in modules]
    tracer = sys.modules.get("torch._dynamo.functional_export")
    for name in names if tracer is not None else ():
        vars(tracer).pop(name, None)
