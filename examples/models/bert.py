"""BERT's encoder, from Devlin et al., "BERT: Pre-training of Deep Bidirectional Transformers" (2018).

The defaults are BERT-Base (uncased). The attention is spelled out as two matrix products around a softmax."""

import math

import torch
from torch import Tensor, nn


class Embeddings(nn.Module):
    def __init__(self, vocab: int, context: int, types: int, width: int, dropout: float) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocab, width)
        self.positions = nn.Embedding(context, width)
        self.types = nn.Embedding(types, width)
        self.norm = nn.LayerNorm(width, eps=1e-12)
        self.dropout = nn.Dropout(dropout)

    def forward(self, ids: Tensor, token_types: Tensor) -> Tensor:
        positions = torch.arange(ids.size(1), device=ids.device)
        x = self.tokens(ids) + self.types(token_types) + self.positions(positions)
        return self.dropout(self.norm(x))


class Attention(nn.Module):
    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.scale = 1 / math.sqrt(width // heads)
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.dropout = nn.Dropout(dropout)
        self.project = nn.Linear(width, width)

    def split_heads(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def forward(self, x: Tensor, bias: Tensor) -> Tensor:
        q = self.split_heads(self.query(x))
        k = self.split_heads(self.key(x))
        v = self.split_heads(self.value(x))
        scores = q @ k.transpose(-2, -1) * self.scale + bias
        y = self.dropout(scores.softmax(dim=-1)) @ v
        return self.project(y.transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self, width: int, heads: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.attention = Attention(width, heads, dropout)
        self.norm1 = nn.LayerNorm(width, eps=1e-12)
        self.mlp = nn.Sequential(nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, width))
        self.norm2 = nn.LayerNorm(width, eps=1e-12)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, bias: Tensor) -> Tensor:
        x = self.norm1(x + self.dropout(self.attention(x, bias)))
        return self.norm2(x + self.dropout(self.mlp(x)))


class Model(nn.Module):
    """Returns the hidden states (batch, tokens, width) and the pooled first token (batch, width).

    `attention_mask` is 1 for a token and 0 for padding."""

    def __init__(
        self,
        *,
        vocab: int = 30522,
        context: int = 512,
        types: int = 2,
        layers: int = 12,
        width: int = 768,
        heads: int = 12,
        hidden: int = 3072,
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        self.embeddings = Embeddings(vocab, context, types, width, dropout)
        self.blocks = nn.ModuleList(Block(width, heads, hidden, dropout) for _ in range(layers))
        self.pooler = nn.Sequential(nn.Linear(width, width), nn.Tanh())

    def forward(self, ids: Tensor, attention_mask: Tensor, token_types: Tensor) -> tuple[Tensor, Tensor]:
        x = self.embeddings(ids, token_types)
        # 0 where a key may be seen and a large negative number where it may not, for every head and query.
        bias = (1.0 - attention_mask[:, None, None, :].to(x.dtype)) * -10000.0
        for block in self.blocks:
            x = block(x, bias)
        return x, self.pooler(x[:, 0])


def get_inputs(*, batch: int = 2, tokens: int = 128, vocab: int = 30522) -> tuple[Tensor, Tensor, Tensor]:
    """Token ids, a mask that shortens each row by a different amount, and two segments per row."""
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(vocab, (batch, tokens), generator=generator)
    positions = torch.arange(tokens)
    lengths = tokens - torch.arange(batch)[:, None] * tokens // (2 * batch)
    attention_mask = (positions < lengths).long()
    token_types = (positions >= tokens // 2).long().expand(batch, -1).contiguous()
    return ids, attention_mask, token_types


def small() -> tuple[nn.Module, tuple[Tensor, Tensor, Tensor]]:
    torch.manual_seed(0)
    model = Model(vocab=61, context=16, layers=2, width=24, heads=4, hidden=48)
    return model, get_inputs(batch=3, tokens=10, vocab=61)
