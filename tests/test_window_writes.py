"""Writes to windows (``unfold``) leave the elements beside them alone, as in eager mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

import fxc


def first(x: Tensor) -> Tensor:
    x.unfold(0, 2, 3).abs_()
    return x * 1


def last_is_cut(x: Tensor) -> Tensor:
    x.unfold(-1, 2, 3)[..., 0].mul_(3)
    return x + 1


def turned(x: Tensor) -> Tensor:
    windows = (x * 2).unfold(0, 1, 2)
    windows.transpose(0, -1).sub_(1)
    return windows.sum(-1)


def of_a_view(x: Tensor) -> Tensor:
    y = x.clone()
    y[1:].unfold(0, 2, 2).add_(5)
    return y


def by_an_argument(x: Tensor) -> Tensor:
    y = x.clone()
    torch.nn.functional.relu(y.unfold(0, 2, 3), inplace=True)
    return y


def only_read(x: Tensor) -> Tensor:
    y = x.clone()
    y[0] = 1
    return y.unfold(0, 3, 1).sum(-1) + y.unfold(0, 2, 3).amax(-1).sum()


FUNCTIONS = [first, last_is_cut, turned, of_a_view, by_an_argument, only_read]
SIZES = [(3,), (4,), (5, 2), (8, 3), (7, 5)]


@pytest.mark.parametrize("how", ["ahead", "compiled", "host"])
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_writes_to_windows(function: Callable[[Tensor], Tensor], how: str) -> None:
    for shape in SIZES:
        if how != "compiled" or shape == SIZES[3]:
            x = torch.linspace(-2, 3, torch.Size(shape).numel()).reshape(shape)
            ours, eager = x.clone(), x.clone()
            torch._dynamo.reset()
            options: Any = {"target": "host"} if how == "host" else {}
            run = (
                torch.compile(function, backend="fxc")
                if how == "compiled"
                else fxc.compile(function, (x.clone(),), options=options)
            )
            assert_close(run(ours), function(eager))
            assert_close(ours, eager)


@pytest.mark.parametrize("how", ["ahead", "host"])
def test_windows_of_an_input_that_starts_within_its_storage(how: str) -> None:
    def function(x: Tensor) -> tuple[Tensor, Tensor]:
        y = x * 2
        y[0] = 1
        return x.unfold(0, 1, 3), y

    def input() -> Tensor:
        return torch.arange(48.0).view(4, 4, 3)[..., 1:2]

    options: Any = {"target": "host"} if how == "host" else {}
    assert_close(fxc.compile(function, (input(),), options=options)(input()), function(input()))
