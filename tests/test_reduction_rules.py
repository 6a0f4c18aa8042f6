"""Reductions of groups where eager's choices show: NaN, ties, empty dimensions, corrections, what is accumulated in."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import fxc
from fxc.dialects.tile import KernelOp
from fxc.dialects.torch_ops.base import TorchOp
from tests.kernel_engines import ENGINES, EngineInterpreter, functions_of
from tests.kernel_groups import calls_of, check

NAN, INF = math.nan, math.inf
ROWS = torch.tensor(
    [
        [1.0, 3.0, 3.0, -2.0, 3.0],
        [NAN, 1.0, INF, NAN, 2.0],
        [0.0, -0.0, 0.0, -0.0, 0.0],
        [-INF, -INF, -INF, -INF, -INF],
        [INF, -INF, 1.0, 2.0, 3.0],
        [5.0, 4.0, NAN, 5.0, INF],
    ]
)

REDUCTIONS: dict[str, Callable[[torch.Tensor, int], Any]] = {
    "sum": lambda x, dim: x.sum(dim),
    "mean": lambda x, dim: x.mean(dim),
    "nansum": lambda x, dim: x.nansum(dim),
    "prod": lambda x, dim: x.prod(dim),
    "amax": lambda x, dim: x.amax(dim),
    "amin": lambda x, dim: x.amin(dim, keepdim=True),
    "aminmax": lambda x, dim: torch.aminmax(x, dim=dim),
    "max": lambda x, dim: x.max(dim),
    "min": lambda x, dim: x.min(dim, keepdim=True),
    "argmax": lambda x, dim: x.argmax(dim),
    "argmin": lambda x, dim: x.argmin(dim, keepdim=True),
    "any": lambda x, dim: x.any(dim),
    "all": lambda x, dim: x.all(dim, keepdim=True),
    "var": lambda x, dim: x.var(dim, correction=0),
    "std": lambda x, dim: x.std(dim, correction=2),
    "var_mean": lambda x, dim: torch.var_mean(x, dim),
    "std_mean": lambda x, dim: torch.std_mean(x, dim, correction=0),
    "logsumexp": lambda x, dim: x.logsumexp(dim),
    "norm": lambda x, dim: torch.linalg.vector_norm(x, 2, dim),
    "norm of order 3": lambda x, dim: torch.linalg.vector_norm(x, 3, dim),
    "largest": lambda x, dim: torch.linalg.vector_norm(x, INF, dim),
    "smallest": lambda x, dim: torch.linalg.vector_norm(x, -INF, dim),
    "how many are not 0": lambda x, dim: torch.linalg.vector_norm(x, 0, dim),
    "count_nonzero": lambda x, dim: x.count_nonzero(dim),
}


MEANS = frozenset(["var_mean", "std_mean"])
"""Of what is infinite these say that the mean is NaN, where ``mean`` says that it is infinite."""


def compiled(function: Callable[[], Any]) -> int:
    """How many of the calls of ``function`` became kernels that give what eager gives."""
    return sum(check(call) for call in calls_of(function))


@pytest.mark.parametrize("name", REDUCTIONS)
def test_special_values(name: str) -> None:
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        rows = (ROWS.where(ROWS.isinf().logical_not(), 7.0) if name in MEANS else ROWS).to(dtype)
        for dim in (1, 0) if dtype is torch.float32 else (1,):
            assert compiled(lambda rows=rows, dim=dim: REDUCTIONS[name](rows, dim))


INTEGERS = ["sum", "prod", "amax", "amin", "aminmax", "max", "min", "argmax", "argmin", "any", "all", "count_nonzero", "nansum"]


@pytest.mark.parametrize("name", INTEGERS)
def test_integers(name: str) -> None:
    numbers = torch.tensor([[3, 250, 0, 7, 250], [1, 1, 1, 0, 0], [-5, 127, -128, 127, 3]])
    for dtype in (torch.uint8, torch.int8, torch.int32, torch.int64, torch.bool):
        x = numbers.to(dtype)
        if dtype == torch.bool and name.startswith("arg"):
            continue  # eager has none
        assert compiled(lambda x=x: REDUCTIONS[name](x, 1)), dtype


@pytest.mark.parametrize(
    "name", ["sum", "prod", "mean", "any", "all", "var", "std_mean", "count_nonzero", "nansum", "logsumexp", "norm"]
)
def test_empty_dimensions(name: str) -> None:
    assert compiled(lambda: REDUCTIONS[name](torch.empty(3, 0), 1))
    assert compiled(lambda: REDUCTIONS[name](torch.empty(0, 3), 1))
    assert compiled(lambda: REDUCTIONS[name](torch.ones(4, 1), 1))


@pytest.mark.parametrize("name", ["sum", "max", "argmin", "var", "any", "logsumexp"])
def test_no_dimension(name: str) -> None:
    assert compiled(lambda: REDUCTIONS[name](torch.tensor(2.5), 0))


def test_variance_far_from_zero_is_as_exact_as_eager() -> None:
    x = torch.randn(4, 1000, generator=torch.Generator().manual_seed(0)) + 1e4
    exact = x.double().var(1)
    program = fxc.run_passes(fxc.capture(lambda x: (x * 1).var(1), (x,)), KERNELS)
    error = (results(program, x)[0] - exact).abs().max()
    assert error <= 4 * (x.var(1) - exact).abs().max() + 1e-6


KERNELS = (
    "lower-to-torch,simplify,lower-simple-tuples,decompose-ops{reductions=true},fuse{reductions=true},"
    "convert-fusion-to-linalg,schedule,tile"
)


def results(program: fxc.Program, x: torch.Tensor, engine: str = "native") -> list[torch.Tensor]:
    functions = functions_of(program.module)
    with torch.no_grad():
        return list(EngineInterpreter(functions, ENGINES[engine]).call(functions["main"], [x]))


FUSED: dict[str, Callable[[torch.Tensor], Any]] = {
    "max and its place": lambda x: tuple((x * 2).max(1)),
    "norms": lambda x: x / x.norm(dim=1, keepdim=True),
    "nan_to_num": lambda x: (x.nan_to_num(0.5) * 2).sum(0),
    "nansum": lambda x: (x * x).nansum(1),
    "extremes": lambda x: tuple(torch.aminmax(x.exp(), dim=0)),
    "aliases": lambda x: torch.arctan(x) + torch.special.expit(x) * torch.greater(x, 0),
    "special functions": lambda x: torch.special.i0e(x) + torch.digamma(x.abs() + 1) * torch.special.erfcx(x),
    "normal distribution": lambda x: torch.special.log_ndtr(x) - torch.special.ndtr(x),
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", FUSED)
def test_fused_with_what_is_around(name: str, engine: str) -> None:
    x = torch.randn(6, 37, generator=torch.Generator().manual_seed(1))
    target = "cuda:sm_90" if engine == "simulator" else "cpu"  # Triton has no vectors of any length
    program = fxc.run_passes(fxc.capture(lambda x: FUSED[name](x), (x,)), f'set-target{{to="{target}"}},{KERNELS}')
    assert any(isinstance(op, KernelOp) for op in program.module.ops)
    assert not any(isinstance(op, TorchOp) for op in program.module.walk())
    expected = FUSED[name](x)
    for result, value in zip(results(program, x, engine), expected if isinstance(expected, tuple) else [expected], strict=True):
        torch.testing.assert_close(result, value, rtol=1e-5, atol=1e-5)


def test_extremes_that_no_kernel_is_beside_stay_one_call() -> None:
    program = fxc.run_passes(fxc.capture(lambda x: tuple(x.max(1)), (torch.randn(3, 4),)), KERNELS)
    assert [op.operator for op in program.module.walk() if isinstance(op, TorchOp)] == ["aten.max.dim"]


def test_half_precision_is_accumulated_in_float32() -> None:
    x = torch.full((1, 5000), 0.1, dtype=torch.bfloat16)
    program = fxc.run_passes(fxc.capture(lambda x: (x + 0).sum(1), (x,)), KERNELS)
    [result] = results(program, x)
    assert abs(float(result) - float(x.double().sum())) <= 2.0  # one rounding to 8 bits of 500


def test_softmax_of_a_row_without_numbers() -> None:
    x = torch.tensor([[-INF, -INF], [1.0, -INF]])
    program = fxc.run_passes(fxc.capture(lambda x: F.softmax(x, 1) + 0, (x,)), KERNELS)
    torch.testing.assert_close(results(program, x)[0], F.softmax(x, 1), equal_nan=True)
