"""The ``plan`` dialect: host programs with explicit memory.

Allocations, launches, library calls, views, write-backs and releases are in execution order. A tensor value is a buffer or a
view of one: ops of ``torch`` with an ``out`` argument and ``plan.launch`` write into it.
"""

from __future__ import annotations

from xdsl.ir import Dialect

from fxc.dialects.attributes.discardable import STREAM, stream_of
from fxc.dialects.plan.ops import (
    BOXED,
    IN_PLACE,
    AllocOp,
    ArenaOp,
    BringOp,
    FreeOp,
    LaunchOp,
    RecordOp,
    ViewOp,
    WaitOp,
    is_boxed,
    released,
)
from fxc.dialects.plan.types import ALIGNMENT, ArenaType, EventType, aligned, fill_the_same, has_known_steps, storage_bytes

Plan = Dialect(
    "plan",
    [ArenaOp, AllocOp, ViewOp, LaunchOp, FreeOp, BringOp, RecordOp, WaitOp],
    [ArenaType, EventType],
)

__all__ = [
    "ALIGNMENT",
    "BOXED",
    "IN_PLACE",
    "STREAM",
    "AllocOp",
    "ArenaOp",
    "ArenaType",
    "BringOp",
    "EventType",
    "FreeOp",
    "LaunchOp",
    "Plan",
    "RecordOp",
    "ViewOp",
    "WaitOp",
    "aligned",
    "fill_the_same",
    "has_known_steps",
    "is_boxed",
    "released",
    "storage_bytes",
    "stream_of",
]
