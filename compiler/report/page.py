"""One self-contained HTML page about a compilation: everything in it comes from a ``Recording``, and works offline."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any, cast

from jinja2 import Environment, StrictUndefined, Template
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers.python import PythonLexer

from fxc.dialects.entry import find_entry
from fxc.dialects.target import target_of
from fxc.errors import WRITE_ELSEWHERE, InputError
from fxc.report.kernels import Kernel, kernels, library_calls
from fxc.report.memory import MemoryTimeline, timelines
from fxc.report.module_graphs import ModuleGraph, module_graph
from fxc.report.recording import Recording
from fxc.report.svg import render
from fxc.runtime.units import bytes_text, duration

Edit = tuple[int, int, list[int]]
"""The first line to replace, the number of lines to replace, and the numbers of the new lines."""


class Texts:
    """A table of distinct lines, and texts as lists of their numbers."""

    def __init__(self) -> None:
        self._numbers = dict[str, int]()

    def lines(self) -> list[str]:
        """The table: the number of a line is its index."""
        return list(self._numbers)

    def add(self, text: str) -> list[int]:
        """The numbers of the lines of ``text``."""
        return [self._numbers.setdefault(line, len(self._numbers)) for line in text.rstrip("\n").split("\n")]

    def edits(self, versions: Sequence[str]) -> list[list[Edit]]:
        """For each version, the edits from the version before it, bottom up; the first is all new."""
        found, before, last = list[list[Edit]](), list[int](), ""
        for text in versions:
            if found and text == last:
                found.append([])
                continue
            after = self.add(text)
            matcher: SequenceMatcher[Any] = SequenceMatcher(None, before, after, autojunk=False)
            changes = [(i, k - i, list(after[j:m])) for what, i, k, j, m in matcher.get_opcodes() if what != "equal"]
            found.append(changes[::-1])
            before, last = after, text
        return found


CHART = 720, 160
"""Width and height of the memory chart in pixels."""


def write_page(path: str | Path, title: str, recording: Recording, times: Mapping[str, float]) -> None:
    """Write the page. ``times``: milliseconds of other stages, such as the capture. InputError where it cannot be written."""
    text = page(title, recording, times).encode(errors="backslashreplace")
    try:
        Path(path).write_bytes(text)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}", hint=WRITE_ELSEWHERE) from error


def page(title: str, recording: Recording, times: Mapping[str, float]) -> str:
    """The page as HTML. All text from the program is escaped."""
    texts = Texts()
    made = kernels(recording.module)
    data: dict[str, Any] = {
        "edits": texts.edits(recording.texts),
        "sources": [[texts.add(each.tile), texts.add(each.code)] for each in made],
    }
    main, calls, memory = find_entry(recording.captured), library_calls(recording.module), timelines(recording.module)
    return _template().render(
        title=title,
        versions=f"fxc {version('fxc')}, torch {version('torch')}",
        target=str(target_of(recording.module) or "none: all operators are calls of ATen"),
        times={**times, "time in passes": 1e3 * sum(run.seconds for run in recording.runs)},
        runs=[(run, text != before) for run, before, text in zip(recording.runs, recording.texts, recording.texts[1:])],
        entry=main.sym_name.data if main is not None else "",
        captured_ops=0 if main is None else len(list(main.body.walk())),
        kernels=made,
        codes=[_highlighted(kernel, numbers) for kernel, (_, numbers) in zip(made, data["sources"], strict=True)],
        calls=calls,
        call_count=sum(each.count for each in calls),
        remarks=[line.strip().removeprefix("remark: ") for line in recording.remarks],
        memory=[(each, chart(each)) for each in memory],
        graph=None if main is None else module_graph(main),
        drawing=drawing,
        css=_file("page.css"),
        script=_file("page.js"),
        data=_json({**data, "lines": texts.lines()}),
    )


def drawing(graph: ModuleGraph) -> str:
    return render(graph.view)


def chart(timeline: MemoryTimeline) -> dict[str, Any]:
    """The outline of live bytes over operations, as points of an SVG polygon, and the position of the peak."""
    (width, height), live = CHART, timeline.live
    step, scale = width / len(live), height / (timeline.peak or 1)
    points = [(0.0, 0.0)]
    for index, count in enumerate(live):
        points += [(index * step, count * scale), ((index + 1) * step, count * scale)]
    points.append((width, 0.0))
    return {
        "width": width,
        "height": height,
        "points": " ".join(f"{x:.1f},{height - y:.1f}" for x, y in points),
        "peak": (live.index(timeline.peak) + 0.5) * step,
    }


def _highlighted(kernel: Kernel, numbers: Sequence[int]) -> str | None:
    """Triton source as HTML, a span with its number in the table for each line; other languages are shown as plain text."""
    if kernel.language != "Triton":
        return None
    formatter = cast(Any, HtmlFormatter(nowrap=True))
    text: str = highlight(kernel.code.rstrip("\n"), PythonLexer(stripnl=False), formatter)
    lines = text.rstrip("\n").split("\n")
    return "".join(f'<span data-line="{number}">{line}</span>' for number, line in zip(numbers, lines, strict=True))


def _json(data: object) -> str:
    """JSON that no browser takes for markup, wherever it stands in a page."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _file(name: str) -> str:
    return files("fxc.report").joinpath(name).read_text(encoding="utf-8")


@cache
def _template() -> Template:
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {"bytes": bytes_text, "duration": duration}
    return environment.from_string(_file("page.html"))
