"""The streams of an accelerator that a host program uses beside the caller's stream."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

import torch


class StreamDriver(Protocol):
    """The functions of an accelerator that streams use, as in ``torch.cuda``."""

    def Stream(self) -> Any: ...

    def Event(self) -> Any: ...

    def current_stream(self) -> Any: ...

    def stream(self, stream: Any) -> AbstractContextManager[Any]: ...


class Streams:
    """Streams by number, created on first use; 0 is the caller's current stream."""

    def __init__(self, driver: StreamDriver = torch.cuda) -> None:
        self.driver = driver
        self._made = dict[int, Any]()

    def on(self, number: int) -> AbstractContextManager[Any]:
        """Return a context whose work runs on stream ``number``."""
        return nullcontext() if number == 0 else self.driver.stream(self._stream(number))

    def record(self, number: int) -> Any:
        """Return an event at the current position of stream ``number``."""
        event = self.driver.Event()
        event.record(self._stream(number))
        return event

    def wait(self, event: Any, number: int) -> None:
        """Make later work on stream ``number`` start after ``event``."""
        self._stream(number).wait_event(event)

    def record_use(self, tensor: torch.Tensor, number: int) -> None:
        """Mark ``tensor`` as used by stream ``number``: its memory is not reused before the work of that stream is done."""
        tensor.record_stream(self._stream(number))

    def _stream(self, number: int) -> Any:
        if number == 0:
            return self.driver.current_stream()
        if number not in self._made:
            self._made.setdefault(number, self.driver.Stream())
        return self._made[number]
