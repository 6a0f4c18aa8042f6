"""A mixture-of-experts language model with top-k routing and a fixed expert capacity, after Lepikhin et al.,
"GShard: Scaling Giant Models with Conditional Computation" (2020). The defaults are about the size of GPT-2 with
every other feed-forward layer replaced by eight experts.

Which tokens an expert gets depends on the data; how many does not, so every shape is static."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.project = nn.Linear(width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.project(y.transpose(1, 2).flatten(2))


class Experts(nn.Module):
    """A feed-forward layer of `experts` experts, of which each token uses its `top_k` best.

    An expert takes `slots / experts` of the tokens, those that want it most; a token over that capacity skips it."""

    def __init__(self, width: int, hidden: int, experts: int, top_k: int, slots: int) -> None:
        super().__init__()
        self.experts = experts
        self.top_k = top_k
        self.slots = slots
        self.router = nn.Linear(width, experts, bias=False)
        self.up = nn.Parameter(torch.randn(experts, width, hidden) / math.sqrt(width))
        self.down = nn.Parameter(torch.randn(experts, hidden, width) / math.sqrt(hidden))

    def forward(self, x: Tensor) -> Tensor:
        tokens = x.flatten(0, 1)
        gates, chosen = self.router(tokens).softmax(dim=-1).topk(self.top_k, dim=-1)
        gates = gates / gates.sum(dim=-1, keepdim=True)
        # (experts, tokens), zero where a token did not choose an expert.
        scores = gates.new_zeros((tokens.size(0), self.experts)).scatter(1, chosen, gates).t()
        capacity = tokens.size(0) * self.slots // self.experts
        weights, taken = scores.topk(capacity, dim=1)
        y = torch.bmm(tokens[taken], self.up)
        y = torch.bmm(F.gelu(y), self.down) * weights[:, :, None]
        combined = torch.zeros_like(tokens).index_add(0, taken.flatten(), y.flatten(0, 1))
        return combined.view_as(x)


class Block(nn.Module):
    def __init__(self, width: int, heads: int, mlp: nn.Module, dropout: float) -> None:
        super().__init__()
        self.norm1 = nn.RMSNorm(width, eps=1e-6)
        self.attention = Attention(width, heads)
        self.norm2 = nn.RMSNorm(width, eps=1e-6)
        self.mlp = mlp
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.dropout(self.attention(self.norm1(x)))
        return x + self.dropout(self.mlp(self.norm2(x)))


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
        hidden: int = 3072,
        experts: int = 8,
        top_k: int = 2,
        slots: int = 3,
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocab, width)
        self.positions = nn.Embedding(context, width)
        blocks: list[nn.Module] = []
        for index in range(layers):
            if index % 2 == 0:
                mlp = nn.Sequential(nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, width))
            else:
                mlp = Experts(width, hidden, experts, top_k, slots)
            blocks.append(Block(width, heads, mlp, dropout))
        self.blocks = nn.Sequential(*blocks)
        self.norm = nn.RMSNorm(width, eps=1e-6)
        self.lm_head = nn.Linear(width, vocab, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        positions = torch.arange(ids.size(1), device=ids.device)
        x = self.tokens(ids) + self.positions(positions)
        return self.lm_head(self.norm(self.blocks(x)))


def get_inputs(*, batch: int = 2, tokens: int = 128, vocab: int = 50257) -> tuple[Tensor]:
    generator = torch.Generator().manual_seed(0)
    return (torch.randint(vocab, (batch, tokens), generator=generator),)


def small() -> tuple[nn.Module, tuple[Tensor]]:
    torch.manual_seed(0)
    model = Model(vocab=61, context=16, layers=2, width=24, heads=4, hidden=32, experts=4, slots=2)
    return model, get_inputs(batch=3, tokens=8, vocab=61)
