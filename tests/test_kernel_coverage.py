"""What kernels cover, and that what they do not has a reason."""

from __future__ import annotations

import pytest

from fxc.dialects.torch_ops import torch_op
from fxc.passes.operators.record import Factors
from fxc.passes.operators.table import FAMILIES, OPERATORS
from tests.opinfo import coverage


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


def test_the_report_has_no_gap() -> None:
    lines = list(coverage.report())
    assert len(lines) > 8 and not any("NO REASON" in line for line in lines)
