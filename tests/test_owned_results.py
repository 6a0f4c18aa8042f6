"""Results are the caller's: where eager makes new tensors in each call, writing one changes no other, and no later call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import fxc

LAST, ROWS = torch.channels_last, torch.contiguous_format
ROUTES: dict[str, Callable[[Any, Tensor], Any]] = {
    "compile": lambda model, x: fxc.compile(model, [x]),
    "host": lambda model, x: fxc.compile(model, [x], options={"target": "host"}),
    "no target": lambda model, x: fxc.compile(model, [x], options={"target": None}),
    "frozen": lambda model, x: fxc.compile(model, [x], options={"freeze": True}),
    "training": lambda model, x: fxc.compile(model, [x], training=True),
    "torch.compile": lambda model, x: torch.compile(model, backend="fxc"),
    "torch.compile, frozen": lambda model, x: torch.compile(model, backend="fxc", options={"freeze": True}),
}


def twice(y: Tensor) -> list[Tensor]:
    return [y.clone(memory_format=LAST), y.clone(memory_format=LAST)]


COPIES: dict[str, Callable[[Tensor], list[Tensor]]] = {
    "there and back": lambda x: [x.clone(memory_format=ROWS).clone(memory_format=LAST)],
    "as it was": lambda x: [x.contiguous().contiguous(memory_format=LAST)],
    "twice": lambda x: twice(x.contiguous() * 2),
    "twice, and the original": lambda x: [*twice(x.contiguous() * 2), x.contiguous() * 2],
    "computed twice": lambda x: [(x * 2).clone(memory_format=LAST), (x * 2).clone(memory_format=LAST)],
    "another shape of a copy": lambda x: [x.contiguous().reshape(x.shape)],
    "zeros": lambda x: [torch.zeros(3), torch.zeros(3), x + 1],
    "numbers": lambda x: [torch.tensor([1.0, 2.0]), torch.arange(2).exp(), x + 1],
}
WEIGHTS: dict[str, Callable[[Tensor, Tensor], list[Tensor]]] = {
    "computed": lambda x, w: [x @ w, w.exp()],
    "copied": lambda x, w: [w.clone(), x @ w],
    "twice": lambda x, w: [w * 2, w * 2],
    "a view": lambda x, w: [w.exp().t(), x @ w.exp()],
    "a view of the shape of the input": lambda x, w: [w.exp().view(x.shape[0], -1)],
    "a reshape that copies": lambda x, w: [w.t().reshape(-1), x @ w],
    "read by others": lambda x, w: [w.exp(), x @ (w.exp() + 1)],
    "another dtype": lambda x, w: [w.double(), x + 1],
    "joined": lambda x, w: [torch.cat([w, w]), x @ w],
}


class Weighted(nn.Module):
    def __init__(self, f: Callable[[Tensor, Tensor], list[Tensor]]) -> None:
        super().__init__()
        self.w, self.f = nn.Parameter(torch.linspace(-1, 1, 9).view(3, 3), requires_grad=False), f

    def forward(self, x: Tensor) -> list[Tensor]:
        return self.f(x, self.w)


def check(model: Any, compiled: Any, x: Tensor) -> None:
    with torch.no_grad():
        expected, results = model(x), compiled(x)
        torch.testing.assert_close(results, expected)
        assert len(set(memory(results))) == len(results) and x.untyped_storage().data_ptr() not in memory(results)
        for result in results:
            result.zero_()
        torch.testing.assert_close(compiled(x), expected)


def memory(tensors: Sequence[Tensor]) -> list[int]:
    return [tensor.untyped_storage().data_ptr() for tensor in tensors]


@pytest.mark.share(3)
@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("name", COPIES)
def test_copies(name: str, route: str) -> None:
    torch._dynamo.reset()
    x = torch.linspace(-1, 1, 96).view(2, 3, 4, 4).contiguous(memory_format=LAST)
    check(COPIES[name], ROUTES[route](COPIES[name], x), x)


@pytest.mark.share(3)
@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("name", WEIGHTS)
def test_what_is_computed_of_weights(name: str, route: str) -> None:
    torch._dynamo.reset()
    model, x = Weighted(WEIGHTS[name]), torch.linspace(0, 2, 9).view(3, 3)
    check(model, ROUTES[route](model, x), x)
