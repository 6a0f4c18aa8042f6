"""Vector clocks of streams: for each stream, how many ops of every stream have finished before its next op starts."""

from __future__ import annotations

from collections import defaultdict

from xdsl.ir import Operation, SSAValue

from fxc.dialects.plan.streams import RecordOp, WaitOp


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
