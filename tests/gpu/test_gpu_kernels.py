"""Kernels on a GPU give what the operators give: those of the zoo, and those of PyTorch's operator samples."""

from __future__ import annotations

import warnings

import pytest

from tests.models.kernel_suite import check, failures, recorded_groups
from tests.models.zoo import ZOO
from tests.opinfo.kernels import check_operator
from tests.opinfo.suite import operators, summary

GROUPS = 48
"""The operators are divided into so many; of their samples one of ``SHARE`` runs."""
SHARE = 60


@pytest.mark.parametrize("name", sorted(ZOO))
def test_kernels_of_models(name: str) -> None:
    outcomes = [outcome for group in recorded_groups(name) for outcome in check(group, ["cuda:sm_90"], ["gpu"])]
    assert outcomes and not failures(outcomes), "\n".join(failures(outcomes))


@pytest.mark.parametrize("group", range(GROUPS))
@pytest.mark.filterwarnings("ignore")
def test_calls_of_operators(group: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        names = sorted(operators())[group::GROUPS]
        outcomes = [each for name in names for each in check_operator(name, 7, SHARE, ["cuda:sm_90"], ["gpu"])]
    assert all(outcome.stage in ("ok", "untraced", "refused") for outcome in outcomes), summary(outcomes)
