"""Attention as models write it: the forms that Inductor recognizes, and others."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

B, H, S, T, D = 2, 3, 24, 33, 8
"""Batch, heads, queries, keys, width of a head."""


def heads(dtype: torch.dtype, *, keys: int = T, batch: int = B, kv: int = H) -> list[Tensor]:
    """Queries, keys and values as (batch, heads, tokens, width)."""
    sizes = ((H, S), (kv, keys), (kv, keys))
    return [torch.randn(batch, count, tokens, D, dtype=dtype) for count, tokens in sizes]


def tokens(dtype: torch.dtype, **sizes: int) -> list[Tensor]:
    """As (batch, tokens, heads, width)."""
    return [x.transpose(1, 2).contiguous() for x in heads(dtype, **sizes)]


def stacked(dtype: torch.dtype) -> list[Tensor]:
    """As (batch * heads, tokens, width)."""
    return [x.flatten(0, 1) for x in heads(dtype)]


def half_mask(dtype: torch.dtype) -> Tensor:
    return torch.randn(B, 1, S, T, dtype=dtype)


def padding() -> Tensor:
    """Which keys of each row are kept: 1 or 0."""
    return (torch.arange(T) < torch.tensor([[T], [T - 5]]))[:, None, None, :].long()


def lowest(x: Tensor) -> float:
    return torch.finfo(x.dtype).min


def causal(s: Tensor) -> Tensor:
    return torch.ones(s.shape[-2:], dtype=torch.bool).tril()


def swap(*given: Tensor) -> tuple[Tensor, ...]:
    return tuple(x.permute(0, 2, 1, 3) for x in given)


def soft(x: Tensor, like: Tensor) -> Tensor:
    return F.softmax(x, dim=-1, dtype=torch.float32 if like.dtype != torch.float64 else None).type_as(like)


def idle(x: Tensor) -> Tensor:
    return F.dropout(x, 0.1, training=False)


def f1(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (q @ k.transpose(-2, -1)).div(math.sqrt(D)).softmax(-1).matmul(v)


def f2(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (q @ k.transpose(-2, -1)).mul(0.3).softmax(-1).matmul(v)


def f4(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return idle((q @ k.transpose(-2, -1)).mul(0.3).softmax(-1)).matmul(v)


def f5(q: Tensor, k: Tensor, v: Tensor, m: Tensor) -> Tensor:
    return torch.softmax((q @ k.transpose(-2, -1)) / math.sqrt(D) + m, -1) @ v


def commuted(q: Tensor, k: Tensor, v: Tensor, m: Tensor) -> Tensor:
    return torch.softmax(m + (q @ k.transpose(-2, -1)) / math.sqrt(D), -1) @ v


def f8(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    q, k, v = swap(q, k, v)
    return soft(torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(D), q).matmul(v)


def f10(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    q, k, v = swap(q, k, v)
    return soft(idle(torch.matmul(q / 2.5, k.transpose(-2, -1))), q).matmul(v)


def f11(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    q, k, v = swap(q, k, v)
    y = torch.matmul(torch.matmul(q, k.permute(0, 1, 3, 2)).div(2.0).softmax(-1), v)
    return y.permute(0, 2, 1, 3).reshape(q.shape[0], q.shape[2], -1)


def f13(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return torch.bmm(idle(torch.bmm(q, k.transpose(1, 2)).softmax(-1)), v)


def f14(q: Tensor, k: Tensor, v: Tensor, m: Tensor) -> Tensor:
    return f5(*swap(q, k, v), m)


def f15(q: Tensor, k: Tensor, v: Tensor, kept: Tensor) -> Tensor:
    q, k, v = swap(q, k, v)
    s = torch.matmul(q, k.permute(0, 1, 3, 2)) / math.sqrt(D)
    return s.masked_fill((kept == 0).view(-1, 1, 1, T).expand_as(s), -math.inf).softmax(-1) @ v


def f17(q: Tensor, k: Tensor, v: Tensor, kept: Tensor) -> Tensor:
    q, k, v = swap(q, k, v)
    s = torch.matmul(q, k.permute(0, 1, 3, 2)) / math.sqrt(D)
    return idle(s.masked_fill(kept == 0, lowest(s)).softmax(-1)) @ v


def f18(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    q, k, v = swap(q, k, v)
    s = torch.matmul(q, k.permute(0, 1, 3, 2)) / torch.full([], math.sqrt(D), dtype=q.dtype)
    return torch.where(causal(s), s, torch.full([], lowest(s), dtype=s.dtype)).softmax(-1) @ v


def f19(q: Tensor, k: Tensor, v: Tensor, m: Tensor) -> Tensor:
    s = torch.matmul(q, k.permute(0, 1, 3, 2)) / torch.full([], math.sqrt(D), dtype=q.dtype)
    s = torch.where(causal(s), s, lowest(s)) + m
    return s.softmax(-1).type(v.dtype) @ v


def f20(q: Tensor, k: Tensor, v: Tensor, kept: Tensor) -> Tensor:
    q, k, v = swap(q, k, v)
    s = torch.matmul(q / math.sqrt(D), k.transpose(-2, -1))
    return idle(s.masked_fill((kept == 0).expand_as(s), lowest(s)).softmax(-1)).matmul(v)


def f21(q: Tensor, k: Tensor, v: Tensor, m: Tensor) -> Tensor:
    q, k, v = swap(q, k, v)
    return soft(torch.matmul(q, k.permute(0, 1, 3, 2)) + m, q).matmul(v)


def f23(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    q, k, v = swap(q, k, v)
    return soft(torch.matmul(q, k.permute(0, 1, 3, 2)), q).matmul(v)


def f24(q: Tensor, k: Tensor, v: Tensor, m: Tensor) -> Tensor:
    q, k, v = (x.reshape(B * H, -1, D) for x in (q, k, v))
    s = (torch.bmm(q, k.transpose(1, 2)).view(B, H, S, T) + m).view(B * H, S, T)
    return torch.bmm(idle(s.softmax(-1)), v).view(B, H, S, D).transpose(1, 2).reshape(B, S, H * D)


def f28(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return f4(*(x.permute(0, 2, 1, 3) for x in (q, k, v)))


def f29(q: Tensor, k: Tensor, v: Tensor, m: Tensor) -> Tensor:
    scale = math.sqrt(1 / math.sqrt(D))
    s = (q * scale) @ (k.transpose(-2, -1) * scale) + m
    return torch.ops.aten._safe_softmax(s, -1) @ v


def einsum(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    s = torch.einsum("bihd,bjhd->bhij", q, k) * 0.25
    return torch.einsum("bhij,bjhd->bihd", s.softmax(-1), v)


def added(q: Tensor, k: Tensor, v: Tensor, m: Tensor) -> Tensor:
    return torch.bmm(torch.baddbmm(m, q, k.transpose(1, 2), alpha=0.3).softmax(-1), v)


def repeat(x: Tensor) -> Tensor:
    batch, count, length, width = x.shape
    return x[:, :, None].expand(batch, count, 3, length, width).reshape(batch, count * 3, length, width)


def grouped(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return f1(q, repeat(k), repeat(v))


def interleaved(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return f1(q, k.repeat_interleave(3, 1), v.repeat_interleave(3, dim=1))


def autoregressive(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    s = (q @ k.transpose(-2, -1)) * 0.25
    i, j = torch.arange(q.shape[-2])[:, None], torch.arange(k.shape[-2])
    return s.masked_fill(j > i, -math.inf).softmax(-1) @ v


def triangle(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    s = (q @ k.transpose(-2, -1)) * 0.25
    return (s + torch.full(s.shape[-2:], -math.inf, dtype=q.dtype).triu(1)).softmax(-1) @ v


def shared_heads(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return f1(q, k[:, :1], v[:, :1])


def biased(q: Tensor, k: Tensor, v: Tensor, position: Tensor, kept: Tensor) -> Tensor:
    """T5: a bias of the positions and a mask."""
    bias = position + (1.0 - kept.to(q.dtype)) * lowest(q)
    return soft((q @ k.transpose(3, 2)) + bias, q) @ v


def windows(q: Tensor, k: Tensor, v: Tensor, m: Tensor) -> Tensor:
    """Swin: each window of an image has a mask."""
    s = (q @ k.transpose(-2, -1)) * 0.3
    s = (s.view(1, B, H, S, T) + m.unsqueeze(1).unsqueeze(0)).view(-1, H, S, T)
    return s.softmax(-1) @ v


def miscompiled(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """PyTorch 2.13 gives a wrong result for batch 1 and as many tokens as heads (pytorch#195320)."""
    return torch.softmax(q @ k.permute(0, 2, 3, 1) * 0.25, -1) @ v


Form = tuple[Callable[..., Tensor], Callable[[torch.dtype], list[Any]]]


def _with(
    make: Callable[..., list[Tensor]], *others: Callable[[torch.dtype], Tensor], **sizes: int
) -> Callable[..., list[Any]]:
    return lambda dtype: [*make(dtype, **sizes), *(other(dtype) for other in others)]


FORMS: Mapping[str, Form] = {
    "1, 3: div": (f1, heads), "2: mul": (f2, heads), "4: idle dropout": (f4, heads),
    "5, 6: mask": (f5, _with(heads, half_mask)), "mask + scores": (commuted, _with(heads, half_mask)),
    "7, 8: softmax in float32": (f8, tokens), "9, 10: q divided": (f10, tokens), "11, 12: permuted": (f11, tokens),
    "13: bmm": (f13, stacked), "14, 16: BERT": (f14, _with(tokens, half_mask)),
    "16: mask in float32": (f21, _with(tokens, lambda _: half_mask(torch.float32))),
    "15: DistilBERT": (f15, _with(tokens, lambda _: padding())), "17": (f17, _with(tokens, lambda _: padding())),
    "18: GPT-2": (f18, tokens), "19: GPT-2 and mask": (f19, _with(heads, half_mask)),
    "20: DistilBERT": (f20, _with(tokens, lambda _: padding())), "21, 22, 25, 26: T5": (f21, _with(tokens, half_mask)),
    "23, 27: T5": (f23, tokens), "24: MBart": (f24, _with(heads, half_mask)), "28: Visformer": (f28, tokens),
    "29: safe softmax": (f29, _with(heads, half_mask)), "einsum": (einsum, tokens),
    "baddbmm": (added, _with(stacked, lambda dtype: torch.randn(B * H, 1, T, dtype=dtype))),
    "grouped heads": (grouped, _with(heads, kv=1)), "repeat_interleave": (interleaved, _with(heads, kv=1)),
    "causal": (autoregressive, _with(heads, keys=S)), "causal, more keys": (autoregressive, heads),
    "triangle": (triangle, _with(heads, keys=S)), "one head of keys": (shared_heads, heads),
    "T5 bias": (biased, _with(heads, lambda dtype: torch.randn(1, H, S, T, dtype=dtype), lambda _: padding())),
    "Swin": (windows, _with(heads, lambda dtype: torch.randn(B, S, T, dtype=dtype))), "batch 1": (f11, _with(tokens, batch=1)),
}  # fmt: skip
"""A name, with the number of Inductor's pattern, -> the form and its inputs."""
