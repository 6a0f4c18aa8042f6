"""Special functions and polynomials as formulas of arithmetic, against eager PyTorch over their whole range."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest
import torch

from fxc.passes.lowering._linalg import bessel, polynomials, special
from fxc.semantics.targets import resolve_operator
from tests.kernel_groups import calls_of, check

EDGES = [0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0, 30.0, 100.0, -40.0, 1e-6, 0.3, 5e8]
NUMBERS = torch.cat([torch.linspace(-12, 12, 101, dtype=torch.float64), torch.tensor(EDGES, dtype=torch.float64)])
SHARES = torch.cat([torch.linspace(0, 1, 101, dtype=torch.float64), torch.tensor([1e-8, 1e-20, 2.0, -1.0, math.nan])])


def arguments_of(name: str, dtype: torch.dtype) -> list[tuple[Any, ...]]:
    """Calls of the operator over the numbers of ``dtype`` that it takes."""
    x = (SHARES if "ndtri" in name else NUMBERS).to(dtype)
    if "mvlgamma" in name:
        return [(x.abs() + 2, 3)]
    return [(0, x), (1, x)] if "polygamma" in name else [(x,)]


def is_covered(name: str, arguments: Sequence[Any], *, kernels: bool) -> bool:
    [call] = [call for call in calls_of(partial(resolve_operator(name), *arguments)) if call.name == name]
    return check(call, kernels=kernels)


@pytest.mark.parametrize("name", [*special.TABLE, *bessel.TABLE])
def test_functions(name: str) -> None:
    for dtype in (torch.float32, torch.float64):
        for arguments in arguments_of(name, dtype):
            assert is_covered(name, arguments, kernels=False)


@pytest.mark.parametrize("name", ["aten.special_airy_ai.default", "aten.digamma.default", "aten.special_ndtri.default"])
def test_functions_in_kernels(name: str) -> None:
    assert is_covered(name, arguments_of(name, torch.float32)[0], kernels=True)


@pytest.mark.parametrize("name", polynomials.TABLE)
def test_polynomials(name: str) -> None:
    """Of NaN eager leaves some of them open. Hermite's are far from exact in float32, eager's as well."""
    x = torch.cat([torch.linspace(-3, 3, 61, dtype=torch.float64), torch.tensor([0.0, 1.0, -1.0, 0.5, -0.999])])
    for degree in (-1, 0, 1, 2, 5, 7, 9, 12):
        assert is_covered(name, (x, degree), kernels=False), degree
        if degree < 7:
            assert is_covered(name, (x.float(), degree), kernels=False), degree


def test_polynomials_of_integers_and_of_high_degree() -> None:
    name = "aten.special_legendre_polynomial_p.n_scalar"
    assert is_covered(name, (torch.arange(-3, 4), 3), kernels=True)
    assert not is_covered(name, (torch.rand(3), polynomials.MOST_STEPS + 1), kernels=False)
    assert not is_covered("aten.polygamma.default", (2, torch.rand(3) + 1), kernels=False)
