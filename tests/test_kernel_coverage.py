"""What kernels cover, and that what they do not has a reason."""

from __future__ import annotations

import inspect

import pytest

from fxc.dialects.torch_ops import torch_op
from fxc.passes.operators.record import Factors
from fxc.passes.operators.rules import PARAMETERS, Pointwise
from fxc.passes.operators.table import FAMILIES, OPERATORS
from tests.kernel_groups import COVERED
from tests.opinfo import coverage
from tests.test_linalg_rules import OF_INDUCTOR


@pytest.mark.filterwarnings("ignore")
def test_each_operator_is_covered_or_has_a_reason() -> None:
    names = [*coverage.pointwise_operators(), *(f"aten.{name}" for name in (*coverage.REDUCTIONS, *coverage.SCANS))]
    left = {name for name in names if coverage.how(name) == "left"}
    assert left == coverage.LEFT.keys()
    assert len(left) * 50 < len(names)


def test_an_operator_has_one_record() -> None:
    assert sum(len(family.RECORDS) for family in FAMILIES) == len(OPERATORS)


def test_records_name_arguments() -> None:
    for name, record in OPERATORS.items():
        factors = record.factors or Factors("", "")
        named = {record.gathered, factors.left, factors.right, factors.added} - {""}
        assert not named or named <= torch_op(name).SCHEMA.by_name.keys(), name


def test_formulas_take_the_arguments_of_their_operators() -> None:
    """Those that a call may leave out as well: it passes those only that it has."""
    for name in sorted(COVERED.keys() - OF_INDUCTOR):
        formula = COVERED[name]
        if isinstance(formula, Pointwise):
            arguments = torch_op(name).SCHEMA.arguments
            for passed in (arguments, [argument for argument in arguments if argument.default is None]):
                names = dict.fromkeys(PARAMETERS.get(argument.name, argument.name) for argument in passed)
                for each in filter(None, (formula.formula, formula.elsewhere)):
                    inspect.signature(each).bind(**names)


def test_the_report_has_no_gap() -> None:
    lines = list(coverage.report())
    assert len(lines) > 8 and not any("NO REASON" in line for line in lines)
