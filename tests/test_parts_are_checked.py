"""The first run of a model in parts is compared with eager mode."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import fxc


@pytest.mark.slow
def test_gradients_that_parts_lose_are_refused() -> None:
    def curvature(x: torch.Tensor) -> torch.Tensor:
        return torch.autograd.functional.hvp(lambda t: (t.sin() * t).sum(), x, torch.ones(4), create_graph=True)[1].sum()

    x = torch.randn(4, requires_grad=True)
    with pytest.raises(fxc.errors.CaptureError, match="a gradient of a gradient is lost"):
        fxc.compile(curvature, (x,), training=True, options={"fallback": True})


class Straight(torch.autograd.Function):
    """The identity in the forward; its derivative is 3."""

    @staticmethod
    def forward(x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        return gradient * 3


@pytest.mark.slow
def test_results_that_differ_from_eager_mode_are_refused() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:  # Dynamo differentiates the forward instead
        return torch.func.grad(lambda t: (Straight.apply(t) * t).sum())(x)

    x = torch.randn(4, requires_grad=True)
    with pytest.raises(fxc.errors.CaptureError, match="the results are not those of eager mode"):
        fxc.compile(model, (x,), training=True, options={"fallback": True})
    torch.testing.assert_close(fxc.compile(model, (x,))(x), model(x))
