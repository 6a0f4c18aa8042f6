"""The page about a compilation in headless Chromium: every view opens, without an error, at desktop and phone width."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import torch
from playwright.sync_api import Browser, Page, sync_playwright
from torch import Tensor, nn

import fxc
from tests.models.zoo import load

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed: apt-get install chromium")

SIZES = {"desktop": (1280, 900), "phone": (390, 844)}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "gpt2.html"
    fxc.compile(*load("gpt2")).report(path)
    return path


@dataclass
class Opened:
    page: Page
    errors: list[str] = field(default_factory=list[str])


@pytest.fixture(params=SIZES)
def opened(request: pytest.FixtureRequest, browser: Browser, report: Path) -> Iterator[Opened]:
    width, height = SIZES[request.param]
    context = browser.new_context(viewport={"width": width, "height": height}, offline=True)
    found = Opened(context.new_page())
    found.page.on("console", lambda message: found.errors.append(message.text))
    found.page.on("pageerror", lambda error: found.errors.append(str(error)))
    found.page.goto(report.as_uri())
    yield found
    context.close()
    assert not found.errors


@pytest.mark.slow
def test_every_view_opens(opened: Opened) -> None:
    page = opened.page
    for summary in page.locator("summary").all():
        summary.evaluate("each => each.parentElement.open || each.click()")
    page.wait_for_function("document.querySelectorAll('details:not([open])').length === 0")
    page.wait_for_function("[...document.querySelectorAll('pre')].every(each => each.textContent)")
    assert page.locator("pre .added").count() > 0
    assert page.locator("pre .removed").count() > 0
    assert page.locator("#graph svg").count() > 10
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.slow
def test_folded_lines_open(opened: Opened) -> None:
    page = opened.page
    page.locator("details.pass", has_text="canonicalize-ops").locator("summary").click()
    shown = page.locator("details.pass[open] pre")
    before = shown.locator("span").count()
    shown.locator("button").first.click()
    assert shown.locator("span").count() > before


def test_search_leads_to_the_line(opened: Opened) -> None:
    page = opened.page
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "query"
    page.keyboard.insert_text("torch.aten.gelu.default")  # at once: the results of a part of it would be others
    page.locator("#results li").first.wait_for()
    page.locator("#results button").first.click()
    assert "torch.aten.gelu.default" in page.locator(".hit").inner_text()
    assert page.locator(".hit").is_visible()
    page.locator("#query").focus()
    page.keyboard.press("Escape")
    assert page.locator("#found").is_hidden()
    page.locator("#query").fill("nothing has this text")
    page.get_by_text("no line has this text").wait_for()


def test_keys(opened: Opened) -> None:
    page = opened.page
    names = [each.inner_text() for each in page.locator("details.pass .name").all()]
    for key, expected in (("n", names[0]), ("n", names[1]), ("p", names[0])):
        page.keyboard.press(key)
        assert page.locator("details.pass[open] .name").inner_text() == expected
    before = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.keyboard.press("t")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != before
    page.locator("#unchanged").check()
    assert page.locator(".row.same").first.is_visible()


class Block(nn.Module):
    def __init__(self, index: int, inputs: int, outputs: int) -> None:
        super().__init__()
        self.index, self.linear = index, nn.Linear(inputs, outputs)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.linear(x)) * (1.0 + self.index) + 0.5
        return x.tanh() - x.sigmoid() + x.exp().sum(1, keepdim=True)


@pytest.mark.slow
@pytest.mark.share(2)
@pytest.mark.parametrize("operations", [100, 5000])
def test_pages_of_large_models(operations: int, browser: Browser, tmp_path: Path) -> None:
    widths = [4 + index * 7 % 13 for index in range(operations // 10 + 1)]  # no two blocks in a row are alike
    model = nn.Sequential(*map(Block, range(len(widths) - 1), widths, widths[1:]))
    path = tmp_path / "large.html"
    fxc.compile(model, (torch.randn(8, 4),), options={"cache_plans": False}).report(path)
    assert path.stat().st_size <= 15e6
    page = browser.new_page()
    page.goto(path.as_uri())
    assert page.evaluate("document.readyState") == "complete"
    assert f"{operations + 1:,}" in page.locator(".facts").inner_text()
    assert page.evaluate("performance.now()") <= 2000
    page.close()
