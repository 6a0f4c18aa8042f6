"""MobileNetV3, from Howard et al., "Searching for MobileNetV3" (2019). The defaults are MobileNetV3-Large."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn


class BlockConfig(NamedTuple):
    kernel: int
    expanded: int
    outputs: int
    squeeze: bool
    hardswish: bool
    stride: int


LARGE = (
    BlockConfig(3, 16, 16, False, False, 1),
    BlockConfig(3, 64, 24, False, False, 2),
    BlockConfig(3, 72, 24, False, False, 1),
    BlockConfig(5, 72, 40, True, False, 2),
    BlockConfig(5, 120, 40, True, False, 1),
    BlockConfig(5, 120, 40, True, False, 1),
    BlockConfig(3, 240, 80, False, True, 2),
    BlockConfig(3, 200, 80, False, True, 1),
    BlockConfig(3, 184, 80, False, True, 1),
    BlockConfig(3, 184, 80, False, True, 1),
    BlockConfig(3, 480, 112, True, True, 1),
    BlockConfig(3, 672, 112, True, True, 1),
    BlockConfig(5, 672, 160, True, True, 2),
    BlockConfig(5, 960, 160, True, True, 1),
    BlockConfig(5, 960, 160, True, True, 1),
)


def conv_norm(inputs: int, outputs: int, kernel: int = 1, stride: int = 1, groups: int = 1) -> list[nn.Module]:
    return [
        nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outputs, eps=1e-3, momentum=0.01),
    ]


class SqueezeExcite(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        # A quarter of the width, rounded up to a multiple of 8.
        squeezed = math.ceil(width / 32) * 8
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.squeeze = nn.Conv2d(width, squeezed, 1)
        self.relu = nn.ReLU()
        self.excite = nn.Conv2d(squeezed, width, 1)
        self.gate = nn.Hardsigmoid()

    def forward(self, x: Tensor) -> Tensor:
        return x * self.gate(self.excite(self.relu(self.squeeze(self.pool(x)))))


class InvertedResidual(nn.Module):
    def __init__(self, inputs: int, config: BlockConfig) -> None:
        super().__init__()
        activation = nn.Hardswish if config.hardswish else nn.ReLU
        width = config.expanded
        layers: list[nn.Module] = []
        if width != inputs:
            layers += [*conv_norm(inputs, width), activation()]
        layers += [*conv_norm(width, width, config.kernel, config.stride, groups=width), activation()]
        if config.squeeze:
            layers.append(SqueezeExcite(width))
        layers += conv_norm(width, config.outputs)
        self.layers = nn.Sequential(*layers)
        self.residual = config.stride == 1 and inputs == config.outputs

    def forward(self, x: Tensor) -> Tensor:
        y = self.layers(x)
        return x + y if self.residual else y


class Model(nn.Module):
    def __init__(
        self,
        *,
        blocks: Sequence[BlockConfig] = LARGE,
        stem: int = 16,
        features: int = 960,
        hidden: int = 1280,
        channels: int = 3,
        classes: int = 1000,
        dropout: float = 0.2,
    ) -> None:
        super().__init__()
        layers: list[nn.Module] = [*conv_norm(channels, stem, 3, stride=2), nn.Hardswish()]
        width = stem
        for config in blocks:
            layers.append(InvertedResidual(width, config))
            width = config.outputs
        layers += [*conv_norm(width, features), nn.Hardswish(), nn.AdaptiveAvgPool2d(1)]
        self.features = nn.Sequential(*layers)
        self.head = nn.Sequential(nn.Linear(features, hidden), nn.Hardswish(), nn.Dropout(dropout), nn.Linear(hidden, classes))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.features(x).flatten(1))


def get_inputs(*, batch: int = 4, size: int = 224) -> tuple[Tensor]:
    generator = torch.Generator().manual_seed(0)
    return (torch.randn(batch, 3, size, size, generator=generator),)


def small() -> tuple[nn.Module, tuple[Tensor]]:
    torch.manual_seed(0)
    blocks = (
        BlockConfig(3, 8, 8, False, False, 1),
        BlockConfig(5, 16, 12, True, True, 2),
        BlockConfig(3, 24, 12, True, False, 1),
    )
    return Model(blocks=blocks, stem=8, features=24, hidden=16, classes=10), get_inputs(batch=3, size=32)
