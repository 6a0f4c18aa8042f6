"""Simulate the time of a program on one rank: computations on one stream, collectives on another.

Operations start in the order of the text. A collective starts when those before it have ended and the computations that stand
before it, too. The call that starts it holds up the computations after it, and so does ``dist.wait`` until it has ended. Times
of computations are measured, or the estimates of ``annotate-costs``; those of collectives are estimates of ``dist.links``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from fxc.dialects.base.effects import inner_operations
from fxc.dialects.dist import CollectiveOp, WaitOp
from fxc.dialects.text.syntax import written_name
from fxc.passes.dist.links import Links
from fxc.passes.operators.costs import Costs

COMPUTE, COMMUNICATION, WAITING = "compute", "communication", "waiting"
NO_TIMES: Mapping[Operation, float] = MappingProxyType({})


class Event(NamedTuple):
    """``operation`` runs on ``stream`` from ``start`` to ``end``, in microseconds. WAITING: the computations are held up."""

    stream: str
    start: float
    end: float
    operation: str


@dataclass(frozen=True)
class Timeline:
    """The events of one run, and the most bytes of results of collectives that were started and not awaited."""

    events: Sequence[Event]
    in_flight: int

    @property
    def time(self) -> float:
        """Microseconds from the first start to the last end."""
        return max((event.end for event in self.events), default=0.0)

    def busy(self, stream: str) -> float:
        """Microseconds of all events of ``stream``."""
        return sum(event.end - event.start for event in self.events if event.stream == stream)

    def messages(self) -> int:
        """The number of messages."""
        return sum(event.stream == COMMUNICATION for event in self.events)

    def exposed(self) -> float:
        """Microseconds of communication that no computation hides."""
        return self.time - self.busy(COMPUTE)


def simulate(
    module: ModuleOp, function: FuncOp, ranks: Mapping[str, int], times: Mapping[Operation, float] = NO_TIMES
) -> Timeline:
    """The timeline of ``function``, with these numbers of ranks along axes instead of those of the meshes.

    ``times``: measured microseconds of computations.
    """
    costs, links = Costs(function), Links(module, ranks)
    events, ends = list[Event](), dict[SSAValue, float]()
    now, free, waiting, most = 0.0, 0.0, 0, 0
    for op in inner_operations(function):
        if isinstance(op, CollectiveOp):
            start = max(now, free)
            free = start + links.time(op)
            events.append(Event(COMMUNICATION, start, free, _text(op)))
            if (held := links.start_time(op)) > 0:
                events.append(Event(WAITING, now, now + held, _text(op)))
                now += held
            ends.update(dict.fromkeys(op.values, free))
            waiting += sum(links.sizes.distinct_bytes(value.type) for value in op.values)
            most = max(most, waiting)
        elif isinstance(op, WaitOp):
            end = ends.pop(op.input, None)
            if end is not None:
                waiting -= links.sizes.distinct_bytes(op.input.type)
            if end is not None and end > now:
                events.append(Event(WAITING, now, end, _text(op)))
                now = end
        elif (time := times[op] if op in times else costs.of(op).time) > 0:
            events.append(Event(COMPUTE, now, now + time, _text(op)))
            now += time
    return Timeline(events, most)


def _text(op: Operation) -> str:
    names = [f"%{written_name(result) or '_'}" for result in op.results]
    return f"{', '.join(names[:2])}{', ...' if len(names) > 2 else ''} = {op.name.removeprefix('torch.')}"
