"""Random numbers as a function of a seed: the operator ``fxc::uniform``, which kernels reproduce exactly.

PyTorch's generators are sequential. A kernel computes its elements independently, some of them more than once. Here the number
of an element depends only on the seed, the stream, and the position of the element in the tensor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch

WORD = 0xFFFFFFFF
"""The largest word of 32 bits."""
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)
_torch: Any = torch


def philox(counter: Sequence[torch.Tensor], key: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Return four words for a counter of four words and a key of two; each is an int64 tensor of numbers below 2**32.

    Philox 4x32-10 is by Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC 2011).
    """
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


STREAM_BITS = 40
"""Numbers of a stream start at ``stream << STREAM_BITS``."""

_SCHEMA = "uniform(Tensor seed, SymInt[] size, int stream, ScalarType dtype) -> Tensor"
_DIGITS: Mapping[torch.dtype, int] = MappingProxyType({torch.float16: 11, torch.bfloat16: 8, torch.float32: 24})
"""The number of bits of a word that a float uses: its significand, so that no number rounds up to 1."""

_LIBRARY = torch.library.Library("fxc", "DEF")
_LIBRARY.define(_SCHEMA)


def uniform(seed: torch.Tensor, size: Sequence[int], stream: int, dtype: torch.dtype) -> torch.Tensor:
    """Return numbers in [0, 1). ``seed``: a 0-d int64 tensor, on the device of the result.

    Equal arguments produce equal numbers, on each device and in each kernel; other streams of a seed produce other numbers.
    """
    count = torch.Size(size).numel()
    if dtype is torch.float64:
        high, low = _words(seed, stream, 2 * count).view(count, 2).unbind(1)
        numbers = ((high >> 5).double() * 2.0**26 + (low >> 6).double()) * 2.0**-53
    else:
        digits = _DIGITS[dtype]
        numbers = (_words(seed, stream, count) >> (32 - digits)).to(dtype) * 2.0**-digits
    return numbers.reshape(tuple(size))


def _words(seed: torch.Tensor, stream: int, count: int) -> torch.Tensor:
    """Return the first ``count`` words of a stream, as int64; a counter produces four."""
    counter = (stream << STREAM_BITS - 2) + torch.arange(-(-count // 4), device=seed.device)
    zero = torch.zeros_like(counter)
    words = philox([counter & WORD, counter >> 32, zero, zero], [seed & WORD, (seed >> 32) & WORD])
    return torch.stack(words, 1).flatten()[:count]


def _fake(seed: torch.Tensor, size: Sequence[int], stream: int, dtype: torch.dtype) -> torch.Tensor:
    return seed.new_empty(size, dtype=dtype)


_LIBRARY.impl("uniform", uniform, "CompositeExplicitAutograd")
torch.library.register_fake("fxc::uniform", _fake, lib=_LIBRARY)
