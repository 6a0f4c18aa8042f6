"""Fakes lie as the results of kernels do, for operands in each order of dimensions."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from fxc.bridge.eager_strides import lay_out_as_eager

ATEN: Any = torch.ops.aten
SIZES = (4, 6, 3)
ORDERS = list(itertools.permutations(range(3)))
ONE = torch.ones(())
OPERATORS: dict[str, tuple[int, Callable[..., Tensor]]] = {
    "mse_loss_backward": (3, lambda g, x, y: ATEN.mse_loss_backward(g, x, y, 0)),
    "mse_loss_backward, mean": (2, lambda x, y: ATEN.mse_loss_backward(ONE, x, y, 1)),
    "smooth_l1_loss_backward": (3, lambda g, x, y: ATEN.smooth_l1_loss_backward(g, x, y, 0, 1.0)),
    "huber_loss_backward": (3, lambda g, x, y: ATEN.huber_loss_backward(g, x, y, 0, 1.0)),
    "soft_margin_loss_backward": (3, lambda g, x, y: ATEN.soft_margin_loss_backward(g, x, y, 0)),
    "binary_cross_entropy_backward": (3, lambda g, x, y: ATEN.binary_cross_entropy_backward(g, x, y, None, 0)),
    "elu_backward": (2, lambda g, x: ATEN.elu_backward(g, 1.0, 1.0, 1.0, False, x)),
    "gelu_backward": (2, lambda g, x: ATEN.gelu_backward(g, x)),
    "hardsigmoid_backward": (2, lambda g, x: ATEN.hardsigmoid_backward(g, x)),
    "hardswish_backward": (2, lambda g, x: ATEN.hardswish_backward(g, x)),
    "hardtanh_backward": (2, lambda g, x: ATEN.hardtanh_backward(g, x, 0, 1)),
    "leaky_relu_backward": (2, lambda g, x: ATEN.leaky_relu_backward(g, x, 0.1, False)),
    "mish_backward": (2, lambda g, x: ATEN.mish_backward(g, x)),
    "silu_backward": (2, lambda g, x: ATEN.silu_backward(g, x)),
    "softplus_backward": (2, lambda g, x: ATEN.softplus_backward(g, x, 1.0, 20.0)),
    "threshold_backward": (2, lambda g, x: ATEN.threshold_backward(g, x, 0.3)),
    "_softmax_backward_data": (2, lambda g, x: ATEN._softmax_backward_data(g, x, 1, torch.float32)),
    "_log_softmax_backward_data": (2, lambda g, x: ATEN._log_softmax_backward_data(g, x, 1, torch.float32)),
    "native_layer_norm_backward": (
        2,
        lambda g, x: ATEN.native_layer_norm_backward(
            g, x, [3], torch.zeros(4, 6, 1), torch.ones(4, 6, 1), None, None, [True, False, False]
        )[0],
    ),
    "angle": (1, lambda x: torch.complex(x, x).angle()),
    "isin": (2, torch.isin),
    "poisson": (1, torch.poisson),
    "_standard_gamma": (1, lambda x: ATEN._standard_gamma(x)),
    "gather": (2, lambda x, i: x.gather(1, (i * 4).long())),
    "scatter_add": (2, lambda x, i: x.scatter_add(1, (i * 4).long(), x)),
    "masked_scatter": (2, lambda x, m: x.masked_scatter(m > 0.5, x)),
    "cumsum": (1, lambda x: x.cumsum(1)),
    "sort": (1, lambda x: x.sort(1)[0]),
    "topk": (1, lambda x: x.topk(2, 1)[0]),
    "logsumexp": (1, lambda x: x.logsumexp(1)),
}  # fmt: skip


def _lying(order: tuple[int, ...], generator: torch.Generator) -> Tensor:
    made = torch.rand([SIZES[dim] for dim in order], generator=generator)
    return made.permute([order.index(dim) for dim in range(3)])


@pytest.mark.parametrize("name", OPERATORS)
def test_results_lie_as_those_of_kernels(name: str) -> None:
    count, operator = OPERATORS[name]
    generator = torch.Generator().manual_seed(1)
    for orders in itertools.product(ORDERS, repeat=count):
        operands = [_lying(order, generator) for order in orders]
        mode = FakeTensorMode(allow_non_fake_inputs=True)
        lay_out_as_eager(mode)
        with mode:
            fake = operator(*map(mode.from_tensor, operands))
        real = operator(*operands)
        assert (real.dtype, real.shape, real.stride()) == (fake.dtype, fake.shape, fake.stride()), orders


LOSSES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "mse_loss": F.mse_loss,
    "huber_loss": F.huber_loss,
    "smooth_l1_loss": F.smooth_l1_loss,
    "softplus": lambda x, y: (F.softplus(x) * y).sum(),
    "log_softmax": lambda x, y: (F.log_softmax(x, 1) * y).sum(),
}


@pytest.mark.slow
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", LOSSES)
def test_gradients_of_losses_of_transposed_targets(name: str, dynamic: bool) -> None:
    def model(x: Tensor, y: Tensor) -> Tensor:
        return LOSSES[name](y, x.transpose(0, 1).sin())

    torch._dynamo.reset()
    compiled = torch.compile(model, backend="fxc", dynamic=dynamic)
    for rows in (5, 7):
        gradients = list[Any]()
        for function in (model, compiled):
            torch.manual_seed(0)
            x, y = (torch.randn(size, dtype=torch.float64).requires_grad_() for size in ((4, rows, 3), (rows, 4, 3)))
            gradients.append(torch.autograd.grad(function(x, y), (x, y)))
        torch.testing.assert_close(gradients[1], gradients[0])


@pytest.mark.slow
@pytest.mark.parametrize("dynamic", [False, True])
def test_one_hot_is_contiguous(dynamic: bool) -> None:
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: F.one_hot(x, 7), backend="fxc", dynamic=dynamic)
    for order in ORDERS:
        x = torch.arange(24).reshape(2, 3, 4).permute(order) % 7
        assert compiled(x).stride() == F.one_hot(x, 7).stride()
        assert torch.equal(compiled(x), F.one_hot(x, 7))
