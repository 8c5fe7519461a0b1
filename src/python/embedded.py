"""Importer for the package that is compiled into the stand-alone binary."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from types import ModuleType


class CompiledIn(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    """Finds modules by name in a dictionary of sources."""

    def __init__(self, sources: dict[str, str]) -> None:
        self.sources = sources

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname not in self.sources:
            return None
        return importlib.util.spec_from_loader(
            fullname, self, origin=f"<{fullname}>", is_package=self.is_package(fullname)
        )

    def is_package(self, fullname: str) -> bool:
        return any(name.startswith(fullname + ".") for name in self.sources)

    def get_source(self, fullname: str) -> str:
        return self.sources[fullname]

    def exec_module(self, module: ModuleType) -> None:
        # Where it would be, below a folder that does not exist: code that asks where it is gets an answer
        # that no file of anybody's begins with.
        module.__file__ = "<compiled in>/" + module.__name__.replace(".", "/") + ".py"
        super().exec_module(module)


def install(sources: dict[str, str]) -> None:
    """Put the compiled-in package before anything of that name in the environment."""
    sys.meta_path.insert(0, CompiledIn(sources))
