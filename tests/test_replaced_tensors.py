"""Registered tensors that a call replaces are those of eager mode after it, on every capture route."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import fxc
from fxc.errors import CaptureError, FallbackWarning


class Replaces(nn.Module):
    """``step`` replaces a buffer."""

    first: Any
    second: Any

    def __init__(self, step: Callable[[Any, torch.Tensor], object]) -> None:
        super().__init__()
        self.step, self.linear = step, nn.Linear(4, 4)
        self.register_buffer("first", torch.zeros(4))
        self.register_buffer("second", torch.ones(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.step(self, x)
        return self.linear(x) if self.first is None else self.linear(x) * self.first + self.second

    def state(self) -> list[torch.Tensor]:
        return [torch.empty(0) if each is None else each.clone() for each in (self.first, self.second)]


def swaps(m: Any, x: torch.Tensor) -> None:
    m.first, m.second = m.second, m.first


def twice(m: Any, x: torch.Tensor) -> None:
    m.first = m.second = x.mean(0)
    m.first.add_(1)


RECORDED: list[Callable[[Any, torch.Tensor], object]] = [
    lambda m, x: setattr(m, "first", x.detach().mean(0)),
    lambda m, x: setattr(m, "first", m.first * 0.9 + x.detach().mean(0)),
    lambda m, x: setattr(m, "first", m.first.detach()),
    lambda m, x: m.first.add_(1),
    lambda m, x: (setattr(m, "first", x.detach().mean(0)), m.first.mul_(2)),
]
IN_PARTS: list[Callable[[Any, torch.Tensor], object]] = [
    swaps,
    twice,
    lambda m, x: m._buffers.update(first=x.detach().mean(0)),
    lambda m, x: m._buffers.__setitem__("first", x.detach().mean(0)),
    lambda m, x: m.first.set_(x.detach().mean(0)),
    lambda m, x: setattr(m, "first", x.detach().mean(0).double()),
    lambda m, x: setattr(m, "first", x.detach().mean()),
    lambda m, x: setattr(m, "first", None),
    lambda m, x: setattr(m, "first", m.linear.bias.detach()),
    lambda m, x: setattr(m, "first", x[0].detach()),
    lambda m, x: setattr(m, "first", m.second),
]


def check(step: Callable[..., object], training: bool, **options: Any) -> None:
    model = Replaces(step)
    other = copy.deepcopy(model)
    compiled = fxc.compile(model, (torch.randn(3, 4),), training=training, options=options)
    torch.testing.assert_close(model.state(), other.state())
    for _ in range(3):
        x = torch.randn(3, 4)
        copied = x.clone()
        torch.testing.assert_close(compiled(x), other(copied))
        torch.testing.assert_close(model.state(), other.state())
        with torch.no_grad():  # aliases of weights, inputs and buffers see these writes
            for tensor in (x, copied, model.linear.bias, other.linear.bias, model.second, other.second):
                tensor.add_(1)
        torch.testing.assert_close(model.state(), other.state())


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("step", RECORDED)
def test_what_is_assigned_is_written(step: Callable[..., object], training: bool) -> None:
    check(step, training)


@pytest.mark.share(2)
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("step", IN_PARTS)
def test_what_no_write_equals_runs_in_parts(step: Callable[..., object], training: bool) -> None:
    with pytest.warns(FallbackWarning, match="only parts of it are compiled"):
        check(step, training, fallback=True)
    for route in ("export", "make_fx"):
        with pytest.raises(CaptureError, match=r"replaces '(first|second)', a parameter or buffer|expected FakeTensor"):
            fxc.capture(Replaces(step), (torch.randn(3, 4),), route=route)
