"""Convert PyTorch models to Core AI assets and audit what came out.

``Recipe`` describes a conversion; the command ``coreai-audit`` (or ``python -m coreai_audit``) does the
rest. ``inspect``, ``contract`` and ``diff`` read assets from Python, ``Model`` runs them. Importing this
package imports neither torch nor numpy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .recipe import Call, Recipe, RecipeError

if TYPE_CHECKING:
    from .asset import Asset, AuditError, Change, Contract, Function, Port, Source, State
    from .asset import contract as contract
    from .asset import diff as diff
    from .asset import inspect as inspect
    from .runtime import Model, ModelFunction, RunError, Value

__all__ = [
    "Asset",
    "AuditError",
    "Call",
    "Change",
    "Contract",
    "Function",
    "Model",
    "ModelFunction",
    "Port",
    "Recipe",
    "RecipeError",
    "RunError",
    "Source",
    "State",
    "Value",
    "contract",
    "diff",
    "inspect",
]


def __getattr__(name: str) -> Any:
    """Load the rest when it is first asked for: a recipe needs none of it."""
    if name in ("Model", "ModelFunction", "RunError", "Value"):
        from . import runtime

        return getattr(runtime, name)
    if name in __all__:
        from . import asset

        return getattr(asset, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
