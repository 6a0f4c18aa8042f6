"""A stand-in for an accelerator with streams: work is put aside, and done later in any order that streams and events allow."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode


class Stream:
    def __init__(self, accelerator: LateAccelerator, number: int) -> None:
        self.accelerator, self.number = accelerator, number

    def wait_event(self, event: Event) -> None:
        self.accelerator.put(self.number, event)


class Event:
    """``done`` once the stream that recorded it has come there."""

    def __init__(self) -> None:
        self.done = False

    def record(self, stream: Stream) -> None:
        stream.accelerator.put(stream.number, self._reach)

    def _reach(self) -> None:
        self.done = True


class LateAccelerator(TorchDispatchMode):
    """A driver for ``fxc.runtime.cuda_graphs``; while it is on, calls of operators but views and allocations are put aside."""

    def __init__(self) -> None:
        super().__init__()
        self.queues = defaultdict[int, list[Event | Callable[[], Any]]](list)
        self.made = self.current = 0
        self.log = list[tuple[int, str]]()
        """What was done, on which stream, in this order."""

    # what Streams asks of it

    def Stream(self) -> Stream:
        self.made += 1
        return Stream(self, self.made)

    def Event(self) -> Event:
        return Event()

    def current_stream(self) -> Stream:
        return Stream(self, self.current)

    @contextmanager
    def stream(self, stream: Stream) -> Iterator[None]:
        before, self.current = self.current, stream.number
        yield
        self.current = before

    # work

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = kwargs or {}
        if func.is_view or not any(isinstance(value, torch.Tensor) for value in args):
            return func(*args, **given)
        if func._schema.is_mutable:
            result = given["out"] if "out" in given else args[0]
            self.put(self.current, lambda: self._do(func, lambda: func(*args, **given)))
            return result
        result = torch.empty_like(func(*args, **given)).fill_(float("nan"))  # of the right sizes
        self.put(self.current, lambda: self._do(func, lambda: result.copy_(func(*args, **given))))
        return result

    def _do(self, func: Any, work: Callable[[], Any]) -> None:
        self.log.append((self.current, str(func)))
        work()

    def put(self, stream: int, what: Event | Callable[[], Any]) -> None:
        self.queues[stream].append(what)

    def finish(self, random: Random) -> None:
        """Do all that was put aside: whatever may come next, one stream for a while, then another."""
        chosen = 0
        while any(self.queues.values()):
            ready = [number for number, queue in self.queues.items() if queue and not _waits(queue[0])]
            assert ready, "streams wait for events that nothing records"
            if chosen not in ready or random.random() < 0.2:
                chosen = random.choice(sorted(ready))
            self.current, what = chosen, self.queues[chosen].pop(0)
            if not isinstance(what, Event):
                what()


def _waits(what: Event | Callable[[], Any]) -> bool:
    return isinstance(what, Event) and not what.done
