"""Discardable attributes of ops that more than one part of the compiler reads."""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Operation

ONCE = "fx.once"
"""The mark of calls that are made once, when the plan is made."""

BORROWS = "plan.borrows"
"""The mark of calls of functions that keep no memory that they are given, and return none of it."""

BRIEF = "plan.brief"
"""The mark of buffers whose memory is given back when they are released, and not kept for the next ones."""

STREAM = "plan.stream"
"""The attribute of a launch, call or allocation that says which stream it runs on; 0 is the caller's, also where there is
none."""


def stream_of(op: Operation) -> int:
    """The stream that ``op`` runs on; 0 is the caller's."""
    mark = op.attributes.get(STREAM)
    return mark.value.data if isinstance(mark, IntegerAttr) else 0
