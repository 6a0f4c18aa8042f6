"""The signs of zeros, and NaN: kernels give those that PyTorch's vector loops give, alone and among other operators."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.export import Dim

import fxc
from tests.kernel_engines import ENGINES, kernels_for
from tests.kernel_groups import group_of

Function = Callable[..., Any]

DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16]
VALUES = [0.0, -0.0, math.nan, math.inf, -math.inf, 1.0, -1.0, 0.5]
PAIRS = list(product(VALUES, repeat=2))
REPEATS = 32  # so many that contiguous operands of any dtype have nothing for the loop that takes single elements

BOUNDED: dict[str, Function] = {
    "relu": torch.relu,
    "relu6": F.relu6,
    "hardtanh": F.hardtanh,
    "hardtanh from 0": lambda x: F.hardtanh(x, 0.0, 1.0),
    "clamp": lambda x: x.clamp(0.0, 0.5),
    "clamp to zeros": lambda x: x.clamp(-0.0, 0.0),
    "clamp, bounds crossed": lambda x: x.clamp(0.5, -0.0),
    "clamp by NaN": lambda x: x.clamp(math.nan, 1.0),
    "clamp_min": lambda x: x.clamp_min(0.0),
    "clamp_min -0": lambda x: x.clamp(min=-0.0),
    "clamp_max": lambda x: x.clamp_max(0.0),
    "clamp_max -0": lambda x: x.clamp(max=-0.0),
    "leaky_relu": F.leaky_relu,
    "leaky_relu 0": lambda x: F.leaky_relu(x, 0.0),
    "leaky_relu -1": lambda x: F.leaky_relu(x, -1.0),
    "threshold": lambda x: F.threshold(x, 0.0, -0.0),
    "sign": torch.sign,
    "hardshrink": F.hardshrink,
    "hardswish": F.hardswish,
    "hardsigmoid": F.hardsigmoid,
    "elu": F.elu,
    "nan_to_num": torch.nan_to_num,
    "abs": torch.abs,
}
"""Of one tensor: eager gives the same for all strides and sizes."""

PAIRED: dict[str, Function] = {
    "maximum": torch.maximum,
    "minimum": torch.minimum,
    "max": torch.max,
    "clamp_min by a tensor": lambda x, y: x.clamp_min(y),
    "clamp_max by a tensor": lambda x, y: x.clamp_max(y),
    "clamp by tensors": lambda x, y: torch.clamp(x, y, y.flip(0)),
    "fmax": torch.fmax,
    "fmin": torch.fmin,
    "logaddexp": torch.logaddexp,
    "softshrink": lambda x, y: F.softshrink(x, 0.5),
}
"""Eager's vector loops give other zeros than those for single elements, which it takes of strided operands."""

SCANS: dict[str, Function] = {
    "cummax": lambda x: x.cummax(1),
    "cummin": lambda x: x.cummin(1),
    "cummax across": lambda x: x.cummax(0),
    "cummin across": lambda x: x.cummin(0),
}


def operands(dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """All pairs of ``VALUES``, element by element."""
    x, y = torch.tensor(PAIRS, dtype=dtype).t()
    return x.repeat(REPEATS).reshape(32, -1), y.repeat(REPEATS).reshape(32, -1)


def flattened(value: Any) -> list[torch.Tensor]:
    return [value] if isinstance(value, torch.Tensor) else [leaf for each in value for leaf in flattened(each)]


def agree(found: Any, expected: Any) -> None:
    """Equal, with the sign of zeros and infinities, and NaN at the same places."""
    for a, b in zip(flattened(found), flattened(expected), strict=True):
        torch.testing.assert_close(a, b, equal_nan=True)
        if b.is_floating_point():
            assert torch.equal(a.signbit() | a.isnan(), b.signbit() | b.isnan())


FORMS: dict[str, Callable[[Function], Function]] = {
    "alone": lambda f: f,
    "divided by": lambda f: lambda *x: 1 / f(*x),
    "beside another result": lambda f: lambda *x: (f(*x), x[0].sin()),
    "of what a kernel computes": lambda f: lambda *x: f(*(each * 2 for each in x)),
}


def strided(x: torch.Tensor) -> list[torch.Tensor]:
    """``x`` with other strides."""
    return [x.t().contiguous().t(), torch.stack([x, x + 1], -1)[..., 0]]


@pytest.mark.share(12)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", BOUNDED)
def test_bounds_that_are_numbers(name: str, dtype: torch.dtype) -> None:
    x, _ = operands(dtype)
    for form in FORMS:
        function = FORMS[form](BOUNDED[name])
        for each in [x, *strided(x), x[:1, :7], x[0, 1]] if form == "divided by" else [x]:
            agree(fxc.compile(function, (each,))(each), function(each))


@pytest.mark.share(4)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", PAIRED)
def test_pairs(name: str, dtype: torch.dtype) -> None:
    if name in ("fmax", "fmin") and dtype is torch.bfloat16:
        pytest.skip("eager gives the second of equal ones here, the first in other dtypes")
    x, y = operands(dtype)
    for form in FORMS:
        function = FORMS[form](PAIRED[name])
        expected = function(x, y)
        for a, b in zip([x, *strided(x)], [y, *strided(y)], strict=True) if form == "divided by" else [(x, y)]:
            agree(fxc.compile(function, (a, b))(a, b), expected)


@pytest.mark.slow
@pytest.mark.share(4)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", SCANS)
def test_scans(name: str, dtype: torch.dtype) -> None:
    mixed, _ = operands(dtype)
    random = torch.Generator().manual_seed(7)
    zeros = torch.where(torch.rand(33, 70, generator=random) < 0.5, 0.0, -0.0).to(dtype)
    for x in (mixed, zeros, zeros.t(), zeros[:1], zeros[:, 1::3]):
        for form in ("alone", "beside another result"):
            function = FORMS[form](SCANS[name])
            agree(fxc.compile(function, (x,))(x), function(x))


class Module(torch.nn.Module):
    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: torch.Tensor) -> Any:
        return self.function(*args)


