"""A small convolutional classifier: no states at all, which the recipe asserts."""

import torch
from coreai_audit import Recipe
from torch import nn


class Classifier(nn.Module):
    """Two convolutions with batch norm, pooling, and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(8, 16, 3, padding=1),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
        )
        self.head = nn.Linear(16, 10)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return self.head(self.features(image).flatten(1))


def classifier() -> Recipe:
    torch.manual_seed(10)
    return Recipe(
        module=Classifier().eval(),
        args=(torch.randn(1, 3, 32, 32),),
        input_names=["image"],
        output_names=["scores"],
        # An empty list asserts that there are none.
        state_names=[],
    )
