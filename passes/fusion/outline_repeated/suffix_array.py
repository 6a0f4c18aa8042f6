"""Repeated runs in a sequence of tokens, by its suffix array (Manber and Myers) and longest common prefixes (Kasai)."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Repeat:
    """The same ``length`` tokens at each of ``starts``, which are ascending and do not overlap."""

    length: int
    starts: tuple[int, ...]

    @property
    def saved(self) -> int:
        """The number of tokens in all runs except the first."""
        return self.length * (len(self.starts) - 1)


def repeats(tokens: Sequence[int], shortest: int) -> list[Repeat]:
    """Runs of at least ``shortest`` tokens that occur at least twice, those that save most first.

    Of each class of runs with the same start positions, the result has the longest, and the longest that do not overlap.
    """
    if sum(count for count in Counter(tokens).values() if count > 1) < 2 * shortest:
        return []
    found = dict[tuple[int, tuple[int, ...]], Repeat]()
    order = _suffix_array(np.asarray(tokens))
    for length, left, right in _intervals(_common_prefixes(tokens, order), shortest):
        places = np.sort(order[left : right + 1])
        gap = int((places[1:] - places[:-1]).min())
        for size in {length, min(gap, length)}:
            if size >= shortest:
                starts = tuple(places.tolist() if size <= gap else _spaced(places.tolist(), size))
                if len(starts) > 1:
                    found[size, starts] = Repeat(size, starts)
    return sorted(found.values(), key=lambda repeat: (-repeat.saved, repeat.length, repeat.starts))


def _spaced(places: Sequence[int], length: int) -> Iterator[int]:
    """The subset of ``places``, ascending, at distances of at least ``length``."""
    index = 0
    while index < len(places):
        yield places[index]
        index = bisect_left(places, places[index] + length, index)


def _suffix_array(tokens: np.ndarray) -> np.ndarray:
    """The start positions of the suffixes of ``tokens`` in lexicographic order."""
    rank, count, width = np.unique(tokens, return_inverse=True)[1], len(tokens), 1
    while True:
        following = np.full(count, -1, dtype=rank.dtype)
        following[:-width] = rank[width:]
        order = np.lexsort((following, rank))
        first, second = rank[order], following[order]
        steps = (first[1:] != first[:-1]) | (second[1:] != second[:-1])
        rank = np.empty(count, dtype=np.int64)
        rank[order] = np.concatenate(([0], np.cumsum(steps)))
        width *= 2
        if rank[order[-1]] == count - 1 or width >= count:
            return order


def _common_prefixes(tokens: Sequence[int], order: np.ndarray) -> list[int]:
    """For each suffix in ``order`` the number of tokens that it shares with the previous one; 0 for the first."""
    places, count = order.tolist(), len(tokens)
    rank = [0] * count
    for i, place in enumerate(places):
        rank[place] = i
    shared, length = [0] * count, 0
    for place in range(count):
        if rank[place] == 0:
            length = 0
            continue
        other = places[rank[place] - 1]
        while max(place, other) + length < count and tokens[place + length] == tokens[other + length]:
            length += 1
        shared[rank[place]] = length
        length = max(length - 1, 0)
    return shared


def _intervals(shared: list[int], shortest: int) -> Iterator[tuple[int, int, int]]:
    """The length and bounds of each maximal range of suffixes that share at least ``shortest`` tokens."""
    stack = [(0, 0)]
    for i in range(1, len(shared) + 1):
        length = shared[i] if i < len(shared) else 0
        left = i - 1
        while stack and stack[-1][0] > length:
            top, left = stack.pop()
            if top >= shortest:
                yield top, left, i - 1
        if not stack or stack[-1][0] < length:
            stack.append((length, left))
