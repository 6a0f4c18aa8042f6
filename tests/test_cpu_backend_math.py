"""How exact the elementary functions of kernels are: against PyTorch in float64, in units of the last place of float32.

The table ``LIMITS`` holds the largest error on about 1.5 million numbers: every exponent of float32, and dense samples where
the functions are used. Infinities, NaN, signed zeros and denormals must come out right.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.tile_programs import TARGETS, kernel_text, parse_kernel, run_native

LIMITS = {
    "exp": 0.98,
    "exp2": 0.98,
    "expm1": 0.51,
    "log": 1.1,
    "log2": 0.51,
    "log10": 0.51,
    "log1p": 0.51,
    "erf": 1.2,
    "tanh": 1.32,
    "sin": 0.57,
    "cos": 0.57,
    "tan": 1.05,
    "sinh": 0.51,
    "cosh": 0.51,
    "asin": 0.51,
    "acos": 0.51,
    "atan": 0.51,
    "asinh": 0.51,
    "acosh": 0.51,
    "atanh": 0.51,
    "cbrt": 0.51,
    "rsqrt": 1.5,
    "sqrt": 0.5,
}
"""Largest errors, a little rounded up; beyond 2**20 sin, cos and tan are the C library's."""

SPECIAL = (math.nan, math.inf, -math.inf, 0.0, -0.0, 1e-45, -1e-45, 1e-40, -1e-40, 1.17549435e-38, 3.4e38, -3.4e38, 1.0, -1.0)
EDGES = (88.72, 88.73, -87.4, -103.9, -104.1, 127.99, 128.0, -126.1, -149.0, -150.1, 710.0, 0.625, 0.92774, 2.0**20, 1e20)


def _numbers() -> Tensor:
    every_exponent = torch.arange(-(2**31), 2**31, 4099, dtype=torch.int64).to(torch.int32).view(torch.float32)
    dense = [torch.linspace(a, b, 100_001) for a, b in ((-1, 1), (-10, 10), (-110, 110), (0.5, 2), (1 - 1e-4, 1 + 1e-4))]
    return torch.cat([every_exponent, *dense, torch.tensor(SPECIAL), torch.tensor(EDGES)])


NUMBERS = _numbers()


def compute(name: str, inputs: list[Tensor], width: int = 16, target=None) -> Tensor:
    """``math.name`` of all numbers, in blocks; the last of these is masked."""
    count = inputs[0].numel()
    block = f"vector<{width}xf32>"
    loads = [f"%a{i} = tile.load %x{i}[%i] strides [1], %m, %zero : !tile.ptr<f32> -> {block}" for i in range(len(inputs))]
    body = f"""
  %start = arith.constant 0 : index
  %stop = arith.constant {count} : index
  %step = arith.constant {width} : index
  %zero = arith.constant 0.0 : f32
  scf.for %i = %start to %stop step %step {{
    %m = tile.mask %i, %stop {{dim = 0}} : {block[:-4]}i1>
    {"; ".join(loads).replace("; ", chr(10))}
    %r = math.{name} {", ".join(f"%a{i}" for i in range(len(inputs)))} : {block}
    tile.store %r, %y0[%i] strides [1], %m : {block}, !tile.ptr<f32>
  }}"""
    result = torch.empty_like(inputs[0])
    run_native(parse_kernel(kernel_text(body, inputs, [result])), [*inputs, result], target)
    return result


def errors(found: Tensor, exact: Tensor) -> Tensor:
    """In units of the last place; infinite where one is finite or NaN and the other is not, or a zero has the wrong sign."""
    rounded = exact.float()
    size = rounded.abs()
    unit = (torch.nextafter(size, torch.tensor(math.inf)) - size).double()
    finite = torch.isfinite(rounded) & torch.isfinite(found)
    wrong = ~finite & (found != rounded) & ~(found.isnan() & rounded.isnan())
    wrong |= (exact == 0) & (torch.signbit(found) != torch.signbit(rounded))
    error = torch.where(finite, (found.double() - exact).abs() / unit, 0.0)
    return torch.where(wrong, math.inf, error)


def reference(name: str) -> Callable[[Tensor], Tensor]:
    if name == "cbrt":
        return lambda x: torch.from_numpy(np.cbrt(x.numpy()))
    return getattr(torch, name)


@pytest.mark.share(3)
@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
@pytest.mark.parametrize("name", LIMITS)
def test_largest_error(name: str, target) -> None:
    numbers = NUMBERS if target is None else NUMBERS[::7].contiguous()
    error = errors(compute(name, [numbers], 16 if target is None else 8, target), reference(name)(numbers.double()))
    worst = int(error.argmax())
    assert error[worst] <= LIMITS[name], f"{name}({numbers[worst].item()!r}): {error[worst].item():.3f} ulp"


@pytest.mark.parametrize("name", ["exp", "erf", "tanh", "log", "sin", "cbrt"])
def test_scalars_and_blocks_of_any_size_give_the_same(name: str) -> None:
    numbers = NUMBERS[:: NUMBERS.numel() // 300].contiguous()
    expected = compute(name, [numbers])
    for width in (1, 3, 32):
        assert torch.equal(compute(name, [numbers], width).nan_to_num(7), expected.nan_to_num(7))


@pytest.mark.parametrize(("name", "function"), [("powf", torch.pow), ("atan2", torch.atan2)])
def test_functions_of_two_numbers(name: str, function: Callable[[Tensor, Tensor], Tensor]) -> None:
    some = torch.tensor([*SPECIAL, 0.5, -0.5, 2.0, -2.0, 3.0, -3.0, 2.5, 1e-3, 1e10, -7.0, 16777217.0, 1.0000001, 0.9999999])
    first, second = (grid.flatten().contiguous() for grid in torch.meshgrid(some, some, indexing="ij"))
    generator = torch.Generator().manual_seed(0)
    random = [torch.rand(100_000, generator=generator) * 40, torch.randn(100_000, generator=generator) * 20]
    first, second = torch.cat([first, random[0]]), torch.cat([second, random[1]])
    error = errors(compute(name, [first, second]), function(first.double(), second.double()))
    worst = int(error.argmax())
    assert error[worst] <= 0.51, f"{name}({first[worst]}, {second[worst]}): {error[worst].item():.3f} ulp"
