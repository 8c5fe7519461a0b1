"""One conversion, stage by stage.

The stages are separate calls so that the process outside knows which one is running when the
converter takes the process down with it.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import shutil
import sys
import warnings
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

from ..recipe import Recipe, RecipeError
from . import inputs, observe, paths, recipes, signature, sites, trace

# Elements above which a constant is printed without its values.
_ELIDE_ABOVE = 32


# What the toolchain said when it was imported.
_import_warnings: list[str] = []


def versions() -> str:
    """JSON of the toolchain's versions; a package that is not installed is ``null``.

    ``warnings`` is what the packages said when they were imported.
    """
    found: dict[str, Any] = {"python": sys.version.split()[0], "warnings": _import_warnings}
    for package in ("torch", "coreai-torch", "coreai-core"):
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = None
    return json.dumps(found)


def warm_up() -> None:
    """Import what every conversion needs."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.filterwarnings("always", category=UserWarning)
        import coreai_torch  # noqa: F401
        import torch
    for warning in caught:
        text = " ".join(str(warning.message).split())
        if issubclass(warning.category, UserWarning) and text not in _import_warnings:
            _import_warnings.append(text)
        # Told where it matters; in the log of every failure it only distracts.
        if "has only been validated" not in text:
            warnings.showwarning(warning.message, warning.category, warning.filename, warning.lineno)

    torch.set_default_dtype(torch.float32)
    inputs.watch()


