"""Reductions in the form that kernels like best, against eager: of single elements, and of views in other shapes."""

from __future__ import annotations

import math
import random

import pytest
import torch
from torch._inductor import inductor_prims
from torch.fx.experimental.proxy_tensor import make_fx
from xdsl.dialects.func import FuncOp

import fxc
from fxc.dialects.tile import LaunchOp
from fxc.dialects.torch_ops.base import TorchOp
from fxc.dialects.verify.verifier import verify
from fxc.interpret.torch_level import ReferenceInterpreter

TAKE_APART = "lower-to-torch,decompose-ops{reductions=true},dce"
KERNELS = "fuse{reductions=true},lower-kernels"


def operators(program: fxc.Program) -> list[str]:
    return [op.operator.split(".")[1] for op in program.module.walk() if isinstance(op, TorchOp)]


def run(program: fxc.Program, *arguments: torch.Tensor) -> list[torch.Tensor]:
    [function] = [op for op in program.module.ops if isinstance(op, FuncOp)]
    return [result for result in ReferenceInterpreter({}).call(function, list(arguments)) if isinstance(result, torch.Tensor)]


def factors(choose: random.Random) -> tuple[list[int], list[int]]:
    """Two shapes of as many elements, whose dimensions are joined from the same factors."""
    numbers = [choose.choice([1, 1, 2, 3]) for _ in range(choose.randrange(2, 6))]
    return _joined(choose, numbers), _joined(choose, numbers)


def _joined(choose: random.Random, numbers: list[int]) -> list[int]:
    shape = numbers[:1]
    for number in numbers[1:]:
        if choose.random() < 0.5:
            shape[-1] *= number
        else:
            shape.append(number)
    return shape


@pytest.mark.parametrize("start", range(0, 80, 40))
def test_views_of_any_shape(start: int) -> None:
    moved = 0
    for seed in range(start, start + 40):
        choose = random.Random(seed)
        shape, other = factors(choose)
        dims, keepdim = choose.sample(range(len(other)), choose.randrange(1, len(other) + 1)), choose.random() < 0.5
        reduce = choose.choice([torch.sum, torch.mean, torch.amax, torch.amin])

        def function(x: torch.Tensor) -> torch.Tensor:
            return reduce(x.neg().view(other), dims, keepdim=keepdim)  # noqa: B023

        x = torch.randn(shape, generator=torch.Generator().manual_seed(seed))
        simple = fxc.run_passes(fxc.capture(function, (x,)), TAKE_APART)
        verify(simple.module)
        [result] = run(simple, x)
        torch.testing.assert_close(result, function(x), msg=f"program {seed}:\n{simple}")
        assert result.stride() == function(x).stride()
        moved += operators(simple)[1] != "view"
    assert moved > 5


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
def test_a_sum_of_single_elements_starts_at_zero(dtype: torch.dtype) -> None:
    x = torch.tensor([[-0.0, 1.5, float("nan"), float("-inf")]], dtype=dtype)

    def function(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x.sum(0), x.unsqueeze(1).sum((0, 1), keepdim=True)

    program = fxc.run_passes(fxc.capture(function, (x,)), TAKE_APART)
    assert "sum" not in operators(program)
    for result, expected in zip(run(program, x), function(x), strict=True):
        torch.testing.assert_close(result, expected, rtol=0, atol=0, equal_nan=True)
        assert torch.equal(result.signbit(), expected.signbit())


def test_the_gradient_of_a_bias_is_of_the_kernel_that_makes_what_it_sums() -> None:
    def function(g: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        grown = torch.ops.aten.gelu_backward(g, x)
        return grown, grown.view(30, 24).sum(0)

    arguments = torch.randn(3, 10, 24), torch.randn(3, 10, 24)
    program = fxc.run_passes(fxc.capture(function, arguments), f"{TAKE_APART},{KERNELS}")
    assert sum(isinstance(op, LaunchOp) for op in program.module.walk()) == 1
    torch.testing.assert_close(run(program, *arguments), list(function(*arguments)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int32], ids=str)
def test_the_derivative_of_softmax_as_inductor_has_it_is_one_kernel(dtype: torch.dtype) -> None:
    """Inductor's operator ``fma``, of values that may be none, is as PyTorch computes it."""

    def function(g: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor]:
        product = g * y
        return (inductor_prims.fma(-y, product.amax(-1, keepdim=True), product),)

    values = [0, -0.0, 1, -1, 2.5, -7, 1e4] + [math.nan, math.inf, -math.inf] * dtype.is_floating_point
    x = torch.tensor(values).to(dtype)
    arguments = torch.cartesian_prod(x, x).unbind(-1)
    arguments = tuple(argument.reshape(len(values), -1) for argument in arguments)
    program = fxc.run_passes(fxc.import_fx(make_fx(function)(*arguments)), f"{TAKE_APART},{KERNELS}")
    assert operators(program) == []
    torch.testing.assert_close(run(program, *arguments), list(function(*arguments)), equal_nan=True)
