"""A fixed part of the calls that ``kernels.py`` makes of PyTorch's own operator samples."""

from __future__ import annotations

import warnings

import pytest

from tests.opinfo.kernels import Compiled, check_operator, shares
from tests.opinfo.suite import operators, summary

SHARE = 1000
"""One sample of so many runs here."""
GROUPS = 12
"""The operators are divided into so many; the first two of these run here."""


@pytest.mark.slow
@pytest.mark.parametrize("group", range(2))
@pytest.mark.filterwarnings("ignore")
def test_calls_become_kernels_that_equal_them(group: int) -> None:
    """None falls back to its operator, and each engine gives what eager gives."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        outcomes = [each for name in sorted(operators())[group::GROUPS] for each in check_operator(name, 3, SHARE)]
    wrong = [outcome for outcome in outcomes if outcome.stage not in ("ok", "untraced", "refused")]
    assert not wrong, summary(outcomes) + shares(outcomes)
    assert sum(isinstance(outcome, Compiled) for outcome in outcomes) >= 3
