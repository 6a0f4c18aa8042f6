"""Fakes have the sizes and devices of what kernels return, where those of some release of PyTorch have not."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from fxc.bridge.eager_strides import lay_out_as_eager

_aten = torch.ops.aten
SIZES: dict[str, Callable[[Tensor], object]] = {
    "split of nothing": lambda x: [part.shape for part in x[:, :0].split(2, -1)],
    "split": lambda x: [part.shape for part in x.split(2)],
    "norm along one element": lambda x: torch.linalg.vector_norm(x[:1], 2, dim=-2).shape,
    "norm along two dimensions": lambda x: torch.linalg.vector_norm(x[:1, :1], 3, dim=[0, -1]).shape,
    "norm of all": lambda x: torch.linalg.vector_norm(x[:1, :1]).shape,
}


@pytest.fixture
def mode() -> FakeTensorMode:
    made = FakeTensorMode()
    lay_out_as_eager(made)
    return made


@pytest.mark.parametrize("name", SIZES)
def test_sizes(name: str, mode: FakeTensorMode) -> None:
    with mode:
        found = SIZES[name](torch.ones(5, 3))
    assert found == SIZES[name](torch.ones(5, 3))


@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_seeds_of_attention_are_on_the_cpu(dropout: float, mode: FakeTensorMode) -> None:
    """Its kernel on a GPU returns them there, and takes them from there."""
    with mode:
        q = torch.empty(2, 4, 16, 8, device="cuda")
        results = _aten._scaled_dot_product_efficient_attention.default(q, q, q, None, True, dropout, True)
        assert [result.device.type for result in results] == ["cuda", "cuda", "cpu", "cpu"]
        gradients = _aten._scaled_dot_product_efficient_attention_backward.default(
            results[0], q, q, q, None, *results, dropout, [True, True, True, False], True
        )
        assert [gradient.device.type for gradient in gradients[:3]] == ["cuda"] * 3
