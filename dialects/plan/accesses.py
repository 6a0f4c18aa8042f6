"""Find the memory that each op of a block accesses on its stream, and when: after which ops of other streams.

Memory is identified by a *root*: an argument of the block, the buffer of a ``plan.alloc``, an arena, the first ``fx.get_attr``
of a name, or a result that shares no memory with earlier values. Two arguments share no memory where one is written, as
``functionalize`` ensures, nor do tensors of two names.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.ir import Operation, SSAValue
from xdsl.traits import IsTerminator

from fxc.dialects.attributes.discardable import ONCE
from fxc.dialects.attributes.types import is_mutable
from fxc.dialects.base.effects import aliases, has_side_effect, is_view, writes
from fxc.dialects.fx import GetAttrOp
from fxc.dialects.plan.lifetimes import reads
from fxc.dialects.plan.ops import AllocOp, ArenaOp, FreeOp, RecordOp, WaitOp
from fxc.dialects.torch_ops.constant import ConstantOp
from fxc.dialects.torch_ops.effects import is_size_query


@dataclass(frozen=True)
class Touched:
    """The roots that an op reads, and those that it writes. ``is_barrier``: it may also read and write any others."""

    reads: tuple[SSAValue, ...]
    writes: tuple[SSAValue, ...]
    is_barrier: bool = False


class Accesses:
    """Tracks the accesses of a block: call ``step`` on its ops in order."""

    def __init__(self) -> None:
        self.roots = dict[SSAValue, tuple[SSAValue, ...]]()
        """Value -> the roots that it may share memory with; a value that is missing is a root."""
        self._named = dict[str | None, SSAValue]()
        self._meets = dict[SSAValue, list[SSAValue]]()
        self._placed = dict[SSAValue, list[tuple[int, int, SSAValue]]]()

    def step(self, op: Operation) -> Touched | None:
        """The accesses of ``op``; None where it does no work on a stream: a name, a view, a release, an event.

        An allocation writes its buffer, because a stream may still use memory that its allocator reuses. The end of the block
        is a barrier, because the caller may use any memory next.
        """
        for value, roots in self._results(op):
            self.roots[value] = roots
        if isinstance(op, AllocOp) and op.arena is not None:
            self._place(op)
            return None
        if isinstance(op, (AllocOp, ArenaOp)):
            return Touched((), tuple(op.results))
        if op.has_trait(IsTerminator):
            return Touched(tuple(self._of(reads(op))), (), is_barrier=True)
        if only_names(op):
            return None
        written = writes(op)
        used, changed = dict.fromkeys(self._of(reads(op))), dict.fromkeys(self._of(written or ()))
        changed |= dict.fromkeys(result for result in op.results if result in self.roots.get(result, ()))
        used |= {root.owner.arena: None for root in (*used, *changed) if _in_arena(root)}  # type: ignore[union-attr]
        if not used and not changed and written is not None:
            return None
        return Touched(tuple(root for root in used if root not in changed), tuple(changed), written is None)

    def meets(self, root: SSAValue) -> list[SSAValue]:
        """``root``, and the buffers that overlap it in an arena."""
        return self._meets.get(root) or [root]

    def _of(self, values: Iterator[SSAValue] | tuple[()] | list[SSAValue]) -> Iterator[SSAValue]:
        for value in values:
            if is_mutable(value.type):
                yield from self.roots.get(value, (value,))

    def _results(self, op: Operation) -> Iterator[tuple[SSAValue, tuple[SSAValue, ...]]]:
        if isinstance(op, GetAttrOp):
            yield op.results[0], (self._named.setdefault(op.call_target(), op.results[0]),)
            return
        shared = dict[SSAValue, list[SSAValue]]()
        for index, operand in () if isinstance(op, AllocOp) else aliases(op):
            shared.setdefault(op.results[index], []).append(operand)
        for result in op.results:
            if is_mutable(result.type):
                others = tuple(self._of(shared.get(result, [])))
                yield result, tuple(dict.fromkeys(others if others and is_view(op) else (*others, result)))

    def _place(self, op: AllocOp) -> None:
        assert op.arena is not None
        start, end = op.start(), op.start() + op.needed()
        self._meets[op.buffer] = [op.buffer]
        if start == end:
            return
        placed = self._placed.setdefault(op.arena, [])
        for first, last, other in placed:
            if first < end and start < last:
                self._meets[op.buffer].append(other)
                self._meets[other].append(op.buffer)
        placed.append((start, end, op.buffer))


def _in_arena(root: SSAValue) -> bool:
    return isinstance(root.owner, AllocOp) and root.owner.arena is not None


def only_names(op: Operation) -> bool:
    """Whether ``op`` does no work on a stream: it makes, releases or returns names of memory, or handles events."""
    if isinstance(op, (FreeOp, RecordOp, WaitOp, GetAttrOp, ConstantOp)) or ONCE in op.attributes:
        return True
    return is_size_query(op) or (is_view(op) and not has_side_effect(op))


class Clocks:
    """Tracks the ops of a block in order.

    An op runs after the earlier ops of its stream, and after the ops recorded by the events that its stream waited for.
    """

    def __init__(self) -> None:
        self._clocks = defaultdict[int, dict[int, int]](dict)
        self._events = dict[SSAValue, dict[int, int]]()

    def follow(self, op: Operation) -> bool:
        """Update the clocks if ``op`` records or waits for an event. Returns whether it does."""
        if isinstance(op, RecordOp):
            self._events[op.event] = dict(self._clocks[op.stream.value.data])
        elif isinstance(op, WaitOp):
            clock = self._clocks[op.stream.value.data]
            for stream, time in self._events.get(op.event, {}).items():
                clock[stream] = max(clock.get(stream, 0), time)
        else:
            return False
        return True

    def run(self, stream: int) -> int:
        """Add an op on ``stream``. Returns its time there."""
        time = self._clocks[stream][stream] = self._clocks[stream].get(stream, 0) + 1
        return time

    def is_over(self, stream: int, time: int, here: int) -> bool:
        """Whether the op at ``time`` on ``stream`` has finished before the next op on stream ``here`` starts."""
        return stream == here or self._clocks[here].get(stream, 0) >= time
