"""A share of the models of libraries (``status.py`` runs and counts all), and the table of what was found."""

from __future__ import annotations

import pytest

from tests.models.library import ROWS
from tests.models.status import MODES, PAGE, ROUTES, check, page, read


@pytest.mark.share(168)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ROWS)
def test_equal_to_eager(name: str, mode: str, route: str) -> None:
    pytest.importorskip(ROWS[name].library, reason="the extra models has it")
    found = check(ROWS[name], mode, route)
    assert found.outcome == "ok", found


def test_the_page_is_that_of_the_results() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(read())
