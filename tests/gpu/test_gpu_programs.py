"""Random programs on a GPU: ``python -m tests.fuzz --device cuda`` looks for longer."""

from __future__ import annotations

import pytest

from tests.fuzz.check import MODES
from tests.fuzz.search import Search

EXAMPLES = 30


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("mode", MODES)
def test_random_programs(mode: str, seed: int) -> None:
    counts = Search(mode, seed, examples=EXAMPLES, device="cuda").run()
    assert not counts.failures, "\n\n".join(map(str, counts.failures))
    assert counts.programs > EXAMPLES / 2
