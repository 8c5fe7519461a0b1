"""Recipes for coreai-audit: what to convert, and under which names.

A recipe is a function without arguments that returns a Recipe. It runs in a worker process, so it may
load weights and take its time.
"""

import torch
from torch import nn

from coreai_audit import Recipe


class RunningMean(nn.Module):
    """Replace this with your model: a mean over everything seen so far."""

    def __init__(self) -> None:
        super().__init__()
        # A registered buffer that forward writes in place becomes a state of the asset.
        self.register_buffer("total", torch.zeros(1, 4))
        self.register_buffer("count", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.total.add_(x)
        self.count.add_(1)
        # Return a new tensor: a state that is returned as it is vanishes from the outputs.
        return self.total / self.count


def example() -> Recipe:
    return Recipe(
        module=RunningMean().eval(),
        # Example arguments; kwargs={...} for arguments by keyword, in forward's order.
        args=(torch.randn(1, 4),),
        # dynamic_shapes as for torch.export.export, for extents that vary from call to call:
        # dynamic_shapes={"x": {0: torch.export.Dim("batch", min=1, max=64)}},
        # Arguments that forward does not write, in its order.
        input_names=["x"],
        # What forward returns, in order.
        output_names=["mean"],
        # Written buffers in the order they are registered, then written arguments. Consumers index
        # states by position, so this order is what the gate watches over.
        state_names=["total", "count"],
    )
