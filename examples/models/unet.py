"""A diffusion U-Net, from Ho et al., "Denoising Diffusion Probabilistic Models" (2020), without its attention layers.
The defaults are that paper's widths for CIFAR-10."""

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class TimeEmbedding(nn.Module):
    """Sinusoids of a step number, then two linear layers."""

    frequencies: Tensor

    def __init__(self, width: int, outputs: int) -> None:
        super().__init__()
        frequencies = torch.exp(torch.arange(width // 2) * (-math.log(10000) / (width // 2)))
        self.register_buffer("frequencies", frequencies, persistent=False)
        self.mlp = nn.Sequential(nn.Linear(width, outputs), nn.SiLU(), nn.Linear(outputs, outputs))

    def forward(self, steps: Tensor) -> Tensor:
        angles = steps[:, None] * self.frequencies
        return self.mlp(torch.cat((angles.sin(), angles.cos()), dim=-1))


class ResBlock(nn.Module):
    def __init__(self, inputs: int, outputs: int, time_width: int, groups: int, dropout: float) -> None:
        super().__init__()
        self.norm1 = nn.GroupNorm(groups, inputs)
        self.conv1 = nn.Conv2d(inputs, outputs, 3, padding=1)
        self.time = nn.Linear(time_width, outputs)
        self.norm2 = nn.GroupNorm(groups, outputs)
        self.dropout = nn.Dropout(dropout)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1)
        self.shortcut = nn.Identity() if inputs == outputs else nn.Conv2d(inputs, outputs, 1)

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        y = self.conv1(F.silu(self.norm1(x)))
        y = y + self.time(F.silu(time))[:, :, None, None]
        y = self.conv2(self.dropout(F.silu(self.norm2(y))))
        return y + self.shortcut(x)


class Upsample(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(width, width, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(F.interpolate(x, scale_factor=2.0, mode="nearest"))


class Model(nn.Module):
    """Maps noisy images (batch, channels, height, width) and step numbers (batch,) to the predicted noise.

    Height and width must be multiples of 2 ** (len(widths) - 1)."""

    def __init__(
        self,
        *,
        channels: int = 3,
        widths: Sequence[int] = (128, 256, 256, 256),
        blocks: int = 2,
        groups: int = 32,
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        time_width = 4 * widths[0]
        self.time = TimeEmbedding(widths[0], time_width)
        self.stem = nn.Conv2d(channels, widths[0], 3, padding=1)
        self.down = nn.ModuleList()
        self.up = nn.ModuleList()
        width = widths[0]
        skips = [width]
        for level, outputs in enumerate(widths):
            for _ in range(blocks):
                self.down.append(ResBlock(width, outputs, time_width, groups, dropout))
                width = outputs
                skips.append(width)
            if level < len(widths) - 1:
                self.down.append(nn.Conv2d(width, width, 3, stride=2, padding=1))
                skips.append(width)
        self.middle = ResBlock(width, width, time_width, groups, dropout)
        for level, outputs in reversed(list(enumerate(widths))):
            for _ in range(blocks + 1):
                self.up.append(ResBlock(width + skips.pop(), outputs, time_width, groups, dropout))
                width = outputs
            if level > 0:
                self.up.append(Upsample(width))
        self.norm = nn.GroupNorm(groups, width)
        self.head = nn.Conv2d(width, channels, 3, padding=1)

    def forward(self, x: Tensor, steps: Tensor) -> Tensor:
        time = self.time(steps)
        x = self.stem(x)
        skips = [x]
        for layer in self.down:
            x = layer(x, time) if isinstance(layer, ResBlock) else layer(x)
            skips.append(x)
        x = self.middle(x, time)
        for layer in self.up:
            x = layer(torch.cat((x, skips.pop()), dim=1), time) if isinstance(layer, ResBlock) else layer(x)
        return self.head(F.silu(self.norm(x)))


def get_inputs(*, batch: int = 4, size: int = 32, steps: int = 1000) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(batch, 3, size, size, generator=generator)
    return x, torch.randint(steps, (batch,), generator=generator)


def small() -> tuple[nn.Module, tuple[Tensor, Tensor]]:
    torch.manual_seed(0)
    return Model(widths=(8, 16), blocks=1, groups=4), get_inputs(batch=3, size=12)
