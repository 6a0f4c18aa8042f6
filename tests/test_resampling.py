"""Images resized to the nearest element by kernels against eager: scales, sizes, layouts, dtypes, special values, gradients."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import fxc

HOST: dict[str, Any] = {"target": "host"}
MODES = ("nearest", "nearest-exact")
SCALES: tuple[dict[str, Any], ...] = (
    {"scale_factor": 2},
    {"scale_factor": 0.5},
    {"scale_factor": 1.7},
    {"scale_factor": 2.3, "recompute_scale_factor": True},
    {"size": 9},
    {"size": 1},
)


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


def agree(x: torch.Tensor, **how: Any) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return F.interpolate(x.neg(), **how) + 1

    compiled = fxc.compile(function, (x,), options=HOST)
    actual, expected = compiled(x), function(x)
    torch.testing.assert_close(actual, expected, equal_nan=True)
    assert actual.stride() == expected.stride()
    assert "aten_upsample" not in compiled.plan.code and "aten__upsample" not in compiled.plan.code


@pytest.mark.share(3)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("shape", [(2, 3, 7), (2, 3, 5, 7), (1, 2, 3, 4, 5)], ids=str)
@pytest.mark.parametrize("mode", MODES)
def test_scales_and_sizes(mode: str, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    for scale in SCALES:
        agree(torch.randn(shape).to(dtype), mode=mode, **scale)


@pytest.mark.parametrize("mode", MODES)
def test_images_in_channels_last(mode: str) -> None:
    agree(torch.randn(2, 5, 4, 6).to(memory_format=torch.channels_last), mode=mode, scale_factor=2)


@pytest.mark.parametrize("mode", MODES)
def test_special_values(mode: str) -> None:
    x = torch.randn(1, 1, 5, 5)
    x[0, 0, 0, 0], x[0, 0, 2, 2], x[0, 0, 4, 4] = math.nan, math.inf, -0.0
    agree(x, mode=mode, scale_factor=2)


def test_gradients() -> None:
    x = torch.randn(1, 2, 4, 4, dtype=torch.float64, requires_grad=True)

    def function(x: torch.Tensor) -> torch.Tensor:
        return F.interpolate(x.sin(), scale_factor=2).square().sum()

    compiled = fxc.compile(function, (x,), training=True, options=HOST)
    [actual], [expected] = (torch.autograd.grad(f(x), x) for f in (compiled, function))
    torch.testing.assert_close(actual, expected)
