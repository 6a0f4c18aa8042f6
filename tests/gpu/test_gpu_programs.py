"""Random programs on a GPU: ``python -m tests.fuzz --device cuda`` looks for longer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional as F

from tests.fuzz.check import MODES, check
from tests.fuzz.search import Search

EXAMPLES = 30


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("mode", MODES)
def test_random_programs(mode: str, seed: int) -> None:
    counts = Search(mode, seed, examples=EXAMPLES, device="cuda").run()
    assert not counts.failures, "\n\n".join(map(str, counts.failures))
    assert counts.programs > EXAMPLES / 2


def written_constant(x: torch.Tensor) -> Any:
    """The constant is on the CPU."""
    x[...] = 2
    return x, x + 1.5, x.amin()


def extreme_of_a_constant(x: torch.Tensor) -> Any:
    zeros = x.new_zeros((3, 1))
    loss = F.nll_loss(zeros.log_softmax(1), torch.arange(3, device=x.device) % 1, reduction="none")
    return zeros.argmin(1), loss, torch.ones(1, device=x.device).min(-1, keepdim=True).values * x


def no_elements(x: torch.Tensor) -> Any:
    empty = F.pad(x.reshape(1, 1, 1), (2, 0, -1, 0, 1, 0), "constant", 1)
    return torch.rsub(empty, x), empty.select_scatter(torch.zeros_like(empty.select(0, 0)), 0, 0)


@pytest.mark.parametrize("function", [written_constant, extreme_of_a_constant, no_elements])
@pytest.mark.parametrize("route", ["static", "compile"])
def test_programs(function: Callable[..., Any], route: str) -> None:
    check(route, function, lambda: [torch.tensor(0.75)], device="cuda")
