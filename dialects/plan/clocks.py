"""What is over when: each stream has a clock, which says how many ops of each stream are over where its next one starts."""

from __future__ import annotations

from collections import defaultdict

from xdsl.ir import Operation, SSAValue

from fxc.dialects.plan.streams import RecordOp, WaitOp


class Clocks:
    """Follows the ops of a block in order. An op comes after those before it on its stream, and after what the events that its
    stream waited for had recorded."""

    def __init__(self) -> None:
        self._clocks = defaultdict[int, dict[int, int]](dict)
        self._events = dict[SSAValue, dict[int, int]]()

    def follow(self, op: Operation) -> bool:
        """Whether ``op`` records or waits for an event; the clocks know of it then."""
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
        """An op on ``stream``: its time there."""
        time = self._clocks[stream][stream] = self._clocks[stream].get(stream, 0) + 1
        return time

    def is_over(self, stream: int, time: int, here: int) -> bool:
        """Whether the op of this time on ``stream`` is over before the next one on stream ``here`` starts."""
        return stream == here or self._clocks[here].get(stream, 0) >= time
