"""What a program cannot represent as a whole, and PyTorch runs: eager's results and writes, after a warning."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence
from torch.utils._pytree import tree_leaves

import fxc

GRU = nn.GRU(3, 4, batch_first=True)


def gaps(x: Tensor) -> Tensor:
    x.mul_(2)
    return x.as_strided((2,), (1,), x.storage_offset()) * 1


def beyond(x: Tensor) -> Tensor:
    x.mul_(2)
    return x.as_strided((12,), (1,), 0) * 1


def later_start(x: Tensor) -> Tensor:
    x.mul_(2)
    return x.as_strided((2,), (1,), x.storage_offset())


def write_and_read(x: Tensor, y: Tensor) -> Tensor:
    x.mul_(2)
    return y + 1


def seeded(x: Tensor) -> Tensor:
    torch.manual_seed(3)
    return x + torch.rand(12)


def text(x: Tensor) -> tuple[Tensor, str]:
    return x * 2, f"{x.sum()}"


def packed(x: Any) -> Tensor:
    return GRU(x)[0].data * 2


CASES: dict[str, tuple[Callable[..., Any], Callable[[Tensor], tuple[Any, ...]], str]] = {
    "gaps": (gaps, lambda base: (base[::2],), "not adjacent in memory"),
    "beyond": (beyond, lambda base: (base[4:8],), "counts from where that starts"),
    "later start": (later_start, lambda base: (base[4:8],), "counts from where that starts"),
    "same": (write_and_read, lambda base: (base, base), "shares memory"),
    "overlap": (write_and_read, lambda base: (base[:6], base[3:9]), "shares memory"),
    "views": (write_and_read, lambda base: (base.view(3, 4), base), "shares memory"),
    "seed": (seeded, lambda base: (base,), "seeds a random generator"),
    "text": (text, lambda base: (base,), "no operator for text"),
    "packed": (packed, lambda base: (pack_padded_sequence(base.view(2, 2, 3), [2, 1], batch_first=True),), "PackedSequence"),
}


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_it_runs_in_parts(name: str, training: bool) -> None:
    function, inputs, reason = CASES[name]
    with pytest.raises(fxc.errors.CaptureError, match=reason):
        fxc.compile(function, inputs(torch.arange(12.0)), training=training)
    torch._dynamo.reset()
    before, memory = torch.get_rng_state(), torch.arange(12.0)
    with pytest.warns(fxc.errors.FallbackWarning, match=reason):
        compiled = fxc.compile(function, inputs(memory), training=training, options={"fallback": True})
    assert torch.equal(memory, torch.arange(12.0)) and torch.equal(torch.get_rng_state(), before)
    expected, found = torch.arange(12.0), torch.arange(12.0)
    pairs = zip(tree_leaves(compiled(*inputs(found))), tree_leaves(function(*inputs(expected))), strict=True)
    for result, wanted in pairs:
        assert torch.allclose(result, wanted) if isinstance(wanted, Tensor) else result == wanted
    assert torch.equal(found, expected)
