"""ResNet, from He et al., "Deep Residual Learning for Image Recognition" (2015).

The defaults are ResNet-50, with the stride on the 3x3 convolution as is now usual;
`Model(block=BasicBlock, depths=(2, 2, 2, 2))` is ResNet-18."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn


class ConvNorm(nn.Sequential):
    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int = 1) -> None:
        super().__init__(nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, bias=False), nn.BatchNorm2d(outputs))


class BasicBlock(nn.Module):
    expansion = 1

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = ConvNorm(inputs, width, 3, stride)
        self.conv2 = ConvNorm(width, width, 3)
        self.relu = nn.ReLU(inplace=True)
        same = stride == 1 and inputs == width
        self.shortcut = nn.Identity() if same else ConvNorm(inputs, width, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        y = self.relu(self.conv1(x))
        return self.relu(self.conv2(y) + self.shortcut(x))


class Bottleneck(nn.Module):
    expansion = 4

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = width * self.expansion
        self.conv1 = ConvNorm(inputs, width, 1)
        self.conv2 = ConvNorm(width, width, 3, stride)
        self.conv3 = ConvNorm(width, outputs, 1)
        self.relu = nn.ReLU(inplace=True)
        same = stride == 1 and inputs == outputs
        self.shortcut = nn.Identity() if same else ConvNorm(inputs, outputs, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        y = self.relu(self.conv1(x))
        y = self.relu(self.conv2(y))
        return self.relu(self.conv3(y) + self.shortcut(x))


class Model(nn.Module):
    def __init__(
        self,
        *,
        block: type[BasicBlock] | type[Bottleneck] = Bottleneck,
        depths: Sequence[int] = (3, 4, 6, 3),
        width: int = 64,
        channels: int = 3,
        classes: int = 1000,
    ) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            ConvNorm(channels, width, 7, stride=2), nn.ReLU(inplace=True), nn.MaxPool2d(3, stride=2, padding=1)
        )
        blocks: list[nn.Module] = []
        inputs = width
        for stage, depth in enumerate(depths):
            stage_width = width * 2**stage
            for index in range(depth):
                stride = 2 if stage > 0 and index == 0 else 1
                blocks.append(block(inputs, stage_width, stride))
                inputs = stage_width * block.expansion
        self.blocks = nn.Sequential(*blocks)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(inputs, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: Tensor) -> Tensor:
        x = self.blocks(self.stem(x))
        return self.head(self.pool(x).flatten(1))


def get_inputs(*, batch: int = 4, size: int = 224) -> tuple[Tensor]:
    generator = torch.Generator().manual_seed(0)
    return (torch.randn(batch, 3, size, size, generator=generator),)


def small() -> tuple[nn.Module, tuple[Tensor]]:
    torch.manual_seed(0)
    return Model(depths=(1, 2), width=8, classes=10), get_inputs(batch=3, size=32)
