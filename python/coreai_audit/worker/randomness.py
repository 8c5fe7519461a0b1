"""The generators that a module may draw from: torch's, Python's and numpy's global ones."""

from __future__ import annotations

import random
import sys
from typing import Any


def seed(value: int) -> None:
    """Seed all of them."""
    import torch

    torch.manual_seed(value)
    random.seed(value)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(value % 2**32)


def states() -> tuple[Any, ...]:
    """Where each stands; two such values are equal when nothing was drawn in between."""
    import torch

    numpy = sys.modules.get("numpy")
    drawn: tuple[Any, ...] = ()
    if numpy is not None:
        name, key, *rest = numpy.random.get_state()
        drawn = (name, key.tobytes(), *rest)
    return bytes(torch.get_rng_state().tolist()), random.getstate(), drawn
