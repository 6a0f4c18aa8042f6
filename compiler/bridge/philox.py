"""Philox 4x32-10, the counter-based generator of Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC 2011)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

WORD = 0xFFFFFFFF
"""The largest word of 32 bits."""
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)
_torch: Any = torch


def philox(counter: Sequence[torch.Tensor], key: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Return four words for a counter of four words and a key of two; each is an int64 tensor of numbers below 2**32."""
    words, keys = list(counter), list(key)
    for _ in range(10):
        (high0, low0), (high1, low1) = (_product(m, word) for m, word in zip(_MULTIPLIERS, words[::2], strict=True))
        words = [high1 ^ words[1] ^ keys[0], low1, high0 ^ words[3] ^ keys[1], low0]
        keys = [(k + weyl) & WORD for k, weyl in zip(keys, _WEYL, strict=True)]
    return words


def random_bits(seed: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    """Return word ``offset % 4`` of the counter ``offset // 4`` with the key ``seed``, as int32; int64 inputs broadcast."""
    seed, offsets = _torch.broadcast_tensors(seed, offsets)
    block = offsets >> 2
    zero = torch.zeros_like(block)
    words = philox([block & WORD, (block >> 32) & WORD, zero, zero], [seed & WORD, (seed >> 32) & WORD])
    chosen = torch.stack(words).gather(0, (offsets & 3).unsqueeze(0)).squeeze(0)
    return chosen.to(torch.int32)


def _product(constant: int, word: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the upper and lower word of a product, computed in halves, as it does not fit signed 64 bits."""
    low, high = word & 0xFFFF, word >> 16
    a, b = constant * low, constant * high  # below 2**48
    middle = (a >> 16) + (b & 0xFFFFFFFF)
    return ((b >> 32) + (middle >> 32) << 16) + ((middle & WORD) >> 16) & WORD, (a & 0xFFFF | middle << 16) & WORD
