"""Buffers that lie outside of the arena, which is there during all of a call: with them there, the call takes less memory."""

from __future__ import annotations

from collections.abc import Sequence

from fxc.passes.plan.buffers import Buffer
from fxc.passes.plan.offsets import Span, lower_bound

SMALL, MAPPED = 1 << 16, 1 << 25
"""Bytes: what allocating smaller buffers takes is more than what their memory is worth; for larger ones the C library asks the
system each time, which then clears it."""
TRIED = 8
"""How many sizes of buffers may be the least that lies outside."""
NEAR = 1.03
"""How much more memory than the least is taken for a larger arena."""


def brief_buffers(buffers: Sequence[Buffer], shared: Sequence[Buffer], beside: Sequence[Span], length: int) -> Sequence[Buffer]:
    """Those of ``shared``, of some size and more, without which the arena and all that is beside it take the least at one time.

    None where they take almost as little with them, or where several streams use them. ``buffers``: all of a block of
    ``length`` ops; ``beside``: what else is allocated there.
    """
    if any(buffer.stream != 0 for buffer in shared):
        return ()
    able = [buffer for buffer in shared if SMALL < buffer.bytes <= MAPPED and not buffer.is_part]
    sizes = sorted({buffer.bytes for buffer in able}, reverse=True)[:TRIED]
    ways = [(), *([buffer for buffer in able if buffer.bytes >= size] for size in sizes)]
    takes = list[int]()
    for brief in ways:
        inside = without(shared, brief)
        takes.append(lower_bound(spans(inside, length)) + lower_bound([*spans(without(buffers, inside), length), *beside]))
    return next(way for way, bytes in zip(ways, takes, strict=True) if bytes <= min(takes) * NEAR)


def without(buffers: Sequence[Buffer], others: Sequence[Buffer]) -> list[Buffer]:
    """``buffers`` but for ``others``."""
    known = set(others)
    return [buffer for buffer in buffers if buffer not in known]


def spans(buffers: Sequence[Buffer], length: int) -> list[Span]:
    """When each is in use, in a block of ``length`` ops."""
    return [buffer.span(length) for buffer in buffers]
