"""Numbers, and tensors of other dtypes, beside half precision: kernels round them where PyTorch's CPU loops do."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import fxc
from fxc.passes.operators.scalars import as_half

HALVES = {"float16": torch.float16, "bfloat16": torch.bfloat16}
INTEGERS = torch.arange(1000, 1067)
FUNCTIONS: dict[str, Callable[[Tensor, float], Tensor]] = {
    "add": lambda x, s: x + s,
    "subtract": lambda x, s: x - s,
    "subtract from": lambda x, s: s - x,
    "multiply": lambda x, s: x * s,
    "divide": lambda x, s: x / s,
    "floor": lambda x, s: x // s,
    "truncate": lambda x, s: torch.div(x, s, rounding_mode="trunc"),
    "remainder": lambda x, s: x % s,
    "remainder of a number": lambda x, s: torch.remainder(s, x),
    "fmod": torch.fmod,
    "power": lambda x, s: x.abs() ** s,
    "power of a number": lambda x, s: s**x,
    "compare": lambda x, s: x > s,
    "maximum": lambda x, s: torch.maximum(x, torch.tensor(s)),
    "atan2": lambda x, s: torch.atan2(x, torch.tensor(s)),
    "add a tensor": lambda x, s: x + torch.tensor(s),
    "multiply by a tensor": lambda x, s: x * torch.tensor(s),
    "multiply a tensor": lambda x, s: torch.tensor(s) * x,
    "compare with a tensor": lambda x, s: x > torch.tensor(s),
    "hardshrink": F.hardshrink,
    "softshrink": F.softshrink,
    "threshold": lambda x, s: F.threshold(x, s, 5.0),
    "leaky_relu": F.leaky_relu,
    "addcmul": lambda x, s: torch.addcmul(x, x, x, value=s),
    "add integers": lambda x, s: x + INTEGERS,
    "multiply by integers": lambda x, s: x * INTEGERS,
    "nextafter": lambda x, s: torch.nextafter(x, torch.full_like(x, s)),
}


@pytest.mark.share(3)
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_numbers_are_rounded_as_in_eager(name: str, dtype: str) -> None:
    for number in (0.1, 3.3):
        near = torch.tensor([number, -number, 100.0, -25.0])
        values = torch.cat([near, torch.randn(63, generator=torch.Generator().manual_seed(0)) * 3]).to(HALVES[dtype])

        def f(x: Tensor, number: float = number) -> tuple[Tensor, Tensor]:
            return FUNCTIONS[name](x, number), x * 2

        compiled = fxc.compile(f, (values,), options={"target": "host"})
        torch.testing.assert_close(compiled(values)[0], f(values)[0], rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("dtype", HALVES)
def test_a_number_in_half_precision(dtype: str) -> None:
    random = torch.randn(2000, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    ends = torch.tensor([0.0, -0.0, 65504.0, 65519.9, 65520.0, 3.4e38, 1e300, -1e300, 6e-8, 1e-40, torch.inf, -torch.inf])
    for number in [*(random * 10 ** random.roll(1).mul(6)).tolist(), *ends.tolist()]:
        assert as_half(number, dtype) == torch.tensor(number).to(HALVES[dtype]).item(), number
    assert torch.tensor(as_half(float("nan"), dtype)).isnan()


BEYOND: dict[str, Callable[[Tensor], Tensor]] = {
    "add": lambda x: x * 2 + 1e300,
    "compare": lambda x: (x > 1e300).float() + 1,
    "power": lambda x: x.pow(1e300) * 2,
    "half": lambda x: (x.half() + 1e39) * 2,
    "clamp": lambda x: x.clamp(-1e300, 1e300) * 2,
    "threshold": lambda x: F.threshold(x, 0.5, 1e300) * 2,
}


@pytest.mark.parametrize("name", BEYOND)
def test_numbers_beyond_the_range_of_a_dtype(name: str) -> None:
    """Calls of PyTorch: some operators make such a number an infinity, others raise an error."""
    x = torch.tensor([-1.5, 0.25, 1.0, 3.0])
    compiled = fxc.compile(BEYOND[name], (x,), options={"cache_plans": False, "target": "host"})
    try:
        expected = BEYOND[name](x)
    except RuntimeError as error:
        with pytest.raises(RuntimeError, match=str(error)):
            compiled(x)
    else:
        torch.testing.assert_close(compiled(x), expected)


def test_half_precision_is_rounded_where_a_kernel_stores_it() -> None:
    def function(x: Tensor) -> Tensor:
        return (x + 2048) + 1 - 2048

    x = torch.ones(4, dtype=torch.float16)
    assert function(x).tolist() == [0] * 4
    assert fxc.compile(function, (x,), options={"target": "host"})(x).tolist() == [2] * 4
