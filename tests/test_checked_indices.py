"""Indices that a kernel computes are checked in active lanes, and in no others."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import fxc

GATHERS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "of a count": lambda x, n: x - x.gather(0, (x > n).sum(0, keepdim=True) - 1),
    "of a maximum": lambda x, n: x * x.gather(0, (x * 0 + n + 1).amax(0, keepdim=True).long()),
    "of a projection": lambda x, n: torch.clamp(x - x.cumsum(0).gather(0, (x > n).sum(0, keepdim=True) - 1) / 4, min=0),
    "of sorted elements": lambda x, n: x - x.sort(0)[0].gather(0, (x.sort(0)[0] > n).sum(0, keepdim=True) - 1),
    "of rows": lambda x, n: x.T - x.T.gather(1, (n[:, None] < x.T).sum(1, keepdim=True) - 1),
}


@pytest.mark.slow
@pytest.mark.parametrize("target", ["host", "interpret"])
@pytest.mark.parametrize("name", GATHERS)
def test_indices_of_lanes_that_are_not_active_are_not_checked(name: str, target: str) -> None:
    for columns in (1, 3, 5, 8, 9, 17, 33):
        x, n = torch.rand(4, columns) + 1, torch.zeros(columns)
        compiled = fxc.compile(GATHERS[name], (x, n), options={"target": target})
        torch.testing.assert_close(compiled(x, n), GATHERS[name](x, n))


@pytest.mark.parametrize("target", ["host", "interpret"])
def test_indices_of_active_lanes_are_checked(target: str) -> None:
    for columns in (5, 8, 9):
        x, n = torch.rand(4, columns) + 1, torch.zeros(columns)
        compiled = fxc.compile(GATHERS["of a count"], (x, n), options={"target": target})
        for column in range(columns):
            wrong = n.clone()
            wrong[column] = 3
            with pytest.raises(IndexError, match="out of range"):
                compiled(x, wrong)
