"""Batches of gradients through backwards that torch.compile compiles: vectorized Jacobians, ``is_grads_batched``."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.functional import jacobian

from fxc.errors import InputError

FUNCTIONS: dict[str, Callable[[Tensor], Tensor | tuple[Tensor, ...]]] = {
    "elementwise": lambda x: (x.sin() * x.cumsum(0)).tanh(),
    "two results": lambda x: (x.sin().sum(), x.exp()),
    "of complex numbers": lambda x: torch.fft.rfft(x).abs(),
    "product": lambda x: x.view(2, 3) @ x.view(3, 2),
    "softmax": lambda x: F.softmax(x.view(2, 3), 1),
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_vectorized_jacobian(name: str, dynamic: bool) -> None:
    torch._dynamo.reset()
    function, x = FUNCTIONS[name], torch.linspace(-1, 2, 6, dtype=torch.float64)
    compiled = torch.compile(function, backend="fxc", dynamic=dynamic)
    torch.testing.assert_close(jacobian(compiled, x, vectorize=True), jacobian(function, x))


def test_weights_of_a_module_have_batches_of_gradients() -> None:
    torch._dynamo.reset()
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.LayerNorm(4), torch.nn.Linear(4, 2)).double()
    compiled, x, given = (
        torch.compile(net, backend="fxc"),
        torch.randn(5, 3, dtype=torch.float64),
        torch.randn(7, 5, 2).double(),
    )
    want, got = (
        torch.autograd.grad(each(x), [*net.parameters()], given, is_grads_batched=True) for each in (net, compiled)
    )  # fmt: skip
    torch.testing.assert_close(got, want)


def test_a_batch_of_batches_is_refused() -> None:
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: x.sin().exp(), backend="fxc")
    x = torch.ones(3, requires_grad=True)
    y = compiled(x)

    def row(gradient: Tensor) -> Tensor:
        return torch.autograd.grad(y, x, gradient, retain_graph=True, is_grads_batched=True)[0]

    with pytest.raises(InputError, match="a batch of batches of gradients"):
        torch._vmap_internals._vmap(row)(torch.ones(2, 4, 3))
