"""Python's collector of cycles, which waits while many objects are made that stay."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_lock, _pauses = threading.Lock(), list[bool]()
"""Of each pause that is open, whether the collector was on when the first of them began."""


@contextmanager
def collections_paused() -> Iterator[None]:
    """Let the collector wait: imports and passes make many objects and few cycles that die, and each search walks them all.

    When the last of all open pauses, of any thread, ends, the collector is as it was before the first.
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
