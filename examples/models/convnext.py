"""ConvNeXt, from Liu et al., "A ConvNet for the 2020s" (2022). The defaults are ConvNeXt-S."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class ChannelNorm(nn.LayerNorm):
    """A layer norm over the channels of an NCHW tensor."""

    def forward(self, input: Tensor) -> Tensor:
        return super().forward(input.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class DropPath(nn.Module):
    """Stochastic depth: drops a residual branch for whole samples at a time."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, x: Tensor) -> Tensor:
        keep = x.new_ones((x.size(0), 1, 1, 1))
        return x * F.dropout(keep, self.rate, self.training)


class Block(nn.Module):
    def __init__(self, width: int, drop_path: float, layer_scale: float) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.expand = nn.Linear(width, 4 * width)
        self.gelu = nn.GELU()
        self.project = nn.Linear(4 * width, width)
        self.scale = nn.Parameter(torch.full((width,), layer_scale))
        self.drop_path = DropPath(drop_path) if drop_path > 0 else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        y = self.depthwise(x).permute(0, 2, 3, 1)
        y = self.project(self.gelu(self.expand(self.norm(y))))
        return x + self.drop_path((self.scale * y).permute(0, 3, 1, 2))


class Model(nn.Module):
    def __init__(
        self,
        *,
        depths: Sequence[int] = (3, 3, 27, 3),
        dims: Sequence[int] = (96, 192, 384, 768),
        channels: int = 3,
        classes: int = 1000,
        drop_path: float = 0.4,
        layer_scale: float = 1e-6,
    ) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for stage, (depth, width) in enumerate(zip(depths, dims, strict=True)):
            if stage == 0:
                layers += [nn.Conv2d(channels, width, 4, stride=4), ChannelNorm(width, eps=1e-6)]
            else:
                previous = dims[stage - 1]
                layers += [ChannelNorm(previous, eps=1e-6), nn.Conv2d(previous, width, 2, stride=2)]
            first = sum(depths[:stage])
            for index in range(first, first + depth):
                # The rate grows linearly from zero at the first block.
                layers.append(Block(width, drop_path * index / max(sum(depths) - 1, 1), layer_scale))
        self.layers = nn.Sequential(*layers)
        self.norm = nn.LayerNorm(dims[-1], eps=1e-6)
        self.head = nn.Linear(dims[-1], classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d | nn.Linear):
                nn.init.trunc_normal_(module.weight, std=0.02)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)

    def forward(self, x: Tensor) -> Tensor:
        x = self.layers(x).mean(dim=(-2, -1))
        return self.head(self.norm(x))


def get_inputs(*, batch: int = 4, size: int = 224) -> tuple[Tensor]:
    generator = torch.Generator().manual_seed(0)
    return (torch.randn(batch, 3, size, size, generator=generator),)


def small() -> tuple[nn.Module, tuple[Tensor]]:
    torch.manual_seed(0)
    model = Model(depths=(1, 2), dims=(8, 16), classes=10, drop_path=0.2, layer_scale=0.5)
    return model, get_inputs(batch=3, size=32)
