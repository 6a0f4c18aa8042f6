"""How a pass counts what it did: ``count("merged")`` anywhere below ``apply``.

Counts go to whoever is recording (``fxc-opt --statistics``) and nowhere otherwise: a call then costs one dictionary
look-up. The recorder is a context variable, so that two compilations in one process do not see each other's counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_recorder: ContextVar[Counter[str] | None] = ContextVar("fxc_statistics", default=None)


def count(what: str, amount: int = 1) -> None:
    """Add ``amount`` to the counter ``what`` of the pass that is running."""
    if (counter := _recorder.get()) is not None:
        counter[what] += amount


@contextmanager
def recording(counter: Counter[str]) -> Iterator[None]:
    """Let ``counter`` receive what is counted inside."""
    token = _recorder.set(counter)
    try:
        yield
    finally:
        _recorder.reset(token)