class Session:
    """The conversion of one recipe; call the stages in order."""

    def __init__(self, path: str, name: str, debug_info: bool) -> None:
        self.path = path
        self.name = name
        self.debug_info = debug_info
        self.recipe: Recipe | None = None
        self.facts: list[dict[str, Any]] = []
        self.programs: list[Any] = []
        self.sites: list[dict[str, list[dict[str, Any]]]] = []
        self.program: Any = None
        self.optimized = False
        inputs.begin()
        self.process = recipes.Process(path)

    def facts_json(self) -> str:
        """What is known so far; valid after a failed stage too."""
        return json.dumps({"functions": self.facts})

    def files_json(self) -> str:
        """JSON list of the files that the recipe was made from so far."""
        return json.dumps(inputs.files(self.path))

    def kind(self) -> str:
        """Which field of the recipe says what is converted."""
        recipe = self._recipe()
        return next(k for k in ("module", "exported", "program", "asset") if getattr(recipe, k) is not None)

    def load(self) -> str:
        """Call the recipe function; returns the kind of recipe."""
        try:
            self.recipe = recipes.load(self.path, self.name)
        finally:
            self.process.after_recipe()
        for recipe in self.recipe.entry_points():
            paths.register_dataclasses((tuple(recipe.args), dict(recipe.kwargs)))
            self.facts.append(signature.module_facts(recipe))
        return self.kind()

    def observe(self) -> None:
        """Watch two eager calls; before the export, which can poison later eager runs."""
        for i, recipe in enumerate(self._recipe().entry_points()):
            again = functools.partial(self._again, i)
            self.facts[i]["observed"] = observe.observe(recipe, again) if recipe.module is not None else None

    def reference(self, steps: int | None) -> tuple[str | None, list[trace.Stored]]:
        """Record the reference trace; before the export, which can poison later eager runs.

        Returns the document and its tensors, or ``None`` and the reason in the facts.
        """
        try:
            return trace.record(self._recipe(), self.again, steps)
        except trace.Unavailable as error:
            why = str(error)
        except Exception as error:
            why = observe.text(error)
        for facts in self.facts:
            facts["no_reference"] = why
        return None, []

    def export(self) -> None:
        """``torch.export.export`` for every entry point that comes as a module."""
        import torch

        for recipe, facts in zip(self._recipe().entry_points(), self.facts, strict=True):
            if recipe.module is None:
                program = recipe.exported
                # An ExportedProgram is callable too, only to say that it cannot be called.
                if not isinstance(program, torch.export.ExportedProgram) and callable(program):
                    program = program()
                if not isinstance(program, torch.export.ExportedProgram):
                    raise RecipeError(
                        "Recipe: exported must be an ExportedProgram or a callable that returns one, "
                        f"got {type(program).__name__}"
                    )
            else:
                recipe.module.train(recipe.training)
                with torch.no_grad():
                    program = torch.export.export(
                        recipe.module,
                        tuple(recipe.args),
                        dict(recipe.kwargs),
                        dynamic_shapes=recipe.dynamic_shapes,
                        strict=recipe.strict,
                    )
            self.programs.append(program)
            written = sites.mutation_sites(program)
            self.sites.append(written)
            facts["written"] = sites.by_qualified_name(program, written)
            facts["casts"] = sites.cast_pairs(program)
            facts["random"] = sites.random_ops(program)

    def decompose(self) -> None:
        """Decompose with the converter's table and read the graph signature."""
        import torch
        from coreai_torch import get_decomp_table

        table = get_decomp_table()
        for i, recipe in enumerate(self._recipe().entry_points()):
            with torch.no_grad():
                program = self.programs[i].run_decompositions(dict(table))
            self.programs[i] = program
            self.facts[i]["program"] = signature.program_facts(program, recipe.module, self.sites[i])

    def convert(self) -> None:
        """The converter; fills ``self.program``."""
        from coreai_torch import TorchConverter

        converter = TorchConverter(mode=self._mode(TorchConverter))
        for recipe, program in zip(self._recipe().entry_points(), self.programs, strict=True):
            converter.add_exported_program(
                program,
                input_names=recipe.input_names,
                output_names=recipe.output_names,
                state_names=recipe.state_names,
                entrypoint_name=recipe.entrypoint_name,
            )
        self.program = converter.to_coreai()

    def build(self) -> None:
        """For a recipe with an exporter of its own: take or call its AIProgram."""
        recipe = self._recipe()
        self.program = recipe.program() if callable(recipe.program) else recipe.program
        if not hasattr(self.program, "save_asset"):
            raise RecipeError(
                "Recipe: program must be an AIProgram or a callable that returns one, "
                f"got {type(self.program).__name__}"
            )

    def optimize(self) -> bool:
        """The separate step of coreai-torch 0.4.0 to 0.4.2, which makes the state handles."""
        step = getattr(self.program, "optimize", None)
        if step is None:
            return False
        result = step()
        if result is not None and hasattr(result, "save_asset"):
            self.program = result
        self.optimized = True
        return True

    def print_ir(self) -> str:
        """The emitted IR in MLIR's generic form.

        Local scope keeps the printer from visiting every large constant to name it: with it a program
        of any size prints in time proportional to its ops.
        """
        # Before coreai-core 1.0.0b3 the program holds it itself.
        operation = getattr(self.program, "_module", self.program)._mlir_module.operation
        return str(
            operation.get_asm(
                large_elements_limit=_ELIDE_ABOVE,
                large_resource_limit=_ELIDE_ABOVE,
                use_local_scope=True,
                print_generic_op_form=True,
                assume_verified=True,
            )
        )

    def save(self, path: str) -> None:
        """Write the asset to ``path``, which must end in ``.aimodel``."""
        self.program.save_asset(Path(path))

    def copy_asset(self, path: str) -> None:
        """For a recipe that names an asset: copy it beside the others."""
        source = Path(os.fspath(self._recipe().asset))  # type: ignore[arg-type]
        if not source.is_absolute():
            source = Path(self.path).parent / source
        if not (source / "main.mlirb").is_file():
            raise RecipeError(f"Recipe: asset {source} is not an .aimodel folder (no main.mlirb in it)")
        shutil.copytree(source, path)

    def load_program(self, path: str) -> None:
        """Read a saved asset back with coreai-core, to print its program."""
        from coreai.authoring import AIModelAsset

        self.program = AIModelAsset.load(Path(path)).program

    def close(self) -> None:
        """Undo what the recipe did to the process, and empty the tracer's caches, for the next model."""
        self.program = None
        self.programs.clear()
        self.recipe = None
        try:
            self.process.restore()
        finally:
            if "torch._dynamo" in sys.modules:
                sys.modules["torch._dynamo"].reset()

    def again(self) -> contextlib.AbstractContextManager[Recipe]:
        """The recipe, made once more and shared with nothing."""
        return recipes.another(self.path, self.name)

    @contextlib.contextmanager
    def _again(self, entry_point: int) -> Iterator[Recipe]:
        with self.again() as recipe:
            yield recipe.entry_points()[entry_point]

    def _recipe(self) -> Recipe:
        if self.recipe is None:
            raise RuntimeError("load() has not run")
        return self.recipe

    def _mode(self, converter: Any) -> Any:
        return converter.Mode.DEBUG if self.debug_info else converter.Mode.RELEASE
