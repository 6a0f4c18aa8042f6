"""Divide a forward into segments between which few bytes are live, so that the backward computes one after the other again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate

from fxc.passes.joint.partition_min_cut.dataflow import Dataflow


def ends_of_segments(flow: Dataflow, is_view: Sequence[bool], count: int) -> frozenset[int]:
    """The operations whose results are live between ``count`` segments of about the same time.

    Each segment ends, within half of its time, where the fewest bytes are live.
    """
    last = _last_uses(flow, is_view)
    changes = [0] * (len(flow.ops) + 1)
    for number, end in last.items():
        bytes = sum(map(flow.bytes, flow.ops[number].results))
        changes[number] += bytes
        changes[end] -= bytes
    live, times = list(accumulate(changes)), list(accumulate(flow.time(n) * flow.in_forward[n] for n in range(len(flow.ops))))
    found = set[int]()
    for segment in range(1, count):
        low, high = (times[-1] * (2 * segment + side) / (2 * count) for side in (-1, 1))
        places = [n for n, time in enumerate(times) if flow.in_forward[n] and low < time <= high]
        if places:
            place = min(places, key=lambda n: live[n])
            found |= {number for number, end in last.items() if number <= place < end}
    return frozenset(found)


def _last_uses(flow: Dataflow, is_view: Sequence[bool]) -> dict[int, int]:
    """Operation of the forward that makes new memory -> the last operation of the forward that reads it or a view of it."""
    memory, found = dict[int, int | None](), dict[int, int]()
    for number in _forward(flow):
        owners = [flow.owner(value) for value in flow.reads[number]]
        for owner in owners:
            if owner is not None and (made := memory.get(owner)) is not None:
                found[made] = number
        first = owners[0] if owners else None
        memory[number] = number if not is_view[number] else None if first is None else memory.get(first)
    return found


def _forward(flow: Dataflow) -> Iterator[int]:
    return (number for number, needed in enumerate(flow.in_forward) if needed)
