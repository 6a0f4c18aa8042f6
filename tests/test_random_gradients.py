"""Random numbers drawn like a tensor, or into one, that requires a gradient: eager's numbers and gradients."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import fxc
from fxc.errors import FallbackWarning


def _into_a_part(x: Tensor) -> Tensor:
    y = x * 1
    y[1:].normal_()
    return y * x


DRAWS: dict[str, Callable[[Tensor], Tensor]] = {
    "randint_like": lambda x: x * torch.randint_like(x, 3, 9),
    "randint_like, below": lambda x: x * torch.randint_like(x, 9),
    "rand_like": lambda x: x * torch.rand_like(x),
    "bernoulli_": lambda x: x * x.clone().bernoulli_(0.4),
    "bernoulli_, transposed": lambda x: x * x.t().clone().bernoulli_(0.4).t(),
    "bernoulli_ of a tensor": lambda x: x * (x * 1).bernoulli_(x.sigmoid()),
    "normal_": lambda x: x * x.clone().normal_(1, 2),
    "normal_, a part": _into_a_part,
    "uniform_": lambda x: x * (x * 1).uniform_(),
    "exponential_": lambda x: x * (x * 1).exponential_(),
    "random_": lambda x: x * x.clone().random_(2, 7),
    "geometric_": lambda x: x * (x * 1).geometric_(0.4),
    "log_normal_": lambda x: x * (x * 1).log_normal_(),
    "cauchy_": lambda x: x * (x * 1).cauchy_(),
}


@pytest.mark.parametrize("name", DRAWS)
def test_draws_have_eagers_gradients(name: str) -> None:
    function = DRAWS[name]
    compiled = fxc.compile(function, (torch.ones(2, 3, requires_grad=True),), training=True)
    found, x = list[tuple[Tensor, ...]](), torch.arange(1.0, 7).view(2, 3).requires_grad_()
    for each in (compiled, function):
        torch.manual_seed(0)
        result = each(x)
        found.append((result, *torch.autograd.grad(result.sum(), x), torch.rand(2)))
    torch.testing.assert_close(*found)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int32, torch.uint8], ids=str)
def test_integers_between_two_numbers(dtype: torch.dtype) -> None:
    def f(x: Tensor) -> tuple[Tensor, Tensor]:
        return x.clone().random_(2, 7), x.t().clone().random_(0, 200)

    x, found = torch.zeros(33, 7, dtype=dtype), list[tuple[Tensor, ...]]()
    for each in (fxc.compile(f, (x,)), f):
        torch.manual_seed(0)
        found.append((*each(x), torch.rand(2)))
    torch.testing.assert_close(*found, check_stride=True)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32], ids=str)
def test_bounds_that_a_dtype_lacks_are_eagers_too(dtype: torch.dtype) -> None:
    stop = int(2 / torch.finfo(dtype).eps) * 3 + 1

    def f(x: Tensor) -> Tensor:
        return x.clone().random_(3, stop)

    x, found = torch.zeros(50, dtype=dtype), list[Tensor]()
    with pytest.warns(FallbackWarning):
        compiled = fxc.compile(f, (x,), options={"fallback": True})
    for each in (compiled, f):
        torch.manual_seed(0)
        found.append(each(x))
    assert torch.equal(*found)
