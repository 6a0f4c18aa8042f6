"""The streams of an accelerator that a host program uses beside the caller's own."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

import torch


class StreamDriver(Protocol):
    """What is asked of an accelerator, as ``torch.cuda`` has it."""

    def Stream(self) -> Any: ...

    def Event(self) -> Any: ...

    def current_stream(self) -> Any: ...

    def stream(self, stream: Any) -> AbstractContextManager[Any]: ...


class Streams:
    """Streams by number; 0 is the one that the caller is in. They are made when they are first used."""

    def __init__(self, driver: StreamDriver = torch.cuda) -> None:  # type: ignore[assignment]
        self.driver = driver
        self._made = dict[int, Any]()

    def on(self, number: int) -> AbstractContextManager[Any]:
        """A region whose work goes to stream ``number``."""
        return nullcontext() if number == 0 else self.driver.stream(self._stream(number))

    def record(self, number: int) -> Any:
        """An event: where stream ``number`` is now."""
        event = self.driver.Event()
        event.record(self._stream(number))
        return event

    def wait(self, event: Any, number: int) -> None:
        """What stream ``number`` does from here on starts after ``event``."""
        self._stream(number).wait_event(event)

    def keep(self, tensor: torch.Tensor, number: int) -> None:
        """What stream ``number`` does so far, and until the last name of ``tensor`` goes, may use the memory of ``tensor``."""
        tensor.record_stream(self._stream(number))

    def _stream(self, number: int) -> Any:
        if number == 0:
            return self.driver.current_stream()
        if number not in self._made:
            self._made.setdefault(number, self.driver.Stream())
        return self._made[number]
