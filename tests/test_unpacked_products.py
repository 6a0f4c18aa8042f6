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


def joined_columns(p: Tensor, scale: Tensor, zero: Tensor) -> Tensor:
    return groups(torch.cat([p & 15, p >> 4], 1), scale, zero)


def joined_rows(p: Tensor, scale: Tensor, zero: Tensor) -> Tensor:
    """Of p with as many columns as the matrix, and half as many rows."""
    return groups(torch.cat([p & 15, p >> 4]), scale, zero)


def int8(rows: int, columns: int) -> Tensor:
    return torch.randint(-128, 128, (rows, columns)).to(torch.int8)


def nibbles(rows: int, columns: int) -> Tensor:
    return torch.randint(0, 256, (rows, columns // 2)).to(torch.uint8)


def rows_of_nibbles(rows: int, columns: int) -> Tensor:
    return torch.randint(0, 256, (rows // 2, columns)).to(torch.uint8)


def float8(rows: int, columns: int) -> Tensor:
    return torch.randn(rows, columns).to(torch.float8_e4m3fn)


WEIGHTS: dict[str, tuple[Callable[..., Tensor], Callable[[int, int], Tensor]]] = {
    "int8": (symmetric, int8),
    "int8 with zero points": (with_zero_points, int8),
    "int4": (halves_of_bytes, nibbles),
    "int4 by shifts": (shifted_bytes, nibbles),
    "int4 of halves of columns": (joined_columns, nibbles),
    "int4 of halves of rows": (joined_rows, rows_of_nibbles),
    "float8": (symmetric, float8),
}


def products(compiled: fxc.Compiled) -> list[str]:
    """The products that are calls."""
    return [
        op.name for op in compiled.ir.module.walk() if op.name.startswith("torch.") and ("mm" in op.name or "linear" in op.name)
    ]


def wide(value: Tensor) -> Tensor:
    return value.double() if value.dtype in (torch.float32, torch.bfloat16) else value


@pytest.mark.share(4)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("weight", WEIGHTS)
@pytest.mark.parametrize(("count", "rows", "columns"), [(1, 2, 20), (1, 34, 90), (2, 6, 34), (2, 64, 128), (1, 8, 510)])
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
    largest = F.linear(*(wide(each).abs() for each in (x, unpack(w, scale, zero), bias))).max()  # of the sums without signs
    torch.testing.assert_close(found, eager, atol=float(largest) * (1e-6 if dtype == torch.float32 else 0.01), rtol=0)
    least = torch.finfo(dtype).eps * largest
    assert (found - exact).abs().max() <= 2 * (eager - exact).abs().max() + least
    if count == 1:
        views = 1 if weight == "float8" else 0
        assert (compiled.plan.stats.launches, compiled.plan.stats.library_calls) == (1, views)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_columns_per_output_and_stacks_of_rows(dtype: torch.dtype) -> None:
    w, scale, bias = int8(40, 24), torch.rand(24, dtype=dtype), torch.randn(24, dtype=dtype)
    for x in (torch.randn(1, 40), torch.randn(1, 1, 40), torch.randn(40), torch.randn(2, 40), torch.randn(2, 1, 40)):
        given = x.to(dtype), w, scale, bias
        compiled = fxc.compile(lambda x, w, s, b: x @ (w.to(s.dtype) * s) + b, given, options=HOST)
        exact = x.to(dtype).double() @ (w.to(dtype) * scale).double() + bias.double()
        torch.testing.assert_close(compiled(*given).double(), exact, rtol=0.02, atol=0.02 * float(exact.abs().max()))
        assert compiled.plan.stats.launches == 1 and not products(compiled)


class Layer(torch.nn.Module):
    """A layer with a weight of bytes, and its scales."""

    def __init__(self, kind: str, outputs: int = 24, columns: int = 40) -> None:
        super().__init__()
        self.unpack, packed = WEIGHTS[kind]
        self.bias, self.groups = torch.nn.Parameter(torch.randn(outputs)), columns // 20
        for name, value in {
            "w": packed(outputs, columns),
            "scale": torch.rand(outputs, 2),
            "zero": torch.zeros(outputs, 2),
        }.items():
            self.register_buffer(name, value)

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.unpack(self.w, self.scale, self.zero), self.bias)


TOKENS = torch.export.Dim("tokens", max=4096)


@pytest.mark.share(2)
@pytest.mark.parametrize("weight", WEIGHTS)
@pytest.mark.parametrize("freeze", [False, True])
@pytest.mark.parametrize("tokens", [2, 40])
def test_a_free_number_of_rows_is_that_of_the_example(weight: str, freeze: bool, tokens: int) -> None:
    """Right for each number of rows; for few rows in the example the matrix is not written, also if weights are frozen."""
    layer = Layer(weight).requires_grad_(False)
    x = torch.randn(1, tokens, 40)
    compiled = fxc.compile(layer, (x,), dynamic_shapes=({1: TOKENS},), options={**HOST, "freeze": freeze})
    for count in (1, tokens, 67):
        given = torch.randn(1, count, 40)
        torch.testing.assert_close(compiled(given), layer(given), rtol=1e-4, atol=1e-3)
    assert bool(products(compiled)) == (tokens == 40)


def test_frozen_bytes_stay_bytes() -> None:
    layer = Layer("int8").requires_grad_(False)
    compiled = fxc.compile(layer, (torch.randn(1, 40),), options={**HOST, "freeze": True})
    assert "tensor<24x40xf32>" not in str(compiled.ir)
    many = fxc.compile(layer, (torch.randn(40, 40),), options={**HOST, "freeze": True})
    assert "tensor<24x40xf32>" in str(many.ir), "computed once"


@pytest.mark.parametrize("count", [1, 3, 20])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_product_of_pytorch_with_bytes(count: int, dtype: torch.dtype) -> None:
    def product(x: Tensor, w: Tensor, scale: Tensor) -> Tensor:
        return torch.ops.aten._weight_int8pack_mm(x, w, scale)

    given = torch.randn(count, 64, dtype=dtype), int8(32, 64), torch.rand(32, dtype=dtype) / 64
    compiled = fxc.compile(product, given, options=HOST)
    torch.testing.assert_close(compiled(*given), product(*given))
    assert (products(compiled) == ["torch.aten._weight_int8pack_mm.default"]) == (dtype == torch.bfloat16)


def test_a_packed_product_of_4_bits_is_a_call() -> None:
    packed = torch.ops.aten._convert_weight_to_int4pack_for_cpu(torch.randint(0, 16, (64, 64), dtype=torch.int32), 1)
    given = torch.randn(2, 64, dtype=torch.bfloat16), packed, torch.rand(2, 64, 2, dtype=torch.bfloat16)

    def product(x: Tensor, w: Tensor, scale: Tensor) -> Tensor:
        return torch.relu(torch.ops.aten._weight_int4pack_mm_for_cpu(x, w, 32, scale))

    compiled = fxc.compile(product, given, dynamic_shapes=({0: TOKENS}, None, None), options=HOST)
    assert torch.equal(compiled(*given), product(*given))


def test_a_conversion_and_what_reads_it_are_one_kernel() -> None:
    compiled = fxc.compile(lambda w, s: w.to(torch.float32) * s, (int8(8, 40), torch.rand(40)), options=HOST)
    assert (compiled.plan.stats.launches, compiled.plan.stats.library_calls) == (1, 0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
def test_each_float8(dtype: torch.dtype) -> None:
    x = torch.arange(256).to(torch.uint8).view(torch.float8_e4m3fn)
    compiled = fxc.compile(lambda x: -x.to(dtype), (x,), options=HOST)
    assert (compiled.plan.stats.launches, compiled.plan.stats.library_calls) == (1, 1), "a kernel, and a view as bytes"
    found, exact = compiled(x), -x.to(dtype)
    torch.testing.assert_close(found, exact, rtol=0, atol=0, equal_nan=True)
    number = ~exact.isnan()
    assert torch.equal(found.signbit()[number], exact.signbit()[number])
