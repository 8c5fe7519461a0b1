"""Models whose assets depend on versions: what `docs/upgrade.md` shows is made with these."""

from __future__ import annotations

import tempfile
from pathlib import Path

import torch
from coreai_audit import Recipe


class Caches(torch.nn.Module):
    """Two caches of one shape, written at a position."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("keys", torch.zeros(8, 4))
        self.register_buffer("values", torch.zeros(8, 4))

    def forward(self, row: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        self.keys.index_copy_(0, position, row)
        self.values.index_copy_(0, position, row * 2)
        return self.keys + self.values


def caches() -> Recipe:
    """Converted as the tool does: the converter's optimise step runs where there is one."""
    return Recipe(
        module=Caches().eval(),
        args=(torch.ones(1, 4), torch.tensor([1])),
        input_names=["row", "position"],
        output_names=["sum"],
        state_names=["keys", "values"],
    )


def without_optimise() -> Recipe:
    """The same, converted by a script that does not know the optimise step of 0.4.0 to 0.4.2."""
    from coreai_torch import TorchConverter, get_decomp_table

    recipe = caches()
    with torch.no_grad():
        program = torch.export.export(recipe.module, recipe.args)
        program = program.run_decompositions(get_decomp_table())
    converter = TorchConverter()
    converter.add_exported_program(
        program, input_names=["row", "position"], output_names=["sum"], state_names=["keys", "values"]
    )
    asset = Path(tempfile.mkdtemp()) / "caches.aimodel"
    converter.to_coreai().save_asset(asset)
    return Recipe(asset=asset)


def batch_norm() -> Recipe:
    """Batch norm in training mode under strict export: its running statistics are written."""
    module = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 2))
    return Recipe(
        module=module,
        args=(torch.ones(3, 4),),
        strict=True,
        training=True,
        input_names=["x"],
        output_names=["y"],
        state_names=["mean", "var", "batches"],
    )
