"""Losses with margins: eager's gradients where a margin is just met, by each way to compile."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn, tensor

import fxc

TIES = tensor([[1.0, 1, 0], [0, 2, 2], [-0.0, 0, 0], [0.5, -0.5, -0.5]])
ONE, SEVERAL = tensor([0, 1, 2, 1]), tensor([[0, -1, 1], [1, 2, -1], [2, 0, 1], [0, 1, -1]])

LOSSES: dict[str, Callable[[Tensor], Any]] = {
    "multi_margin": lambda x: F.multi_margin_loss(x, ONE),
    "multi_margin, squares": lambda x: F.multi_margin_loss(x, ONE, p=2),
    "multi_margin, weights": lambda x: F.multi_margin_loss(x, ONE, margin=0.5, weight=tensor([1.0, 2, 3]), reduction="none"),
    "multi_margin of a result": lambda x: nn.MultiMarginLoss()(x * 2, ONE).exp(),
    "multi_margin, operator": lambda x: torch.ops.aten.multi_margin_loss(x, ONE),
    "multilabel_margin": lambda x: F.multilabel_margin_loss(x, SEVERAL),
    "multilabel_margin, rows": lambda x: nn.MultiLabelMarginLoss(reduction="none")(x.neg(), SEVERAL),
    "margin_ranking": lambda x: F.margin_ranking_loss(x, x.flip(0), torch.ones_like(x)),
    "hinge_embedding": lambda x: F.hinge_embedding_loss(x, -torch.ones_like(x)),
    "soft_margin": lambda x: F.soft_margin_loss(x, x.detach().sign()),
}


def compiled_by(how: str, f: Callable[[Tensor], Tensor], x: Tensor) -> Callable[[Tensor], Any]:
    if how == "torch.compile":
        torch._dynamo.reset()
        return torch.compile(f, backend="fxc")
    return fxc.compile(f, (x,), training=True, options={"target": "host" if how == "host" else None})


@pytest.mark.share(3)
@pytest.mark.parametrize("how", ["torch.compile", "training", "host"])
@pytest.mark.parametrize("name", LOSSES)
def test_gradients_where_margins_are_met(name: str, how: str) -> None:
    f, x, y = LOSSES[name], TIES.clone().requires_grad_(), TIES.clone().requires_grad_()
    compiled = compiled_by(how, f, y)
    got, wanted = compiled(y), f(x)
    torch.testing.assert_close(got, wanted)
    torch.testing.assert_close(torch.autograd.grad(got.sum(), y), torch.autograd.grad(wanted.sum(), x))
    torch.testing.assert_close(compiled(TIES), f(TIES))


@pytest.mark.share(4)
@pytest.mark.parametrize("how", ["torch.compile", "training", "host"])
@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0,)])
@pytest.mark.parametrize("loss", [F.mse_loss, F.smooth_l1_loss, F.huber_loss, F.l1_loss])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_losses_of_nothing(loss: Callable[..., Tensor], shape: tuple[int, ...], reduction: str, how: str) -> None:
    """PyTorch's formula of the gradient divides by the number of elements, in Python."""
    x, target = torch.ones(shape, requires_grad=True), torch.zeros(shape)

    def f(x: Tensor) -> Tensor:
        return loss(x * 2, target, reduction=reduction)

    compiled = compiled_by(how, f, x)
    got = compiled(x)
    torch.testing.assert_close(got, f(x), equal_nan=True)
    [gradient] = torch.autograd.grad(got.sum(), x)
    assert gradient.shape == x.shape


@pytest.mark.parametrize("how", ["torch.compile", "training", "host"])
@pytest.mark.parametrize("shape", [(1, 0), (2, 4, 0), (0, 4, 3)])
def test_group_norms_of_nothing(shape: tuple[int, ...], how: str) -> None:
    """So does that of the gradient of a group norm."""
    x = torch.ones(shape, requires_grad=True)

    def f(x: Tensor) -> Tensor:
        return F.group_norm(x * 2, 1)

    compiled = compiled_by(how, f, x)
    got = compiled(x)
    torch.testing.assert_close(got, f(x))
    assert torch.autograd.grad(got.sum(), x)[0].shape == shape
