"""``benchmarks/plots.py``: docs/performance.md shows what the files of results have."""

from __future__ import annotations

import re
import sys
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
sys.path.append(str(ROOT / "benchmarks"))
plots, results = map(import_module, ("plots", "results"))
LARGEST = 100_000


@pytest.mark.parametrize("name", plots.PLOTS)
def test_a_plot_is_that_of_the_files(name: str, tmp_path: Path) -> None:
    path = plots.draw(name, tmp_path)
    text, kept = path.read_text(encoding="utf-8"), (plots.IMAGES / path.name).read_text(encoding="utf-8")
    assert plots.draw(name, tmp_path).read_text(encoding="utf-8") == text
    description, titles = "<dc:description>(.*?)</dc:description>", "<text[^>]*>([^<]*[a-z]{2}[^<]*)</text>"
    assert re.findall(description, kept) == re.findall(description, text) != []
    assert re.findall(titles, kept) == re.findall(titles, text) != []
    assert len(kept) < LARGEST and "#000000" not in kept


def test_the_page_shows_the_plots_and_the_numbers() -> None:
    for path in plots.PAGES:
        page = path.read_text(encoding="utf-8")
        assert plots.page_of(page) == page, "run python benchmarks/plots.py"
    shown = re.findall(r"\(images/performance-(.*?)\.svg\)", page)
    assert sorted(shown) == sorted(plots.PLOTS)
    assert {path.stem.removeprefix("performance-") for path in plots.IMAGES.glob("performance-*.svg")} == set(plots.PLOTS)


def test_every_file_of_results_has_a_machine_and_a_date() -> None:
    found = results.machines()
    files = {path.stem for path in results.FOLDER.glob("*.csv")}
    assert files - found.keys() == {"summaries-2026-11-23"}
    assert found.keys() <= files
    for name, about in found.items():
        assert about["machine"] and about["date"] and about["versions"]["torch"], name
        assert all(each.value is not None or each.quantity == "failed" for each in results.read(name)), name


def test_a_section_of_a_page_is_replaced_and_nothing_else() -> None:
    page = "before\n<!-- a -->\nold\n<!-- end of a -->\nbetween\n<!-- b -->\nkept\n<!-- end of b -->\n"
    changed = plots.with_section(page, "a", "new \\1 text\n")
    assert changed == page.replace("old", "new \\1 text")
    assert plots.with_section(changed, "a", "new \\1 text") == changed
    with pytest.raises(ValueError, match="<!-- c -->"):
        plots.with_section(page, "c", "text")
    with pytest.raises(ValueError, match="once"):
        plots.with_section(page + page, "a", "text")
