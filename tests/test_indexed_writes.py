"""Writes at a place that a tensor holds, as into the cache of a decoder."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import fxc
from fxc.errors import CaptureError


def whole(x: Tensor, p: Tensor, v: Tensor) -> Tensor:
    x[:, p] = v
    return x * 2


def first(x: Tensor, p: Tensor, v: Tensor) -> Tensor:
    x[p] = v[0]
    return x.sum(0)


def number(x: Tensor, p: Tensor, v: Tensor) -> Tensor:
    x[..., p] = 5
    return x * v[:1, :1]


def item(x: Tensor, p: Tensor, v: Tensor) -> Tensor:
    x[:, p.item()] = v
    return x * 2


def broadcast(x: Tensor, p: Tensor, v: Tensor) -> Tensor:
    x[1, :, p] = v[0, 0].view(1, 1, 1)
    return x * 2


def rows(x: Tensor, p: Tensor, v: Tensor) -> Tensor:
    x[:, p : p + 1] = v[:, None]
    return x * 2


def of_another_dtype(x: Tensor, p: Tensor, v: Tensor) -> Tensor:
    x[None, :, p] = v.double()
    return x * 2


def twice(x: Tensor, p: Tensor, v: Tensor) -> Tensor:
    x[:, p] += v
    y = x * 2
    y[0, p] = 1
    return y


FUNCTIONS: list[Callable[..., Tensor]] = [whole, first, number, item, broadcast, rows, of_another_dtype, twice]


def inputs(place: int, dtype: torch.dtype = torch.int64) -> tuple[Any, ...]:
    return torch.arange(32.0).view(2, 4, 4) / 8, torch.tensor(place, dtype=dtype), torch.linspace(-1, 1, 8).view(2, 4)


@pytest.mark.parametrize("options", [{"target": None}, {"target": "host"}])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_place_that_a_tensor_holds(function: Callable[..., Tensor], options: dict[str, Any]) -> None:
    if function is rows and torch.__version__ < (2, 12):
        pytest.skip("the fake of a copy is not made there where a size depends on data")
    compiled = fxc.compile(function, inputs(1), options=options)
    for place in (1, 0) if function is rows else (1, 0, -1):
        given, expected = inputs(place), inputs(place)
        torch.testing.assert_close(compiled(*given), function(*expected))
        torch.testing.assert_close(given, expected)


READS: list[Callable[[Tensor, Tensor], Tensor]] = [
    lambda x, p: x[:, p] * 2,
    lambda x, p: x[p, :, p].exp(),
    lambda x, p: x[:, p:].sum(),
    lambda x, p: x[..., :p] + 1,
]


@pytest.mark.parametrize("function", READS)
def test_a_read_at_a_place_that_a_tensor_holds(function: Callable[[Tensor, Tensor], Tensor]) -> None:
    compiled = fxc.compile(function, inputs(1)[:2])
    for place in (1, 0):
        torch.testing.assert_close(compiled(*inputs(place)[:2]), function(*inputs(place)[:2]))


@pytest.mark.parametrize("function", [whole, broadcast])
def test_gradients_of_what_is_written(function: Callable[..., Tensor]) -> None:
    x, p, v = inputs(1)
    compiled = fxc.compile(function, (x, p, v.clone().requires_grad_()), training=True)
    found = []
    for run in (compiled, function):
        x, p, v = inputs(2 if function is whole else 1)
        v.requires_grad_()
        found.append(torch.autograd.grad(run(x, p, v).square().sum(), v))
    torch.testing.assert_close(*found)


def test_a_number_that_an_operator_needs() -> None:
    """It is refused with the line that takes it, and the way out."""
    with pytest.raises(CaptureError) as caught:
        fxc.compile(torch.nn.BatchNorm1d(3, momentum=None), (torch.randn(4, 3),))
    assert caught.value.place is not None and "float(self.num_batches_tracked)" in caught.value.place
    assert caught.value.hint is not None and "give it a momentum" in caught.value.hint
    fxc.compile(torch.nn.BatchNorm1d(3, momentum=None).eval(), (torch.randn(4, 3),))
