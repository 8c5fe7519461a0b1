"""One asset with two entry points over the same caches: a chunk of a prompt, and a single step.

Both list their states in the same order; a consumer hands the same arrays to either.
"""

import torch
from coreai_audit import Recipe
from torch import nn

CONTEXT, WIDTH, CHUNK = 32, 16, 4


class Memory(nn.Module):
    """Keys and values of everything seen so far, and what both entry points do with them."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("keys", torch.zeros(1, CONTEXT, WIDTH))
        self.register_buffer("values", torch.zeros(1, CONTEXT, WIDTH))
        self.project = nn.Linear(WIDTH, 3 * WIDTH, bias=False)

    def extend(self, x: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        """Write x (1, n, WIDTH) at rows (n,), then attend over all rows up to each one's own."""
        query, key, value = self.project(x).chunk(3, -1)
        self.keys.index_copy_(1, rows, key)
        self.values.index_copy_(1, rows, value)
        scores = query @ self.keys.transpose(1, 2) / WIDTH**0.5
        later = torch.arange(CONTEXT)[None, :] > rows[:, None]
        weights = torch.softmax(scores + later.to(scores.dtype) * -10000.0, -1)
        return weights @ self.values


class Step(nn.Module):
    """One entry point: forward over the shared memory."""

    def __init__(self, memory: Memory) -> None:
        super().__init__()
        self.memory = memory

    def forward(self, x: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        return self.memory.extend(x, rows)


def two_functions() -> Recipe:
    torch.manual_seed(2)
    memory = Memory()

    def entry(name: str, count: int, functions: tuple[Recipe, ...] = ()) -> Recipe:
        return Recipe(
            module=Step(memory).eval(),
            args=(torch.randn(1, count, WIDTH), torch.arange(count)),
            input_names=["x", "rows"],
            output_names=["y"],
            state_names=["keys", "values"],
            entrypoint_name=name,
            functions=functions,
        )

    return entry("main", 1, functions=(entry("prompt", CHUNK),))
