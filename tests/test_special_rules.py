"""Special functions and polynomials as formulas of arithmetic, against eager PyTorch over their whole range."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest
import torch
from xdsl.dialects.builtin import ModuleOp

import fxc
from fxc.bridge.callables import resolve_operator
from fxc.dialects.tile import IterateOp
from fxc.dialects.torch_ops import torch_op
from fxc.passes.operators import bessel, incomplete_gamma, polynomials, special
from fxc.passes.operators.arithmetic import MOST_MULTIPLICATIONS
from tests.kernel_accuracy import Expected, difference
from tests.kernel_engines import ENGINES, kernels_for
from tests.kernel_groups import LINALG, GroupBuilder, calls_of, check, check_function, run_main, run_passes

EDGES = [0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0, 30.0, 100.0, -40.0, 1e-6, 0.3, 5e8]
NUMBERS = torch.cat([torch.linspace(-12, 12, 101, dtype=torch.float64), torch.tensor(EDGES, dtype=torch.float64)])
ORDERS = torch.tensor([1.0, 0.5, 2.0, 2.5, 3.0, 10.0, 20.0, 50.0, 1.001, math.inf, math.nan, -2.0], dtype=torch.float64)
SHARES = torch.cat([torch.linspace(0, 1, 101, dtype=torch.float64), torch.tensor([1e-8, 1e-20, 2.0, -1.0, math.nan])])


def arguments_of(name: str, dtype: torch.dtype) -> list[tuple[Any, ...]]:
    """Calls of the operator over the numbers of ``dtype`` that it takes."""
    x = (SHARES if "ndtri" in name else NUMBERS).to(dtype)
    if "mvlgamma" in name:
        return [(x.abs() + 2, 3)]
    if "zeta" in name:
        return [(2.5, x)] if "self" in name else [(x, 1.5)] if "other" in name else [pairs(ORDERS.to(dtype), x)]
    return [(order, x) for order in (0, 1, 2, 5)] if "polygamma" in name else [(x,)]


def pairs(first: torch.Tensor, second: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Each number of the first beside each of the second."""
    found = torch.cartesian_prod(first, second)
    return found[:, 0].contiguous(), found[:, 1].contiguous()


def module_of(name: str, arguments: Sequence[Any]) -> tuple[ModuleOp, list[torch.Tensor]]:
    """A module with a group of one call, and what its ``main`` takes."""
    [call] = [call for call in calls_of(partial(resolve_operator(name), *arguments)) if call.name == name]
    builder = GroupBuilder()
    builder.call(call)
    return builder.module(list(call.result) if isinstance(call.result, (tuple, list)) else [call.result]), builder.arguments


def is_covered(name: str, arguments: Sequence[Any], *, kernels: bool) -> bool:
    [call] = [call for call in calls_of(partial(resolve_operator(name), *arguments)) if call.name == name]
    return check(call, kernels=kernels)


FUNCTIONS = [name for name in (*special.RECORDS, *bessel.RECORDS) if "c" not in torch_op(name).FLAGS]
"""Composite ones call the others."""


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name: str) -> None:
    for dtype in (torch.float32, torch.float64):
        for arguments in arguments_of(name, dtype):
            assert is_covered(name, arguments, kernels=False)


@pytest.mark.parametrize("name", ["aten.special_airy_ai.default", "aten.digamma.default", "aten.special_ndtri.default"])
def test_functions_in_kernels(name: str) -> None:
    assert is_covered(name, arguments_of(name, torch.float32)[0], kernels=True)


POINTS = torch.cat([torch.linspace(-3, 3, 61, dtype=torch.float64), torch.tensor([0.0, 1.0, -1.0, 0.5, -0.999])])
POLYNOMIALS = [name.removesuffix(".default") for name in polynomials.RECORDS if name.endswith(".default")]


@pytest.mark.share(6)
@pytest.mark.parametrize("name", POLYNOMIALS)
def test_polynomials(name: str) -> None:
    """Of NaN eager leaves some of them open. Hermite's are far from exact in float32, eager's as well."""
    for degree in (-1, 0, 1, 2, 5, 7, 9, 12, polynomials.MOST_STEPS + 1):
        assert is_covered(f"{name}.n_scalar", (POINTS, degree), kernels=False), degree
        if degree < 7:
            assert is_covered(f"{name}.n_scalar", (POINTS.float(), degree), kernels=False), degree


