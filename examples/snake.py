"""A game player: a small transformer over feature vectors, one move a call, with fixed-size caches."""

import math

import torch
from coreai_audit import Recipe
from torch import nn

CONTEXT, FEATURES, HIDDEN, HEADS, MOVES = 64, 12, 32, 4, 4
# Large and finite: minus infinity is not safe on every engine.
HIDDEN_FROM_VIEW = -10000.0


class SnakeTransformer(nn.Module):
    """One layer of attention over the game so far."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("key_cache", torch.zeros(CONTEXT, HEADS, HIDDEN // HEADS))
        self.register_buffer("value_cache", torch.zeros(CONTEXT, HEADS, HIDDEN // HEADS))
        self.embed = nn.Linear(FEATURES, HIDDEN)
        self.query = nn.Linear(HIDDEN, HIDDEN)
        self.key = nn.Linear(HIDDEN, HIDDEN)
        self.value = nn.Linear(HIDDEN, HIDDEN)
        self.head = nn.Sequential(nn.Linear(HIDDEN, HIDDEN), nn.GELU(), nn.Linear(HIDDEN, MOVES))

    def forward(self, features: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        """``features`` (1, FEATURES) of this move, ``position`` (1,) its number; returns (1, MOVES)."""
        x = self.embed(features)
        shape = (1, HEADS, HIDDEN // HEADS)
        query = self.query(x).reshape(shape)
        # Write first: this move's own key and value take part in the attention.
        self.key_cache.index_copy_(0, position, self.key(x).reshape(shape))
        self.value_cache.index_copy_(0, position, self.value(x).reshape(shape))
        scores = (self.key_cache * query).sum(-1) / math.sqrt(HIDDEN // HEADS)
        later = torch.arange(CONTEXT) > position
        scores = scores + later.to(scores.dtype)[:, None] * HIDDEN_FROM_VIEW
        weights = torch.softmax(scores, 0)
        attended = (weights[:, :, None] * self.value_cache).sum(0).reshape(1, HIDDEN)
        return self.head(x + attended)


def snake() -> Recipe:
    torch.manual_seed(324)
    return Recipe(
        module=SnakeTransformer().eval(),
        args=(torch.randn(1, FEATURES), torch.tensor([0])),
        calls=[(torch.randn(1, FEATURES), torch.tensor([step])) for step in range(4)],
        input_names=["features", "position"],
        output_names=["move"],
        state_names=["key_cache", "value_cache"],
    )
