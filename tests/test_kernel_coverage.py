"""What kernels cover, and that what they do not has a reason."""

from __future__ import annotations

import pytest

from fxc.dialects.torch_ops import op_class
from fxc.passes.operators.aliases import ALIASES
from tests.opinfo import coverage


@pytest.mark.filterwarnings("ignore")
def test_each_operator_is_covered_or_has_a_reason() -> None:
    names = [*coverage.pointwise_operators(), *(f"aten.{name}" for name in (*coverage.REDUCTIONS, *coverage.SCANS))]
    left = {name for name in names if coverage.how(name) == "left"}
    assert left == coverage.LEFT.keys()
    assert len(left) * 50 < len(names)


def test_aliases_take_the_arguments_of_what_they_stand_for() -> None:
    for alias, name in ALIASES.items():
        first, second = (op_class(f"torch.{each}").SCHEMA for each in (alias, name))  # type: ignore[union-attr]
        assert [argument.name for argument in first.arguments] == [argument.name for argument in second.arguments], alias


def test_the_report_has_no_gap() -> None:
    lines = list(coverage.report())
    assert len(lines) > 8 and not any("NO REASON" in line for line in lines)
