"""How close the results of a kernel must be to those of the operators that it stands for, and to float64."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from xdsl.dialects.builtin import ModuleOp

from fxc.interpret.torch_level import ReferenceInterpreter
from fxc.numerics.reference_run import Float64Interpreter, widened
from tests.kernel_engines import functions_of


@dataclass(frozen=True)
class Expected:
    """What the operators of a group give, and what they would in float64."""

    values: list[Any]
    exact: list[Any]

    @classmethod
    def of(cls, module: ModuleOp, arguments: Sequence[Any]) -> Expected:
        functions = functions_of(module)
        with torch.no_grad():
            values = ReferenceInterpreter(functions).call(functions["main"], list(arguments))
            wide = [widened(value) for value in arguments]
            exact = Float64Interpreter(functions).call(functions["main"], wide)
        return cls(list(values), list(exact))


HALF = (torch.float16, torch.bfloat16)
SLACK = 8.0
"""How many times eager's distance from float64 a result may be away from it: sums in another order, another formula."""

TINY = {torch.float16: 1e-3, torch.bfloat16: 1e-2, torch.float32: 1e-6, torch.float64: 1e-14}
"""How far eager may be off, relative to the largest number, and still be called exact."""


@dataclass(frozen=True)
class Difference:
    """How far results are from float64, in units of the dtype's epsilon relative to the largest number of the tensor, and
    how far eager is. ``wrong``: the first thing that is not as it must be."""

    error: float = 0.0
    of_eager: float = 0.0
    wrong: str = ""


def difference(actual: Sequence[Any], expected: Expected) -> Difference:
    """Compares results with eager's. One that torch.testing calls close, and whose distance from float64 is within ``SLACK``
    of eager's, is right; in half precision, where eager rounds after each operator, the second alone decides."""
    worst = Difference()
    if len(actual) != len(expected.values):
        return Difference(wrong=f"{len(actual)} results, not {len(expected.values)}")
    for place, (ours, eager, exact) in enumerate(zip(actual, expected.values, expected.exact, strict=True)):
        found = _difference(ours, eager, exact)
        if found.wrong:
            return Difference(found.error, found.of_eager, f"result {place}: {found.wrong}")
        worst = max(worst, found, key=lambda each: each.error)
    return worst


def _difference(ours: torch.Tensor, eager: torch.Tensor, exact: torch.Tensor) -> Difference:
    if ours.dtype != eager.dtype or ours.shape != eager.shape:
        return Difference(wrong=f"{ours.dtype} {tuple(ours.shape)}, not {eager.dtype} {tuple(eager.shape)}")
    if ours.numel() > 1 and ours.stride() != eager.stride():
        return Difference(wrong=f"strides {ours.stride()}, not {eager.stride()}")
    if not eager.is_floating_point():
        return _exact_difference(ours, eager, exact)
    if not torch.equal(ours.isnan(), eager.isnan()) and not torch.equal(ours.isnan(), exact.isnan()):
        return Difference(wrong="NaN where eager has none, or none where it has")
    error, of_eager = (_distance(value, exact) for value in (ours, eager))
    wrong = ""
    if error > max(of_eager * SLACK, TINY[eager.dtype] / torch.finfo(eager.dtype).eps):
        wrong = f"{error:.3g} units from float64, eager {of_eager:.3g}"
    elif eager.dtype not in HALF:
        wrong = _not_close(ours, eager, exact)
    return Difference(error, of_eager, wrong)


def _exact_difference(ours: torch.Tensor, eager: torch.Tensor, exact: torch.Tensor) -> Difference:
    """Each element is eager's, or that of float64: a comparison may fall the other way where its operands are rounded."""
    wrong = (ours != eager) & (ours != exact)
    return Difference(wrong=f"{int(wrong.sum())} of {ours.numel()} elements differ" if wrong.any() else "")


def _not_close(ours: torch.Tensor, eager: torch.Tensor, exact: torch.Tensor) -> str:
    """Why ``ours`` is neither close to eager nor to what is exact."""
    try:
        torch.testing.assert_close(ours, eager, equal_nan=True, check_stride=False)
    except AssertionError as error:
        if torch.allclose(ours, exact.to(ours.dtype), rtol=1.3e-6, atol=1e-5, equal_nan=True):
            return ""
        return " ".join(str(error).split())[:200]
    return ""


def _distance(value: torch.Tensor, exact: torch.Tensor) -> float:
    """The largest distance, in epsilons of the dtype times the largest finite number of ``exact``; infinities must agree."""
    wide, exact = value.double(), exact.double()
    limit = torch.finfo(value.dtype).max
    exact = torch.where(exact.abs() > limit, exact.sign() * torch.inf, exact)
    finite = wide.isfinite() & exact.isfinite()
    if not torch.equal(wide[~finite & ~wide.isnan() & ~exact.isnan()], exact[~finite & ~wide.isnan() & ~exact.isnan()]):
        return torch.inf
    if not finite.any():
        return 0.0
    scale = max(float(exact[finite].abs().max()), torch.finfo(value.dtype).tiny)
    return float((wide[finite] - exact[finite]).abs().max()) / (scale * torch.finfo(value.dtype).eps)
