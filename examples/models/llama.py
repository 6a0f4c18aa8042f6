"""A Llama 2 decoder with grouped-query attention, from Touvron et al., "Llama 2: Open Foundation and Fine-Tuned
Chat Models" (2023). The defaults are the 1.1B-parameter TinyLlama.

The key-value cache is functional: it comes in as inputs of a fixed length and goes out as new tensors."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

LayerCache = tuple[Tensor, Tensor]
Cache = tuple[LayerCache, ...]


class RMSNorm(nn.Module):
    def __init__(self, width: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        y = x.float()
        y = y * torch.rsqrt(y.pow(2).mean(dim=-1, keepdim=True) + self.eps)
        return self.weight * y.to(x.dtype)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary position embedding, pairing each channel of the first half with one of the second."""
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-second, first), dim=-1) * sin


class Attention(nn.Module):
    def __init__(self, width: int, heads: int, kv_heads: int) -> None:
        super().__init__()
        head_width = width // heads
        self.heads = heads
        self.kv_heads = kv_heads
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, kv_heads * head_width, bias=False)
        self.value = nn.Linear(width, kv_heads * head_width, bias=False)
        self.project = nn.Linear(width, width, bias=False)

    def forward(
        self, x: Tensor, cos: Tensor, sin: Tensor, mask: Tensor, positions: Tensor, cache: LayerCache
    ) -> tuple[Tensor, LayerCache]:
        q = rotate(self.query(x).unflatten(-1, (self.heads, -1)).transpose(1, 2), cos, sin)
        k = rotate(self.key(x).unflatten(-1, (self.kv_heads, -1)).transpose(1, 2), cos, sin)
        v = self.value(x).unflatten(-1, (self.kv_heads, -1)).transpose(1, 2)
        old_keys, old_values = cache
        keys = old_keys.index_copy(2, positions, k)
        values = old_values.index_copy(2, positions, v)
        group = self.heads // self.kv_heads
        y = F.scaled_dot_product_attention(
            q, keys.repeat_interleave(group, dim=1), values.repeat_interleave(group, dim=1), attn_mask=mask
        )
        return self.project(y.transpose(1, 2).flatten(2)), (keys, values)


class SwiGLU(nn.Module):
    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.gate = nn.Linear(width, hidden, bias=False)
        self.up = nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Block(nn.Module):
    def __init__(self, width: int, heads: int, kv_heads: int, hidden: int) -> None:
        super().__init__()
        self.norm1 = RMSNorm(width)
        self.attention = Attention(width, heads, kv_heads)
        self.norm2 = RMSNorm(width)
        self.mlp = SwiGLU(width, hidden)

    def forward(
        self, x: Tensor, cos: Tensor, sin: Tensor, mask: Tensor, positions: Tensor, cache: LayerCache
    ) -> tuple[Tensor, LayerCache]:
        y, cache = self.attention(self.norm1(x), cos, sin, mask, positions, cache)
        x = x + y
        return x + self.mlp(self.norm2(x)), cache


class Model(nn.Module):
    """Takes token ids (batch, tokens), their positions (tokens,) and a cache of (batch, kv_heads, context, head width)
    keys and values per layer; returns the logits (batch, tokens, vocab) and the cache with those tokens written."""

    frequencies: Tensor

    def __init__(
        self,
        *,
        vocab: int = 32000,
        layers: int = 22,
        width: int = 2048,
        heads: int = 32,
        kv_heads: int = 4,
        hidden: int = 5632,
        theta: float = 10000.0,
    ) -> None:
        super().__init__()
        head_width = width // heads
        frequencies = theta ** -(torch.arange(0, head_width, 2) / head_width)
        self.register_buffer("frequencies", frequencies, persistent=False)
        self.tokens = nn.Embedding(vocab, width)
        self.blocks = nn.ModuleList(Block(width, heads, kv_heads, hidden) for _ in range(layers))
        self.norm = RMSNorm(width)
        self.lm_head = nn.Linear(width, vocab, bias=False)

    def forward(self, ids: Tensor, positions: Tensor, cache: Cache) -> tuple[Tensor, Cache]:
        angles = positions[:, None] * self.frequencies
        angles = torch.cat((angles, angles), dim=-1)
        cos, sin = angles.cos(), angles.sin()
        first_keys, _ = cache[0]
        # A query sees every cache slot up to its own position.
        mask = torch.arange(first_keys.size(2), device=ids.device) <= positions[:, None]
        x = self.tokens(ids)
        new_cache: list[LayerCache] = []
        for index, block in enumerate(self.blocks):
            x, layer_cache = block(x, cos, sin, mask, positions, cache[index])
            new_cache.append(layer_cache)
        return self.lm_head(self.norm(x)), tuple(new_cache)


def get_inputs(
    *,
    batch: int = 2,
    tokens: int = 16,
    past: int = 112,
    context: int = 128,
    vocab: int = 32000,
    layers: int = 22,
    kv_heads: int = 4,
    head_width: int = 64,
) -> tuple[Tensor, Tensor, Cache]:
    """`tokens` new tokens that follow `past` cached ones."""
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(vocab, (batch, tokens), generator=generator)
    used = (torch.arange(context) < past).float()[:, None]
    shape = (2, layers, batch, kv_heads, context, head_width)
    keys, values = torch.randn(shape, generator=generator) * used
    return ids, torch.arange(past, past + tokens), tuple((k.clone(), v.clone()) for k, v in zip(keys, values))


def small() -> tuple[nn.Module, tuple[Tensor, Tensor, Cache]]:
    torch.manual_seed(0)
    model = Model(vocab=61, layers=2, width=32, heads=4, kv_heads=2, hidden=48)
    return model, get_inputs(batch=3, tokens=5, past=4, context=12, vocab=61, layers=2, kv_heads=2, head_width=8)
