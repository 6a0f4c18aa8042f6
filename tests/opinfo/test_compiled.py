"""A part of PyTorch's own operator samples on all routes, forward and backward; ``compiled.py`` runs any part."""

from __future__ import annotations

import warnings

import pytest

from tests.opinfo.compiled import check_operator
from tests.opinfo.suite import LEFT_OUT, operators, summary

WHOLE = 1200
"""One sample of so many is a part."""
PARTS, GROUPS = 4, 4


@pytest.mark.share(PARTS)
@pytest.mark.parametrize("part", range(1, PARTS + 1))
@pytest.mark.parametrize("group", range(GROUPS))
@pytest.mark.filterwarnings("ignore")
def test_compiled(group: int, part: int) -> None:
    """Every sample that is captured has eager's values and gradients on its route."""
    names = sorted(operators())[group::GROUPS]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        outcomes = [outcome for name in names for outcome in check_operator(name, part, WHOLE)]
    assert not [o for o in outcomes if o.stage not in ("ok", *LEFT_OUT)], summary(outcomes)
    assert any(o.stage == "ok" for o in outcomes)
