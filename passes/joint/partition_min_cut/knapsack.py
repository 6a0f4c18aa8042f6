"""The 0-1 knapsack problem for all capacities at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias

MOST = 4096
"""The number of choices up to which the solution is exact. Of more, some that are evenly distributed by weight remain."""

Items: TypeAlias = "tuple[int, Items] | None"
"""The last item of a choice, and the others."""


class Choice(NamedTuple):
    """Items that are worth more than all others of at most this weight."""

    weight: int
    value: int
    items: Items = None

    def indices(self) -> frozenset[int]:
        found, items = list[int](), self.items
        while items is not None:
            index, items = items
            found.append(index)
        return frozenset(found)


def best_choices(weights: Sequence[int], values: Sequence[int]) -> list[Choice]:
    """The best choices by increasing weight and value. The first items are preferred; those without weight are in each choice.

    For the best choice of a capacity, take the last one that is not heavier.
    """
    front = [Choice(0, 0)]
    for index, (weight, value) in enumerate(zip(weights, values, strict=True)):
        if weight == 0:
            front = [Choice(each.weight, each.value + value, (index, each.items)) for each in front]
            continue
        more = [Choice(each.weight + weight, each.value + value, (index, each.items)) for each in front]
        front = list(_undominated(sorted([*front, *more], key=lambda each: (each.weight, -each.value))))
        if len(front) > MOST:
            front = evenly(front, MOST)
    return front


def evenly(choices: Sequence[Choice], count: int) -> list[Choice]:
    """At most ``count`` of ``choices``, the first and the last among them, at even distances of their weights."""
    lightest, heaviest = choices[0].weight, choices[-1].weight
    found, last = [choices[0]], 0
    for choice in choices[1:-1]:
        step = (choice.weight - lightest) * (count - 1) // max(heaviest - lightest, 1)
        if last < step < count - 1:
            found.append(choice)
            last = step
    return [*found, choices[-1]] if len(choices) > 1 else found


def _undominated(choices: Sequence[Choice]) -> Iterator[Choice]:
    """Of ``choices`` by increasing weight, those that are worth more than all before them."""
    best = -1
    for choice in choices:
        if choice.value > best:
            best = choice.value
            yield choice
