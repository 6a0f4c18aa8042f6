"""A multilayer perceptron with dropout, after Srivastava et al., "Dropout: A Simple Way to Prevent Neural Networks
from Overfitting" (2014). The defaults are that paper's three-layer network for MNIST."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn


class Model(nn.Module):
    def __init__(
        self,
        *,
        features: int = 784,
        hidden: Sequence[int] = (1024, 1024, 1024),
        classes: int = 10,
        input_dropout: float = 0.2,
        dropout: float = 0.5,
    ) -> None:
        super().__init__()
        layers: list[nn.Module] = [nn.Dropout(input_dropout)]
        width = features
        for next_width in hidden:
            layers += [nn.Linear(width, next_width), nn.ReLU(), nn.Dropout(dropout)]
            width = next_width
        self.layers = nn.Sequential(*layers)
        self.head = nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.layers(x))


def get_inputs(*, batch: int = 32, features: int = 784) -> tuple[Tensor]:
    generator = torch.Generator().manual_seed(0)
    return (torch.randn(batch, features, generator=generator),)


def small() -> tuple[nn.Module, tuple[Tensor]]:
    torch.manual_seed(0)
    return Model(features=12, hidden=(16, 8), classes=5), get_inputs(batch=3, features=12)
