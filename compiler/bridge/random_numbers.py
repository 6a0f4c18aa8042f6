"""Random numbers as a function of a seed: the operator ``fxc::uniform``, which kernels reproduce exactly.

PyTorch's generators are sequential. A kernel computes its elements independently, some of them more than once. Here the number
of an element depends only on the seed, the stream, and the position of the element in the tensor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import torch

from fxc.bridge.philox import WORD, philox

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
