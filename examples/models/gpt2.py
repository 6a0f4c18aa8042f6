"""GPT-2, from Radford et al., "Language Models are Unsupervised Multitask Learners" (2019).
The defaults are the 124M-parameter model."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Attention(nn.Module):
    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.dropout = dropout
        self.qkv = nn.Linear(width, 3 * width)
        self.project = nn.Linear(width, width)

    def split_heads(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        y = F.scaled_dot_product_attention(
            self.split_heads(q),
            self.split_heads(k),
            self.split_heads(v),
            dropout_p=self.dropout if self.training else 0.0,
            is_causal=True,
        )
        return self.project(y.transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attention = Attention(width, heads, dropout)
        self.dropout = nn.Dropout(dropout)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"), nn.Linear(4 * width, width), nn.Dropout(dropout)
        )

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.dropout(self.attention(self.norm1(x)))
        return x + self.mlp(self.norm2(x))


class Model(nn.Module):
    """Maps token ids (batch, tokens) to the next token's logits (batch, tokens, vocab)."""

    def __init__(
        self,
        *,
        vocab: int = 50257,
        context: int = 1024,
        layers: int = 12,
        width: int = 768,
        heads: int = 12,
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocab, width)
        self.positions = nn.Embedding(context, width)
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.Sequential(*(Block(width, heads, dropout) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        self.lm_head = nn.Linear(width, vocab, bias=False)
        self.lm_head.weight = self.tokens.weight
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                nn.init.normal_(module.weight, std=0.02)

    def forward(self, ids: Tensor) -> Tensor:
        positions = torch.arange(ids.size(1), device=ids.device)
        x = self.dropout(self.tokens(ids) + self.positions(positions))
        return self.lm_head(self.norm(self.blocks(x)))


def get_inputs(*, batch: int = 2, tokens: int = 128, vocab: int = 50257) -> tuple[Tensor]:
    generator = torch.Generator().manual_seed(0)
    return (torch.randint(vocab, (batch, tokens), generator=generator),)


def small() -> tuple[nn.Module, tuple[Tensor]]:
    torch.manual_seed(0)
    model = Model(vocab=61, context=16, layers=2, width=24, heads=4)
    return model, get_inputs(batch=3, tokens=10, vocab=61)
