"""Convert PyTorch models to Core AI assets and audit what came out.

``Recipe`` describes a conversion; the command ``coreai-audit`` (or ``python -m coreai_audit``) does the
rest. Importing this package imports neither torch nor numpy.
"""

from .recipe import Call, Recipe, RecipeError

__all__ = ["Call", "Recipe", "RecipeError"]
