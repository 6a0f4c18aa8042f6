"""Whatever is planted in what a pass leaves, the numerics check names the pass and the operation."""

from __future__ import annotations

import pytest

from tests.planted_bugs import bugs, check, missed

SHARE = 8
"""One bug of so many that ``python -m tests.planted_bugs`` plants runs here."""


@pytest.mark.slow
def test_bugs_are_named() -> None:
    found = [check(bug) for bug in bugs(50)[::SHARE]]
    assert len({each.bug.where for each in found}) == 3
    assert not missed(found), "\n".join(missed(found))