@pytest.mark.share(6)
@pytest.mark.parametrize("name", POLYNOMIALS)
def test_polynomials_of_degrees_that_elements_say(name: str) -> None:
    """Degrees that are not whole are cut; those that are no numbers count as negative."""
    degrees = torch.tensor([-1, 0, 1, 2, 3, 6, 7, 8, 9, 12, 40, 2.7, -0.5, math.nan, math.inf, -math.inf, 1e20])
    x, n = pairs(POINTS, degrees.double())
    assert is_covered(f"{name}.default", (x, n), kernels=False)
    small = n < 7
    assert is_covered(f"{name}.default", (x[small].float(), n[small].float()), kernels=False)
    assert is_covered(f"{name}.x_scalar", (0.7, degrees), kernels=False)


def test_hermite_polynomials_of_high_degree_are_not_computed() -> None:
    for dtype, most in ((torch.float32, 128), (torch.float64, 512)):
        n = torch.tensor([most, most + 1, 10**6], dtype=dtype)
        assert is_covered("aten.special_hermite_polynomial_he.default", (torch.full_like(n, 1e-3), n), kernels=False)


def test_polynomials_of_integers() -> None:
    name = "aten.special_legendre_polynomial_p"
    assert is_covered(f"{name}.n_scalar", (torch.arange(-3, 4), 3), kernels=True)
    assert is_covered(f"{name}.default", (torch.arange(-3, 4), torch.arange(7)), kernels=True)


