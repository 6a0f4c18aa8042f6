"""Cumulative operators as kernels: equal to eager on the reference interpreter, as printed Triton, and as machine code."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from xdsl.dialects.builtin import ModuleOp

import fxc
from fxc.dialects.tile import KernelOp
from tests.kernel_engines import ENGINES, EngineInterpreter, functions_of

SCANS: dict[str, Callable[..., Any]] = {
    "cumsum": torch.cumsum,
    "cumprod": torch.cumprod,
    "cummax": torch.cummax,
    "cummin": torch.cummin,
}
FLOATS = [torch.float32, torch.float64, torch.bfloat16, torch.float16]
DTYPES = [*FLOATS, torch.int32, torch.int64, torch.uint8, torch.int8, torch.bool]
TARGETS = ["cpu", "cpu:avx512", "cuda:sm_90"]
"""The first one's kernels run natively on any machine."""


def tensor(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    made = torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape) + len(shape)))
    return made.to(dtype) if dtype.is_floating_point else (made * 3).abs().to(dtype)


def kernels_of(function: Callable[..., Any], x: torch.Tensor, target: str) -> ModuleOp:
    program = fxc.capture(lambda x: function(x), (x,))
    pipeline = f'lower-to-torch,simplify,lower-simple-tuples,set-target{{to="{target}"}},lower-scans'
    return fxc.run_passes(program, pipeline).module


def run(module: ModuleOp, engine: str, x: torch.Tensor) -> list[torch.Tensor]:
    functions = functions_of(module)
    with torch.no_grad():
        return list(EngineInterpreter(functions, ENGINES[engine]).call(functions["main"], [x]))


def check(function: Callable[..., Any], x: torch.Tensor, targets: Sequence[str] = TARGETS[:1]) -> None:
    """The one kernel of ``function`` gives what eager gives, on each engine that takes kernels of the target."""
    returned = function(x)
    expected = list(returned) if isinstance(returned, tuple) else [returned]
    for target in targets:
        module = kernels_of(function, x, target)
        assert sum(isinstance(op, KernelOp) for op in module.ops) == 1
        for engine in ENGINES if target == TARGETS[0] else ("interpreter", "simulator"):
            for result, value in zip(run(module, engine, x), expected, strict=True):
                torch.testing.assert_close(result, value, equal_nan=True)
                assert result.stride() == value.stride()


CASES = [(name, dtype) for name in ("cumsum", "cummax") for dtype in DTYPES]
CASES += [(name, dtype) for name in ("cumprod", "cummin") for dtype in (torch.float32, torch.bfloat16, torch.uint8)]


@pytest.mark.share(2)
@pytest.mark.parametrize(("name", "dtype"), CASES, ids=str)
def test_dtypes(name: str, dtype: torch.dtype) -> None:
    check(lambda x: SCANS[name](x, 1), tensor(2, 37, dtype=dtype))
    check(lambda x: SCANS[name](x, 0), tensor(3, 11, dtype=dtype))


@pytest.mark.share(2)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", SCANS)
def test_targets(name: str, target: str) -> None:
    check(lambda x: SCANS[name](x, -1), tensor(2, 3, 70), [target])
    check(lambda x: SCANS[name](x, 1), tensor(2, 9, 33), [target])


SHAPES = [((1,), 0), ((64,), 0), ((1, 7), 0), ((7, 1), 1), ((2, 3, 4, 5), 2), ((3, 1, 8), 0), ((130, 2), 0)]


@pytest.mark.parametrize(("shape", "dim"), SHAPES)
def test_shapes(shape: Sequence[int], dim: int) -> None:
    check(lambda x: torch.cumsum(x, dim), tensor(*shape))
    check(lambda x: torch.cummax(x, dim), tensor(*shape))


def test_strided_operands() -> None:
    check(lambda x: torch.cumsum(x, 0), tensor(6, 21).t())
    check(lambda x: torch.cummin(x, 1), tensor(6, 21).t())
    check(lambda x: torch.cumprod(x, 1), tensor(12, 20)[::3, 1::2])
    check(lambda x: torch.cumsum(x, 1), tensor(4, 1).expand(4, 5))


@pytest.mark.parametrize("name", SCANS)
def test_special_values(name: str) -> None:
    values = [0.0, -0.0, 1.0, math.inf, -math.inf, 1.0, math.nan, 3.0, math.nan, -2.0]
    rows = torch.tensor([values, values[::-1], [-math.inf] * 10, [1.0, 1.0, 2.0, 2.0, 0.0, -1.0, -1.0, 2.0, 2.0, 1.0]])
    check(lambda x: SCANS[name](x, 1), rows)
    check(lambda x: SCANS[name](x, 0), rows)


def test_other_dtypes_of_results() -> None:
    check(lambda x: torch.cumsum(x, 0, dtype=torch.float32), tensor(17, dtype=torch.int32))
    check(lambda x: torch.cumsum(x, 0, dtype=torch.float64), tensor(17))
    check(lambda x: torch.cumsum(x, 0, dtype=torch.int32), tensor(17, dtype=torch.uint8))
    check(lambda x: torch.cumprod(x, 0, dtype=torch.float16), tensor(17))


def test_long_rows_are_as_exact_as_eager() -> None:
    x = tensor(1, 100_000).abs()
    [result] = run(kernels_of(lambda x: torch.cumsum(x, 1), x, TARGETS[0]), "native", x)
    exact = x.double().cumsum(1)
    assert (result - exact).abs().max() <= (x.cumsum(1) - exact).abs().max()


def left_alone(function: Callable[..., Any], x: torch.Tensor) -> bool:
    return not any(isinstance(op, KernelOp) for op in kernels_of(function, x, TARGETS[0]).ops)


def test_what_is_left_to_the_library() -> None:
    assert left_alone(lambda x: torch.cumsum(x, 0), torch.tensor(1.0))
    assert left_alone(lambda x: torch.cumsum(x, 0), torch.empty(0, 3))
    assert left_alone(lambda x: torch.cumsum(x, 0, dtype=torch.int64), tensor(4))
    assert left_alone(lambda x: torch.cumsum(x, 0), torch.randn(3, dtype=torch.complex64))
    assert left_alone(lambda x: torch.logcumsumexp(x, 0), tensor(4))


def test_scans_print_as_triton_scans() -> None:
    from fxc.codegen.triton.printer import print_kernels

    module = kernels_of(lambda x: torch.cummax(x, 1), tensor(4, 100), TARGETS[2])
    [kernel] = print_kernels(module)
    assert "tl.associative_scan" in kernel.source
