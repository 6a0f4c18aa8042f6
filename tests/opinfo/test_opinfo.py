"""A fixed part of PyTorch's own operator samples through the compiler; ``suite.py`` runs all of them."""

from __future__ import annotations

import warnings

import pytest

from tests.opinfo.suite import check_operator, operators, summary

SHARE = 240
"""One sample of so many runs here, at least a few of every operator family."""
GROUPS = 8


@pytest.mark.slow
@pytest.mark.parametrize("group", range(GROUPS))
@pytest.mark.filterwarnings("ignore")
def test_samples(group: int) -> None:
    """Every traced sample comes through; at most a few cannot be traced."""
    names = sorted(operators())[group::GROUPS]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        outcomes = [outcome for name in names for outcome in check_operator(name, 1, SHARE)]
    left_out = [o for o in outcomes if o.stage in ("untraced", "unstable")]
    assert all(o.stage == "ok" for o in outcomes if o not in left_out), summary(outcomes)
    assert len(left_out) <= 0.2 * len(outcomes), summary(outcomes)
