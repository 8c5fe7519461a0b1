"""A two-layer decoder with the contract that language-model engines expect.

Inputs ``input_ids`` (the new tokens) and ``position_ids`` (the whole running vector 0 … n-1); output
``logits`` in float16; states ``keyCache`` and ``valueCache`` of shape (layers, batch, key/value heads,
context, head dimension) with a dynamic context. The caches are arguments, because a registered buffer
cannot have a dynamic dimension.
"""

import torch
from coreai_audit import Recipe
from torch import nn
from torch.export import Dim
from torch.nn import functional as F

LAYERS, HIDDEN, HEADS, KV_HEADS, HEAD_DIM, INTERMEDIATE, VOCABULARY, CONTEXT = 2, 64, 4, 2, 16, 128, 256, 128


def rotate(x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    """Rotary position embedding of x (1, heads, tokens, HEAD_DIM) at positions (1, tokens)."""
    half = HEAD_DIM // 2
    frequency = 10000.0 ** (-torch.arange(half, dtype=torch.float32) / half)
    angle = positions[:, None, :, None].to(torch.float32) * frequency
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    first, second = x[..., :half], x[..., half:]
    return torch.cat([first * cos - second * sin, second * cos + first * sin], -1)


class Layer(nn.Module):
    """Attention over the cache, then a gated feed-forward."""

    def __init__(self) -> None:
        super().__init__()
        self.before_attention = nn.RMSNorm(HIDDEN)
        self.query = nn.Linear(HIDDEN, HEADS * HEAD_DIM, bias=False)
        self.key = nn.Linear(HIDDEN, KV_HEADS * HEAD_DIM, bias=False)
        self.value = nn.Linear(HIDDEN, KV_HEADS * HEAD_DIM, bias=False)
        self.output = nn.Linear(HEADS * HEAD_DIM, HIDDEN, bias=False)
        self.before_mlp = nn.RMSNorm(HIDDEN)
        self.gate = nn.Linear(HIDDEN, INTERMEDIATE, bias=False)
        self.up = nn.Linear(HIDDEN, INTERMEDIATE, bias=False)
        self.down = nn.Linear(INTERMEDIATE, HIDDEN, bias=False)

    def forward(
        self,
        x: torch.Tensor,
        positions: torch.Tensor,
        mask: torch.Tensor,
        keys: torch.Tensor,
        values: torch.Tensor,
    ) -> torch.Tensor:
        """x (1, new, HIDDEN); keys and values are this layer's caches (1, KV_HEADS, context, HEAD_DIM)."""
        new, total = x.shape[1], positions.shape[1]
        # The rows to write follow from the shapes alone: no runtime data decides an address.
        offset = total - new
        h = self.before_attention(x)
        query = self.query(h).reshape(1, new, HEADS, HEAD_DIM).transpose(1, 2)
        key = self.key(h).reshape(1, new, KV_HEADS, HEAD_DIM).transpose(1, 2)
        value = self.value(h).reshape(1, new, KV_HEADS, HEAD_DIM).transpose(1, 2)
        query = rotate(query, positions[:, offset:])
        keys[:, :, offset:total] = rotate(key, positions[:, offset:])
        values[:, :, offset:total] = value
        attended = F.scaled_dot_product_attention(
            query, keys[:, :, :total], values[:, :, :total], attn_mask=mask, enable_gqa=True
        )
        x = x + self.output(attended.transpose(1, 2).reshape(1, new, HEADS * HEAD_DIM))
        h = self.before_mlp(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Decoder(nn.Module):
    """Token embedding, layers, and logits."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, HIDDEN)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm = nn.RMSNorm(HIDDEN)
        self.head = nn.Linear(HIDDEN, VOCABULARY, bias=False)

    def forward(
        self,
        input_ids: torch.Tensor,
        position_ids: torch.Tensor,
        key_cache: torch.Tensor,
        value_cache: torch.Tensor,
    ) -> torch.Tensor:
        new, total = input_ids.shape[1], position_ids.shape[1]
        x = self.embedding(input_ids)
        mask = position_ids[:, None, None, :] <= position_ids[:, None, total - new :, None]
        for index, layer in enumerate(self.layers):
            x = layer(x, position_ids, mask, key_cache[index], value_cache[index])
        return self.head(self.norm(x))


def decoder() -> Recipe:
    torch.manual_seed(7)
    new, total = Dim("new", max=CONTEXT), Dim("total", min=3, max=4096)
    context = Dim("context", min=3, max=4096)
    # One tensor each for all calls: what a step writes, the next one finds.
    keys, values = (
        torch.zeros(LAYERS, 1, KV_HEADS, CONTEXT, HEAD_DIM, dtype=torch.float16) for _ in range(2)
    )

    def call(start: int, count: int) -> tuple[torch.Tensor, ...]:
        """The arguments for ``count`` tokens after ``start`` others."""
        return (
            torch.randint(VOCABULARY, (1, count), dtype=torch.int32),
            torch.arange(start + count, dtype=torch.int32)[None],
            keys,
            values,
        )

    return Recipe(
        module=Decoder().half().eval(),
        args=call(8, 16),
        calls=[call(0, 8), call(8, 1), call(9, 1), call(10, 1)],
        dynamic_shapes=({1: new}, {1: total}, {3: context}, {3: context}),
        input_names=["input_ids", "position_ids"],
        output_names=["logits"],
        state_names=["keyCache", "valueCache"],
    )