@pytest.mark.parametrize("name", incomplete_gamma.RECORDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_incomplete_gamma_functions(name: str, dtype: torch.dtype) -> None:
    """Pairs of edges, and pairs at which each of the methods is taken, near to and far from where another one is."""
    edges = torch.tensor([*EDGES, 20.5, 200.0, 250.0, 3e38, 1e-40], dtype=dtype)
    numbers = torch.logspace(-3, 3, 30, dtype=dtype)
    ratios = torch.tensor([0.5, 0.72, 0.9, 0.99, 1.0, 1.001, 1.1, 1.28, 2.0], dtype=dtype)
    a, ratio = pairs(torch.logspace(0, 4, 40, dtype=dtype), ratios)
    both = [pairs(edges, edges), pairs(numbers, numbers), (a, a * ratio)]
    arguments = [torch.cat(each) for each in zip(*both, strict=True)]
    assert is_covered(name, arguments, kernels=False)


def test_temmes_expansion_is_more_exact_than_pytorchs() -> None:
    """PyTorch has pi with the digits of a float32 there."""
    mpmath = pytest.importorskip("mpmath")
    ratios = torch.tensor([0.8, 0.98, 1.0, 1.02, 1.2], dtype=torch.float64)
    a, x = pairs(torch.tensor([20.5, 60.0, 190.0, 300.0, 5e3], dtype=torch.float64), ratios)
    x = a * x
    module, arguments = module_of("aten.igamma.default", (a, x))
    run_passes(module, LINALG)
    [result] = run_main(module, arguments)
    exact = [float(mpmath.gammainc(p, 0, q, regularized=True)) for p, q in zip(a.tolist(), x.tolist(), strict=True)]
    torch.testing.assert_close(result, torch.tensor(exact, dtype=torch.float64), rtol=1e-12, atol=1e-13)


EXTREMES = [0, 1, -1, 2, -2, 6, 7, -8, 99, 100, 127, -128]


@pytest.mark.parametrize("dtype", [torch.int8, torch.int16, torch.int64, torch.uint8])
def test_functions_of_integers(dtype: torch.dtype) -> None:
    """The lowest of 64 bits is left out: PyTorch's gcd dies of it."""
    limits = torch.iinfo(dtype)
    numbers = torch.tensor([*EXTREMES, limits.min if limits.bits < 32 else 1 - 2**62, limits.max]).to(dtype)
    for name in ("aten.gcd.default", "aten.lcm.default", "aten.pow.Tensor_Tensor"):
        assert is_covered(name, pairs(numbers, numbers), kernels=True)
    assert is_covered("aten.pow.Tensor_Scalar", (numbers, MOST_MULTIPLICATIONS + 3), kernels=False)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_parts_of_floats(dtype: torch.dtype) -> None:
    """Numbers with fewer digits, too."""
    smallest = torch.finfo(dtype).smallest_normal
    numbers = [*EDGES, 0.5, 0.75, -3.0, 3e38, smallest, smallest / 2, -smallest / 16, smallest * torch.finfo(dtype).eps]
    assert is_covered("aten.frexp.Tensor", (torch.tensor(numbers, dtype=torch.float64).to(dtype),), kernels=True)


def test_both_parts_of_floats_in_one_kernel() -> None:
    def parts(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        mantissa, exponent = torch.frexp(x * 3)
        return mantissa + 1, exponent + 1

    x = torch.linspace(-9, 9, 300)
    compiled = fxc.compile(parts, (x,), options={"target": "host"})
    assert compiled.plan.stats.library_calls == 0
    torch.testing.assert_close(compiled(x), parts(x))


ENGINE_CASES = [
    ("aten.igamma.default", torch.linspace(0.1, 40, 100), torch.linspace(30, 0.01, 100)),
    ("aten.special_zeta.default", torch.linspace(1.1, 9, 300), torch.linspace(-5, 20, 300)),
    ("aten.special_laguerre_polynomial_l.default", torch.linspace(-1, 1, 300), torch.arange(300.0) % 9),
    ("aten.gcd.default", torch.arange(900).reshape(3, 300) * 7 - 99, torch.arange(300) * 3 - 500),
    ("aten.lcm.default", torch.arange(100).to(torch.uint8), torch.tensor(12, dtype=torch.uint8)),
    ("aten.frexp.Tensor", torch.linspace(-3, 3, 300)),
    ("aten.pow.Tensor_Tensor", torch.arange(300) - 150, torch.arange(300) % 13 - 2),
]


@pytest.mark.parametrize(("name", "arguments"), [(name, arguments) for name, *arguments in ENGINE_CASES])
def test_on_engines(name: str, arguments: Sequence[torch.Tensor]) -> None:
    """Blocks that end before their last lane, of one and of two dimensions, natively and as Triton."""
    module, inputs = module_of(name, arguments)
    expected = Expected.of(module, inputs)
    for target, engines in (("cpu:avx512", ["native"]), ("cuda:sm_90", [engine for engine in ENGINES if engine != "native"])):
        kernels = kernels_for(module, target)
        assert kernels is not None
        for engine in engines:
            assert not (wrong := difference(kernels.run(ENGINES[engine], inputs), expected).wrong), f"{engine}: {wrong}"


def test_loops_are_computed_once() -> None:
    """Where two results of a kernel are made of the same loop, and where a pass over a row finds what another one stored."""

    def twice(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        divisor = torch.gcd(x, y)
        return divisor * 2, divisor + 1

    module = check_function(twice, torch.arange(300) * 6, torch.arange(300) * 4 + 2)
    assert sum(isinstance(op, IterateOp) for op in module.walk()) == 1

    def shares(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        values = torch.special.chebyshev_polynomial_t(x, n)
        return values / values.sum(-1, keepdim=True)

    check_function(shares, torch.rand(3, 40) + 1, torch.arange(120.0).reshape(3, 40) % 5)


def test_loops_of_numbers_and_of_blocks() -> None:
    """Rows with a loop each, which all lanes of the row share."""
    module = check_function(lambda n, x: x + torch.gcd(n, n + 6), torch.arange(12).reshape(12, 1), torch.rand(12, 50))
    assert [str(op.operands[0].type) for op in module.walk() if isinstance(op, IterateOp)] == ["i1"]


@pytest.mark.share(9)
@pytest.mark.parametrize("name", ["nan", "posinf", "neginf"])
@pytest.mark.parametrize("number", [1e300, -1e300, 3.4028235e38, 3.40282355e38, 3.4028236e38, 7.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_numbers_instead_of_nan_beyond_the_dtype(number: float, name: str, dtype: torch.dtype) -> None:
    x = torch.tensor([math.nan, 1.0, math.inf, -math.inf], dtype=dtype)
    found = fxc.compile(lambda x: torch.nan_to_num(x, **{name: number}), (x,), options={"target": "host"})(x)
    torch.testing.assert_close(found, torch.nan_to_num(x, **{name: number}), rtol=0, atol=0)
