"""A fixed part of PyTorch's own operator samples, differentiated by the compiler; ``gradients.py`` runs all of them."""

from __future__ import annotations

import warnings

import pytest

from tests.opinfo.gradients import Differentiated, check_operator
from tests.opinfo.suite import LEFT_OUT, operators, summary

SHARE = 240
"""One sample of so many runs here."""
GROUPS = 4

KNOWN = {
    "zero_/complex128/0": "functionalization makes it aten.zero, which has no derivative for complex numbers",
    "zero_/complex128/1": "as zero_/complex128/0",
    "zero_/complex128/2": "as zero_/complex128/0",
    "index_reduce_prod/float64/7": "PyTorch cannot trace the backward that is to be differentiated again: it is refused",
    "linalg_norm_subgradients_at_zero/float64/43": "the nuclear norm has no second derivative there: df gives nan, eager zero",
}
"""Sample -> why its gradients are not eager's, or are not computed."""


@pytest.mark.slow
@pytest.mark.parametrize("group", range(GROUPS))
@pytest.mark.filterwarnings("ignore")
def test_gradients(group: int) -> None:
    """Every sample has eager's values and gradients, of a part the second ones too; most are computed by df."""
    names = sorted(operators())[group::GROUPS]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        outcomes = [outcome for name in names for outcome in check_operator(name, 1, SHARE)]
    wrong = [o for o in outcomes if o.stage not in ("ok", *LEFT_OUT) and o.sample not in KNOWN]
    assert not wrong, summary(wrong)
    differentiated = [o for o in outcomes if isinstance(o, Differentiated) and o.by]
    assert sum("df" in o.by for o in differentiated) >= 0.7 * len(differentiated)
    assert any(o.twice for o in differentiated)
