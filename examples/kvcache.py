"""Two buffers and one argument that forward writes in place: three states, two inputs, two outputs."""

import torch
from coreai_audit import Recipe
from torch import nn


class KVCache(nn.Module):
    """The smallest module with both kinds of state."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("kv_cache", torch.zeros(1, 4))
        self.register_buffer("pos_idx", torch.zeros(1))

    def forward(self, x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        self.kv_cache.add_(x)
        self.pos_idx.add_(1)
        # y is written in place, so it is a state and no input.
        y.mul_(2)
        return self.kv_cache + y, z * 3


def kvcache() -> Recipe:
    """Buffers come first, then the written argument: that is the order of state_names."""
    return Recipe(
        module=KVCache().eval(),
        args=(torch.randn(1, 4), torch.randn(1, 4), torch.randn(1, 4)),
        input_names=["query", "context"],
        output_names=["attn_out", "scaled"],
        state_names=["kv_cache", "pos_idx", "y_state"],
    )
