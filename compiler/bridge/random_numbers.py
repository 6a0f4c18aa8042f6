"""Random numbers as a function of a seed: the operator ``fxc::uniform``, which kernels compute too, number for number.

PyTorch's own generators draw in order. A kernel cannot: each of its elements is made on its own, and maybe more than once. Here
an element's number depends on the seed, the stream, and its place in the tensor, and on nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import torch

from fxc.bridge.philox import WORD, philox

STREAM_BITS = 40
"""Numbers of a stream begin at ``stream << STREAM_BITS``."""

_SCHEMA = "uniform(Tensor seed, SymInt[] size, int stream, ScalarType dtype) -> Tensor"
_DIGITS: Mapping[torch.dtype, int] = MappingProxyType({torch.float16: 11, torch.bfloat16: 8, torch.float32: 24})
"""How many bits of a word a float takes: its digits, so that no number is rounded up to 1."""

_LIBRARY = torch.library.Library("fxc", "DEF")
_LIBRARY.define(_SCHEMA)


def uniform(seed: torch.Tensor, size: Sequence[int], stream: int, dtype: torch.dtype) -> torch.Tensor:
    """Numbers from 0 up to, but not with, 1. ``seed``: a 0-d int64 tensor, on the device of the result.

    The same arguments give the same numbers, on each device and in each kernel; other streams of a seed give others.
    """
    count = torch.Size(size).numel()
    if dtype is torch.float64:
        high, low = _words(seed, stream, 2 * count).unflatten(0, (count, 2)).unbind(1)
        numbers = ((high >> 5).double() * 2.0**26 + (low >> 6).double()) * 2.0**-53
    else:
        digits = _DIGITS[dtype]
        numbers = (_words(seed, stream, count) >> (32 - digits)).to(dtype) * 2.0**-digits
    return numbers.reshape(tuple(size))


def _words(seed: torch.Tensor, stream: int, count: int) -> torch.Tensor:
    """The first ``count`` words of a stream, as int64: a counter gives four."""
    counter = (stream << STREAM_BITS - 2) + torch.arange(-(-count // 4), device=seed.device)
    zero = torch.zeros_like(counter)
    words = philox([counter & WORD, counter >> 32, zero, zero], [seed & WORD, (seed >> 32) & WORD])
    return torch.stack(words, 1).flatten()[:count]


def _fake(seed: torch.Tensor, size: Sequence[int], stream: int, dtype: torch.dtype) -> torch.Tensor:
    return seed.new_empty(size, dtype=dtype)


_LIBRARY.impl("uniform", uniform, "CompositeExplicitAutograd")
torch.library.register_fake("fxc::uniform", _fake, lib=_LIBRARY)
