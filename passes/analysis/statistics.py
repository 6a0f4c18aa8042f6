"""Statistics of passes: ``count("merged")`` anywhere below ``apply``.

Counts go to the active recorder (``fxc-opt --statistics``). Without one, a call costs one context-variable look-up. The
recorder is a context variable, so that concurrent compilations in one process have separate counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

_recorder: ContextVar[Counter[str] | None] = ContextVar("fxc_statistics", default=None)


def count(what: str, amount: int = 1) -> None:
    """Add ``amount`` to the counter ``what`` of the running pass."""
    if (counter := _recorder.get()) is not None:
        counter[what] += amount


@contextmanager
def recording(counter: Counter[str]) -> Generator[None, None, None]:
    """Add the counts of the ``with`` block to ``counter``."""
    token = _recorder.set(counter)
    try:
        yield
    finally:
        _recorder.reset(token)
