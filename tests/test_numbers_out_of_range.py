"""Numbers that the dtype of a result does not have: PyTorch raises an error where it fills, clamps or pads with one."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import fxc
from fxc.passes.operators.scalars import DTYPES, LARGEST, holds

NUMBERS = [0, 1, -1, 127, 128, -128, -129, 255, 256, -255, -256, 300.5, 65505.0, 65520.0, 3.39e38, 3.4e38, 1e300, math.inf]
FILLS: dict[str, Callable[[Tensor, float], Tensor]] = {
    "masked_fill": lambda x, number: x.masked_fill(x > 1, number),
    "clamp": lambda x, number: x.clamp(max=number),
    "pad": lambda x, number: torch.nn.functional.pad(x, (1, 1), value=number),
    "full_like": torch.full_like,
    "index_fill": lambda x, number: x.index_fill(0, torch.tensor([1]), number),
    "scatter": lambda x, number: x.scatter(0, torch.tensor([1]), number),
}


@pytest.mark.parametrize("dtype", sorted(DTYPES))
def test_the_range_is_that_of_a_fill(dtype: str) -> None:
    for number in [*NUMBERS, *(sign * bound for bound in LARGEST.values() for sign in (1, -1)), math.nan]:
        try:
            torch.ones(2, dtype=getattr(torch, dtype)).fill_(number)
        except RuntimeError:
            assert not holds(dtype, number), number
        else:
            assert holds(dtype, number), number


@pytest.mark.parametrize("name", FILLS)
@pytest.mark.parametrize(("dtype", "number"), [(torch.int8, 300), (torch.float16, 1e30)], ids=str)
def test_a_fill_out_of_range_is_eagers_error(name: str, dtype: torch.dtype, number: float) -> None:
    """Also between operators of one kernel."""
    x = torch.tensor([1, 2, 3]).to(dtype)

    def f(x: Tensor) -> Tensor:
        return FILLS[name](-(x * 2), number) + 1

    with pytest.raises(RuntimeError, match="without overflow"):
        f(x)
    torch._dynamo.reset()
    for call in (lambda: fxc.compile(f, (x,), options={"target": "host"})(x), lambda: torch.compile(f, backend="fxc")(x)):
        with pytest.raises(RuntimeError, match="without overflow"):
            call()


def test_arithmetic_wraps_or_is_infinite() -> None:
    """As in eager mode; only fills are errors."""
    small, half = torch.tensor([1, 2, 3], dtype=torch.int8), torch.tensor([1.0, -2.0], dtype=torch.float16)

    def f(small: Tensor, half: Tensor) -> tuple[Tensor, ...]:
        return (small * 2) + 300, (small * 2) * 300, small * 2 < 300, (half * 2) * 1e30, half * 2 < 1e30

    compiled = fxc.compile(f, (small, half), options={"target": "host"})
    torch.testing.assert_close(compiled(small, half), f(small, half), rtol=0, atol=0)
