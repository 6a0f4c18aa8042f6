"""A fixed part of PyTorch's own operator samples through torch.compile, forward and backward; ``compiled.py`` runs all."""

from __future__ import annotations

import warnings

import pytest

from tests.opinfo.compiled import check_operator
from tests.opinfo.suite import LEFT_OUT, operators, summary

SHARE = 800
"""One sample of so many runs here."""
GROUPS = 4


@pytest.mark.parametrize("group", range(GROUPS))
@pytest.mark.filterwarnings("ignore")
def test_compiled(group: int) -> None:
    """Every sample that AOTAutograd compiles has eager's values and gradients."""
    names = sorted(operators())[group::GROUPS]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        outcomes = [outcome for name in names for outcome in check_operator(name, 1, SHARE)]
    assert not [o for o in outcomes if o.stage not in ("ok", *LEFT_OUT)], summary(outcomes)
    assert any(o.stage == "ok" for o in outcomes)
