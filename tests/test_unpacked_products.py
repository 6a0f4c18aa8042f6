"""Weights of 8 and 4 bits: products of few rows compute them and do not write them to memory."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import fxc
from tests.products import HOST, seeded  # noqa: F401 (seeded is a fixture of every test here)


def symmetric(w: Tensor, scale: Tensor, zero: Tensor) -> Tensor:
    return w.to(scale.dtype) * scale[:, :1]


def with_zero_points(w: Tensor, scale: Tensor, zero: Tensor) -> Tensor:
    return (w.to(scale.dtype) - zero[:, :1]) * scale[:, :1]


def groups(w: Tensor, scale: Tensor, zero: Tensor) -> Tensor:
    rows, columns = w.shape
    grouped = (w.to(scale.dtype) - 8).view(rows, scale.shape[1], -1) * scale[:, :, None] + zero[:, :, None]
    return grouped.view(rows, columns)


def halves_of_bytes(p: Tensor, scale: Tensor, zero: Tensor) -> Tensor:
    return groups(torch.stack([p & 15, p >> 4], -1).flatten(1), scale, zero)


def shifted_bytes(p: Tensor, scale: Tensor, zero: Tensor) -> Tensor:
    return groups((p[..., None] >> torch.tensor([0, 4], dtype=torch.uint8) & 15).flatten(1), scale, zero)


def int8(rows: int, columns: int) -> Tensor:
    return torch.randint(-128, 128, (rows, columns)).to(torch.int8)


def nibbles(rows: int, columns: int) -> Tensor:
    return torch.randint(0, 256, (rows, columns // 2)).to(torch.uint8)


def float8(rows: int, columns: int) -> Tensor:
    return torch.randn(rows, columns).to(torch.float8_e4m3fn)


WEIGHTS: dict[str, tuple[Callable[..., Tensor], Callable[[int, int], Tensor]]] = {
    "int8": (symmetric, int8),
    "int8 with zero points": (with_zero_points, int8),
    "int4": (halves_of_bytes, nibbles),
    "int4 by shifts": (shifted_bytes, nibbles),
    "float8": (symmetric, float8),
}


def wide(value: Tensor) -> Tensor:
    return value.double() if value.dtype in (torch.float32, torch.bfloat16) else value


@pytest.mark.share(4)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("weight", WEIGHTS)
@pytest.mark.parametrize(("count", "rows", "columns"), [(1, 1, 6), (1, 33, 90), (2, 5, 34), (2, 64, 128), (1, 7, 510)])
def test_linear(count: int, rows: int, columns: int, weight: str, dtype: torch.dtype) -> None:
    """As near to float64 as eager, in one kernel without the weight in floats; two rows of some formats are a product."""
    unpack, packed = WEIGHTS[weight]
    x, w, bias = torch.randn(count, columns, dtype=dtype), packed(rows, columns), torch.randn(rows, dtype=dtype)
    scale, zero = torch.rand(rows, columns // (columns // 2), dtype=dtype), torch.randint(-8, 8, (rows, 2)).to(dtype)

    def linear(x: Tensor, w: Tensor, scale: Tensor, zero: Tensor, bias: Tensor) -> Tensor:
        return torch.relu(F.linear(x, unpack(w, scale, zero), bias))

    given = x, w, scale, zero, bias
    compiled = fxc.compile(linear, given, options=HOST)
    exact, eager, found = linear(*map(wide, given)), linear(*given), compiled(*given)
    torch.testing.assert_close(found, eager, atol=float(exact.abs().max()) * (1e-5 if dtype == torch.float32 else 0.01), rtol=0)
    least = torch.finfo(dtype).eps * exact.abs().max()
    assert (found - exact).abs().max() <= 2 * (eager - exact).abs().max() + least
    if count == 1:
        views = 1 if weight == "float8" else 0
        assert (compiled.plan.stats.launches, compiled.plan.stats.library_calls) == (1, views)


def test_columns_per_output_and_stacks_of_rows() -> None:
    w, scale = int8(40, 24), torch.rand(24)
    for x in (torch.randn(1, 40), torch.randn(1, 1, 40), torch.randn(40)):
        compiled = fxc.compile(lambda x, w, s: x @ (w.to(torch.float32) * s), (x, w, scale), options=HOST)
        torch.testing.assert_close(compiled(x, w, scale), x @ (w.float() * scale), rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
def test_each_float8(dtype: torch.dtype) -> None:
    x = torch.arange(256).to(torch.uint8).view(torch.float8_e4m3fn)
    compiled = fxc.compile(lambda x: -x.to(dtype), (x,), options=HOST)
    assert (compiled.plan.stats.launches, compiled.plan.stats.library_calls) == (1, 1), "a kernel, and a view as bytes"
    found, exact = compiled(x), -x.to(dtype)
    torch.testing.assert_close(found, exact, rtol=0, atol=0, equal_nan=True)
    number = ~exact.isnan()
    assert torch.equal(found.signbit()[number], exact.signbit()[number])
