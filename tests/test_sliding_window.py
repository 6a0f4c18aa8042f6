"""Attention within a sliding window, as long-context encoders write it: chunks that overlap, pads, diagonals; at any length."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.testing import assert_close

import fxc
from fxc.bridge.expressions import canonical

WINDOW, HEADS, WIDTH = 4, 2, 8


def overlapping(x: Tensor) -> Tensor:
    """Chunks of two windows, of which each begins in the middle of the one before."""
    x = x.view(x.size(0), x.size(1) // (WINDOW * 2), WINDOW * 2, x.size(2))
    sizes, steps = list(x.size()), list(x.stride())
    sizes[1], steps[1] = sizes[1] * 2 - 1, steps[1] // 2
    return x.as_strided(sizes, steps)


def scores(q: Tensor, k: Tensor) -> Tensor:
    """Of each place with those at most a window before and behind it."""
    batch, length, heads, width = q.size()
    chunks = length // WINDOW - 1
    q, k = (x.transpose(1, 2).reshape(batch * heads, length, width) for x in (q, k))
    products = F.pad(torch.einsum("bcxd,bcyd->bcxy", overlapping(q), overlapping(k)), (0, 0, 0, 1))
    products = products.view(*products.size()[:-2], products.size(-1), products.size(-2))
    found = products.new_zeros((batch * heads, chunks + 1, WINDOW, WINDOW * 2 + 1))
    found[:, :-1, :, WINDOW:] = products[:, :, :WINDOW, : WINDOW + 1]
    found[:, -1, :, WINDOW:] = products[:, -1, WINDOW:, : WINDOW + 1]
    found[:, 1:, :, :WINDOW] = products[:, :, -(WINDOW + 1) : -1, WINDOW + 1 :]
    found[:, 0, 1:WINDOW, 1:WINDOW] = products[:, 0, : WINDOW - 1, 1 - WINDOW :]
    found = found.view(batch, heads, length, 2 * WINDOW + 1).transpose(2, 1)
    outside = q.new_ones(WINDOW, WINDOW + 1).tril().flip([0])[None, :, None, :]
    first, last = found[:, :WINDOW, :, : WINDOW + 1], found[:, -WINDOW:, :, -(WINDOW + 1) :]
    found[:, :WINDOW, :, : WINDOW + 1] = torch.full_like(first, -torch.inf).where(outside.expand(first.size()).bool(), first)
    behind = outside.flip((1, 3)).expand(last.size()).bool()
    found[:, -WINDOW:, :, -(WINDOW + 1) :] = torch.full_like(last, -torch.inf).where(behind, last)
    return found


def weighted(weights: Tensor, v: Tensor) -> Tensor:
    batch, length, heads, width = v.size()
    chunks = length // WINDOW - 1
    weights = weights.transpose(1, 2).reshape(batch * heads, length // WINDOW, WINDOW, 2 * WINDOW + 1)
    padded = F.pad(v.transpose(1, 2).reshape(batch * heads, length, width), (0, 0, WINDOW, WINDOW), value=-1.0)
    steps = padded.stride()
    windows = padded.as_strided((batch * heads, chunks + 1, 3 * WINDOW, width), (steps[0], WINDOW * steps[1], *steps[1:]))
    rows, columns = weights.size(2), weights.size(3)
    weights = F.pad(weights, (0, rows + 1)).view(*weights.size()[:2], -1)[:, :, :-rows]
    weights = weights.view(*weights.size()[:2], rows, rows + columns)[:, :, :, :-1]
    found = torch.einsum("bcwd,bcdh->bcwh", weights, windows)
    return found.reshape(batch, heads, length, width).transpose(1, 2)


class SlidingWindow(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(HEADS * WIDTH, HEADS * WIDTH) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        batch, length, _ = x.shape
        q, k, v = (layer(x).view(batch, length, HEADS, WIDTH) for layer in (self.q, self.k, self.v))
        return weighted(torch.softmax(scores(q, k), -1), v).reshape(batch, length, -1)


@pytest.mark.slow
@pytest.mark.share(2)
@pytest.mark.parametrize("gradients", [False, True])
def test_a_window_over_any_length(gradients: bool) -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)
    model = SlidingWindow()
    run = torch.compile(model, backend="fxc", dynamic=True)
    for length in (40, 16):  # the other way round the first graph is of one length
        x = torch.randn(2, length, HEADS * WIDTH)
        with torch.set_grad_enabled(gradients):
            found, expected = run(x), model(x)
        assert_close(found, expected, rtol=1e-4, atol=1e-5)
        if gradients:
            parameters = list(model.parameters())
            pairs = zip(*(torch.autograd.grad(y.square().mean(), parameters) for y in (found, expected)), strict=True)
            for ours, eager in pairs:
                assert_close(ours, eager, rtol=1e-3, atol=1e-5)


@pytest.mark.slow
def test_a_window_ahead_of_time() -> None:
    torch.manual_seed(0)
    model, x = SlidingWindow().eval(), torch.randn(2, 24, HEADS * WIDTH)
    assert_close(fxc.compile(model, (x,))(x), model(x), rtol=1e-4, atol=1e-5)


def test_an_expression_is_written_as_it_is_read() -> None:
    for text in ("8*((s27//8) - 1)*s3", "s0", "2*(s0 + 1)", "s0*(s1 + 3)//4", "no expression("):
        assert canonical(canonical(text)) == canonical(text)
