"""Discardable attributes of ops that several parts of the compiler read."""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Operation

ONCE = "fx.once"
"""Marks calls that run once, when the plan is made."""

BORROWS = "plan.borrows"
"""Marks calls of functions that neither retain nor return memory of their arguments."""

SHORT_LIVED = "plan.short_lived"
"""Marks buffers whose memory is returned to the allocator on release, instead of being reused for later buffers."""

LAYOUT = "dist.layout"
"""The attribute of an argument or a result of a function with its ``#dist.layout``."""

STREAM = "plan.stream"
"""The stream of a launch, call or allocation; 0, the default, is the stream of the caller."""


def stream_of(op: Operation) -> int:
    """The stream that ``op`` runs on; 0 is the stream of the caller."""
    mark = op.attributes.get(STREAM)
    return mark.value.data if isinstance(mark, IntegerAttr) else 0
