"""``--verify-diagnostics``: compares the errors of a file with the ``expected-error`` comments in it, as mlir-opt does.

    // expected-error {{text that the message contains}}
    // expected-error@+1 {{on the next line}}      @-2, @above, @below: by distance, or the nearest line without a comment
    // expected-error-re {{literal text {{[a-z]+}} and regexes in inner braces}}

``expected-warning``, ``expected-remark`` and ``expected-note`` work the same way. A hint of an error counts as a note, which
is optional.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fxc.errors import FxcError

_COMMENT = re.compile(
    r"expected-(?P<kind>error|warning|remark|note)(?P<regex>-re)?\s*(?:@(?P<at>[+-]\d+|above|below|unknown))?"
    r"\s*\{\{(?P<text>.*)\}\}\s*$"
)


@dataclass(frozen=True)
class Diagnostic:
    """A message of a tool. ``line`` counts from 1; None where the location is not in the file."""

    kind: str
    line: int | None
    text: str
    must_be_expected: bool = True


@dataclass(frozen=True)
class Expected:
    """An expectation of a comment on ``written_at`` for ``line`` (None: anywhere)."""

    kind: str
    line: int | None
    pattern: re.Pattern[str]
    shown: str
    written_at: int

    def matches(self, diagnostic: Diagnostic) -> bool:
        same_line = self.line is None or diagnostic.line is None or self.line == diagnostic.line
        return same_line and self.kind == diagnostic.kind and self.pattern.search(diagnostic.text) is not None


def diagnostics_of(error: FxcError, filename: str) -> list[Diagnostic]:
    """The error, and its hint as a note."""
    found = re.search(re.escape(filename) + r":(\d+):\d+", error.place or "")
    line = int(found[1]) if found else None
    diagnostics = [Diagnostic("error", line, error.message)]
    if error.hint:
        diagnostics.append(Diagnostic("note", line, error.hint, must_be_expected=False))
    return diagnostics


def expectations(text: str) -> list[Expected]:
    """All expectations in the comments of ``text``."""
    lines = text.split("\n")
    marked = {number for number, line in enumerate(lines, 1) if _COMMENT.search(line)}
    return list(_expectations(lines, marked))


def _expectations(lines: Sequence[str], marked: set[int]) -> Iterator[Expected]:
    for number in sorted(marked):
        found = _COMMENT.search(lines[number - 1])
        assert found is not None
        text = found["text"]
        pattern = re.compile(_regex(text) if found["regex"] else re.escape(text))
        yield Expected(found["kind"], _target(number, found["at"], marked), pattern, text, number)


def _target(number: int, at: str | None, marked: set[int]) -> int | None:
    if at is None:
        return number
    if at == "unknown":
        return None
    if at not in ("above", "below"):
        return number + int(at)
    step = -1 if at == "above" else 1
    target = number + step
    while target in marked:
        target += step
    return target


def _regex(text: str) -> str:
    parts = re.split(r"\{\{(.*?)\}\}", text)
    return "".join(part if index % 2 else re.escape(part) for index, part in enumerate(parts))


def mismatches(text: str, diagnostics: Sequence[Diagnostic], filename: str) -> list[str]:
    """Expected messages that are missing, and messages that are not expected; empty if all match."""
    missing = expectations(text)
    problems = list[str]()
    for diagnostic in diagnostics:
        match = next((expected for expected in missing if expected.matches(diagnostic)), None)
        if match is not None:
            missing.remove(match)
        elif diagnostic.must_be_expected:
            place = f"{filename}:{diagnostic.line}" if diagnostic.line else filename
            problems.append(f"{place}: unexpected {diagnostic.kind}: {diagnostic.text}")
    for expected in missing:
        at = expected.line or expected.written_at
        problems.append(f'{filename}:{at}: expected {expected.kind} "{expected.shown}" was not produced')
    return problems
