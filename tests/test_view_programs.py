"""Programs of views, joins and rolls: places are quotients and remainders of what may be negative, at sizes known or not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.testing import assert_close

import fxc

Program = tuple[Callable[..., Any], tuple[Callable[[], Tensor], ...]]


def normal(*shape: int, cut: tuple[slice, ...] = ()) -> Callable[[], Tensor]:
    return lambda: torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))[cut]


def strided(shape: tuple[int, ...], strides: tuple[int, ...]) -> Callable[[], Tensor]:
    return lambda: torch.empty_strided(shape, strides).copy_(normal(*shape)())


def _clamp_diagonal(x: Tensor) -> Tensor:
    x.diagonal().clamp_(-0.5, 0.5)
    return x


HALF = slice(None, None, 2)
PROGRAMS: dict[str, Program] = {
    "roll, permute, flip": (lambda x: x.roll(1, 0).permute([0, 2, 1]).flip([0, 1, 2]), (normal(5, 3, 4),)),
    "cat, view, slice, flip": (lambda a, b: torch.cat([a, b], 1).view(4)[0:3].flip(0), (normal(2, 1), normal(2, 1))),
    "roll, flip": (lambda x: x.roll(-1, 1).flip([0, 1]), (normal(5, 3),)),
    "roll along the rows": (lambda x: torch.log1p(x.abs()).roll(1, 2), (normal(17, 33, 33),)),
    "roll by more than the size": (lambda x: x.roll(11, 0).flip(0) * 2, (normal(4),)),
    "roll twice": (lambda x: x.roll(-3, 0).roll(2, 0).flip(0) + 1, (normal(5),)),
    "roll of all": (lambda x: x.roll(-2).flip([0]).reshape(-1), (normal(3, 5),)),
    "roll, reshape, roll": (lambda x: x.roll(2, 1).reshape(-1).roll(-3, 0).flip(0), (normal(4, 6),)),
    "repeat_interleave, flip": (lambda x: x.repeat_interleave(2, 0).flip(0), (normal(4),)),
    "slice, repeat, flip": (lambda x: x[0:3].repeat([2, 2]).flip(1), (normal(7, 16),)),
    "flip, repeat, roll": (lambda x: x.flip(0).repeat(3).roll(-4, 0), (normal(5),)),
    "a result and its diagonal": (lambda x: (y := x.expand(4, 4) * 2, y.diagonal().exp()), (normal(4, 1),)),
    "a copy with another diagonal": (lambda x: _clamp_diagonal(x.expand(5, 5).clone()), (normal(5, 1),)),
    "index_select, roll, flip": (
        lambda x: x.index_select(0, torch.tensor([5, 7, 3])).roll(-2, 0).flip(0),
        (normal(16, cut=(HALF,)),),
    ),
    "gather, flip": (lambda x: x.gather(0, (x > 0).long()).roll(1, 0).flip([0, 1]), (normal(3, 4),)),
    "diagonal, argmax": (lambda x: x.diagonal(0).argmax(0), (normal(1, 5),)),
    "strides of a transpose": (lambda x: torch.tanh(x), (strided((7, 1, 7), (1, 49, 7)),)),
    "trapezoid": (lambda x: torch.trapezoid(x, dim=1), (normal(1, 8),)),
    "pad by less than nothing": (
        lambda x: F.pad(x, (-1, 1)).sum(2),
        (normal(2, 16, 6, 66, cut=(HALF, HALF, HALF, HALF)),),
    ),
    "pad, reshape, roll": (lambda x: F.pad(x, (2, -1, 1, 0)).reshape(-1).roll(-3, 0) * 2, (normal(4, 5),)),
    "windows": (lambda x: torch.where(x.unfold(0, 3, 1) > 0, x.unfold(0, 3, 1), 0.5), (normal(12, cut=(HALF,)),)),
    "roll, reshape": (
        lambda x, y: (y * x).roll(-2, 1).reshape(17, 17, 1),
        (normal(17, 17), normal(17, 40, cut=(slice(None), slice(3, 37, 2)))),
    ),
    "stack of one element": (
        lambda x, y: torch.stack([x.flip([0, 1]), y], 2),
        (normal(3, 3, cut=(slice(0, None, 3),) * 2), normal(1, 1)),
    ),
    "slice_scatter, flip": (lambda x: torch.slice_scatter(x, x[1::2].flip(0), 0, 1, None, 2).flip(0), (normal(8, 3),)),
    "columns of steps, cat": (lambda x, y: torch.cat([x[:, ::3].flip(1), y], 1).roll(5, 1), (normal(3, 9), normal(3, 4))),
}  # fmt: skip


@pytest.mark.share(3)
@pytest.mark.parametrize("how", ["ahead", "compiled", "dynamic"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_of_views(name: str, how: str) -> None:
    function, makers = PROGRAMS[name]
    inputs = tuple(make() for make in makers)
    torch._dynamo.reset()
    if how == "ahead":
        run: Callable[..., Any] = fxc.compile(function, inputs)
    else:
        run = torch.compile(function, backend="fxc", dynamic=how == "dynamic")
    assert_close(run(*inputs), function(*inputs))


ANY_SIZE: dict[str, Callable[[Tensor], Any]] = {
    "roll, flip": lambda x: x.roll(-1, 1).flip([0, 1]) * 2,
    "roll by more": lambda x: x.roll(5, 0).flip(0) + 1,
    "all in a row": lambda x: x.reshape(-1).flip(0).reshape(x.shape) * 3,
    "halves": lambda x: torch.cat([x[:, x.shape[1] // 2 :], x[:, : x.shape[1] // 2]], 1) * 2,
    "repeat": lambda x: x.repeat(2, 3).flip(1) + 1,
    "repeat_interleave": lambda x: x.repeat_interleave(3, 1).roll(1, 1) * 2,
    "last columns": lambda x: x[:, -2:].flip(1) * 2,
    "mean of rolled": lambda x: (x.roll(1, 0) - x).mean(1),
    "places": lambda x: (x.roll(1, 1).argmax(1), x.flip(0).argmin(0)),
    "pads": lambda x: F.pad(x, (2, -1, 0, 3)).flip(0) * 2,
    "turned": lambda x: x.t().reshape(x.shape).roll(1, 0) + 1,
    "cumulative": lambda x: x.flip(1).cumsum(1).flip(1) * 2,
}
"""Functions of a matrix with two columns or more, of any size."""


@pytest.mark.slow
@pytest.mark.share(3)
@pytest.mark.parametrize("name", ANY_SIZE)
def test_programs_of_views_at_any_size(name: str) -> None:
    function = ANY_SIZE[name]
    torch._dynamo.reset()
    run = torch.compile(function, backend="fxc", dynamic=True)
    for rows, columns in ((6, 8), (3, 5), (17, 2), (2, 33), (65, 7)):
        x = normal(rows, columns)()
        assert_close(run(x), function(x))
        assert_close(run(x.t().contiguous().t()), function(x))
