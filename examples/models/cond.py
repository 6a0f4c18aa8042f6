"""A residual network that decides per batch which half of each block to run, after Wang et al., "SkipNet: Learning
Dynamic Routing in Convolutional Networks" (2018). The choice is a `torch.cond` on a tensor, and both branches close
over parameters."""

import torch
from torch import Tensor, nn


class Block(nn.Module):
    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.gate = nn.Linear(width, 1, bias=False)
        self.up = nn.Linear(width, hidden)
        self.down = nn.Linear(hidden, width)
        self.shortcut = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        def deep(x: Tensor) -> Tensor:
            return self.down(torch.relu(self.up(x)))

        def shallow(x: Tensor) -> Tensor:
            return self.shortcut(x)

        # The gate scales what it chooses, and so gets a gradient.
        gate = self.gate(x).sigmoid()
        return x + gate * torch.cond(gate.mean() > 0.5, deep, shallow, (self.norm(x),))


class Model(nn.Module):
    def __init__(
        self, *, features: int = 784, width: int = 512, hidden: int = 2048, layers: int = 6, classes: int = 10
    ) -> None:
        super().__init__()
        self.stem = nn.Linear(features, width, bias=False)
        self.blocks = nn.Sequential(*(Block(width, hidden) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.norm(self.blocks(self.stem(x))))


def get_inputs(*, batch: int = 32, features: int = 784) -> tuple[Tensor]:
    """Negating the input makes the first block take its other branch."""
    generator = torch.Generator().manual_seed(0)
    return (torch.randn(batch, features, generator=generator),)


def small() -> tuple[nn.Module, tuple[Tensor]]:
    # With this seed the two blocks take different branches, and each takes the other when the input is negated.
    torch.manual_seed(10)
    return Model(features=12, width=16, hidden=24, layers=2, classes=5), get_inputs(batch=3, features=12)