@pytest.mark.share(3)
@pytest.mark.parametrize("name", [*BOUNDED, *PAIRED])
def test_any_size(name: str) -> None:
    function = FORMS["divided by"](BOUNDED[name] if name in BOUNDED else PAIRED[name])
    arguments = operands(torch.float32)[: 1 if name in BOUNDED else 2]
    shapes = {"args": ({0: Dim("rows")},) * len(arguments)}
    compiled = fxc.compile(Module(function), arguments, dynamic_shapes=shapes)
    for count in (32, 16, 8):
        parts = [each[:count] for each in arguments]
        agree(compiled(*parts), function(*parts))


def slopes(function: Function, arguments: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    leaves = [each.detach().requires_grad_() for each in arguments]
    result = function(*leaves)
    weights = torch.arange(1, result.numel() + 1, dtype=result.dtype).reshape(result.shape)
    return torch.autograd.grad(result, leaves, weights)


@pytest.mark.share(3)
@pytest.mark.parametrize("name", [*BOUNDED, "maximum", "minimum", "fmax", "clamp by tensors"])
def test_derivatives(name: str) -> None:
    function = FORMS["of what a kernel computes"](BOUNDED[name] if name in BOUNDED else PAIRED[name])
    arguments = operands(torch.float32)[: 1 if name in BOUNDED else 2]
    compiled = fxc.compile(function, tuple(each.clone().requires_grad_() for each in arguments), training=True)
    agree(slopes(compiled, arguments), slopes(function, arguments))


@pytest.mark.parametrize("target", ["cpu", "cuda:sm_90"])
@pytest.mark.parametrize("name", ["relu", "clamp", "clamp_min -0", "maximum", "minimum", "fmax", "fmin", "clamp_max"])
def test_engines(name: str, target: str) -> None:
    """Whatever runs the kernel: the interpreter, the simulator of printed Triton and machine code."""
    x, y = operands(torch.float32)
    function = FORMS["divided by"](PAIRED[name] if name in PAIRED else BOUNDED[name])
    arguments = (x, y) if name in PAIRED else (x,)
    module, inputs, expected = group_of(function, arguments)
    kernels = kernels_for(module, target)
    assert kernels is not None
    for engine in ENGINES:
        if kernels.are_for(engine):
            agree(kernels.run(ENGINES[engine], inputs), expected)


POOLS: dict[str, Function] = {
    "max_pool1d": lambda x: F.max_pool1d(x, 3),
    "max_pool2d": lambda x: F.max_pool2d(x[None], 2),
    "max_pool2d, padded": lambda x: F.max_pool2d(x[None], 3, 1, 1),
    "max_pool2d and places": lambda x: F.max_pool2d(x[None], 2, return_indices=True),
}


@pytest.mark.parametrize("name", POOLS)
def test_the_first_of_equal_maxima_counts_in_pools(name: str) -> None:
    x, _ = operands(torch.float32)
    for form in ("alone", "of what a kernel computes"):
        function = FORMS[form](POOLS[name])
        agree(fxc.compile(function, (x,))(x), function(x))


NORMS: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "layer_norm": lambda x, w: F.layer_norm(x, (8,), w),
    "layer_norm, bias of 0": lambda x, w: F.layer_norm(x, (8,), w, torch.zeros_like(w)),
    "layer_norm, bias of -0": lambda x, w: F.layer_norm(x, (8,), w, -torch.zeros_like(w)),
    "layer_norm, no weight": lambda x, w: F.layer_norm(x, (8,)),
    "group_norm": lambda x, w: F.group_norm(x.view(1, 8, -1), 4, w),
    "batch_norm": lambda x, w: F.batch_norm(x, w * 0, w * 0 + 1, w),
    "rms_norm": lambda x, w: F.rms_norm(x, (8,), w),
}
"""Of x and a weight, some of whose elements are zeros of both signs."""


@pytest.mark.parametrize("name", NORMS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_norms(name: str, dtype: torch.dtype) -> None:
    x, w = torch.tensor([-3.0, 5.0, -2.0, 0.5, 1.0, -4.0, 2.0, 0.5], dtype=dtype).repeat(4, 1), torch.arange(8.0).to(dtype) % 4
    w = torch.where(w == 0, torch.tensor([0.0, -0.0], dtype=dtype).repeat(4), w)
    expected = NORMS[name](x, w)
    zeros = expected == 0
    assert zeros.any() or "no weight" in name
    compiled = fxc.compile(NORMS[name], (x, w), options={"target": "host"})(x, w)
    assert torch.equal(compiled[zeros].signbit(), expected[zeros].signbit())
