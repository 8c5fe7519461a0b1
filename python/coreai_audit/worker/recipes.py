"""Find a recipe function, call it, and clean up after it."""

from __future__ import annotations

import difflib
import importlib.util
import inspect
import os
import sys
from collections.abc import Mapping
from dataclasses import fields
from types import ModuleType
from typing import Any

from ..recipe import Recipe, RecipeError

_MODULE_NAME = "coreai_audit_recipe_file"


def load(path: str, name: str, seed: int | None = None) -> Recipe:
    """Import ``path`` and return what its function ``name`` returns.

    The file is executed anew each time: an export can leave fake tensors behind in globals, class
    attributes and default arguments, and the next model must not see them.
    """
    forget(path)
    function = _find_function(_execute(path), path, name)
    _seed(seed)
    recipe = as_recipe(function(), path, name)
    if seed is None and recipe.seed != 0:
        # The seed is a field of the recipe, so it is known only once the function has run.
        _seed(recipe.seed)
        recipe = as_recipe(function(), path, name)
    return recipe


def as_recipe(value: Any, path: str, name: str) -> Recipe:
    """Accept a :class:`Recipe` or a dictionary of its fields."""
    if isinstance(value, Recipe):
        return value
    if isinstance(value, Mapping):
        known = [f.name for f in fields(Recipe)]
        for key in value:
            if key not in known:
                near = difflib.get_close_matches(str(key), known, n=1)
                hint = f"; did you mean {near[0]!r}?" if near else ""
                raise RecipeError(f"{path}:{name}: unknown field {key!r}{hint} (fields: {', '.join(known)})")
        return Recipe(**value)
    raise RecipeError(
        f"{path}:{name}: expected the function to return a coreai_audit.Recipe, got {type(value).__name__}"
    )


def forget(path: str) -> None:
    """Drop the modules that were imported from the recipe's folder."""
    folder = os.path.dirname(os.path.abspath(path)) + os.sep
    inside = {os.path.join(sys.prefix, ""), os.path.join(sys.base_prefix, "")}
    for key, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if key == _MODULE_NAME or (
            isinstance(file, str)
            and os.path.abspath(file).startswith(folder)
            and not any(os.path.abspath(file).startswith(p) for p in inside)
            and not key.startswith("coreai_audit")
        ):
            del sys.modules[key]


def _execute(path: str) -> ModuleType:
    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.isfile(path):
        raise RecipeError(f"{path}: no such recipe file")
    spec = importlib.util.spec_from_file_location(_MODULE_NAME, path)
    if spec is None or spec.loader is None:
        raise RecipeError(f"{path}: expected a Python file (.py)")
    module = importlib.util.module_from_spec(spec)
    sys.modules[_MODULE_NAME] = module
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
    import torch

    torch.manual_seed(seed or 0)
