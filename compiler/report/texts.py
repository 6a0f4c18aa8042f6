"""Versions of a text as edits of lines, each distinct line stored once: the IR after many passes is little more than one IR."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import Any

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
