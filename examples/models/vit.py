"""Vision Transformer, from Dosovitskiy et al., "An Image is Worth 16x16 Words" (2020). The defaults are ViT-B/16."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.project = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        # (batch, tokens, 3 * width) -> (3, batch, heads, tokens, width / heads)
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v)
        return self.project(y.transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self, width: int, heads: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width, eps=1e-6)
        self.attention = Attention(width, heads)
        self.dropout = nn.Dropout(dropout)
        self.norm2 = nn.LayerNorm(width, eps=1e-6)
        self.mlp = nn.Sequential(
            nn.Linear(width, hidden), nn.GELU(), nn.Dropout(dropout), nn.Linear(hidden, width), nn.Dropout(dropout)
        )

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.dropout(self.attention(self.norm1(x)))
        return x + self.mlp(self.norm2(x))


class Model(nn.Module):
    def __init__(
        self,
        *,
        image: int = 224,
        patch: int = 16,
        layers: int = 12,
        width: int = 768,
        heads: int = 12,
        hidden: int = 3072,
        channels: int = 3,
        classes: int = 1000,
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        self.patches = nn.Conv2d(channels, width, patch, stride=patch)
        self.class_token = nn.Parameter(torch.randn(1, 1, width) * 0.02)
        self.positions = nn.Parameter(torch.randn(1, (image // patch) ** 2 + 1, width) * 0.02)
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.Sequential(*(Block(width, heads, hidden, dropout) for _ in range(layers)))
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.head = nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat((self.class_token.expand(x.size(0), -1, -1), x), dim=1)
        x = self.blocks(self.dropout(x + self.positions))
        return self.head(self.norm(x)[:, 0])


def get_inputs(*, batch: int = 4, size: int = 224) -> tuple[Tensor]:
    generator = torch.Generator().manual_seed(0)
    return (torch.randn(batch, 3, size, size, generator=generator),)


def small() -> tuple[nn.Module, tuple[Tensor]]:
    torch.manual_seed(0)
    model = Model(image=16, patch=4, layers=2, width=24, heads=4, hidden=48, classes=10)
    return model, get_inputs(batch=3, size=16)
