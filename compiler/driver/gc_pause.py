"""Pause Python's cyclic garbage collector while many long-lived objects are made."""

from __future__ import annotations

import gc
import threading
from collections.abc import Generator
from contextlib import contextmanager

_lock, _pauses = threading.Lock(), list[bool]()
"""One entry for each open pause: whether the collector was enabled when the first one began."""


@contextmanager
def collections_paused() -> Generator[None, None, None]:
    """Disable the collector: imports and passes make many objects but few dead cycles, and each collection walks all objects.

    When the last open pause of any thread ends, the collector is restored to its state before the first.
    """
    with _lock:
        _pauses.append(_pauses[-1] if _pauses else gc.isenabled())
        gc.disable()
    try:
        yield
    finally:
        with _lock:
            was_enabled = _pauses.pop()
            if was_enabled and not _pauses:
                gc.enable()
