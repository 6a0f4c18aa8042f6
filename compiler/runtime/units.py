"""Quantities in units that people read."""

from __future__ import annotations


def bytes_text(count: int) -> str:
    """``1.5 MiB``."""
    for unit, scale in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if count >= scale:
            return f"{count / scale:.1f} {unit}"
    return f"{count} bytes"


def duration(milliseconds: float) -> str:
    """``1.25 s``, ``340 ms``, ``0.8 ms``."""
    if milliseconds >= 1000:
        return f"{milliseconds / 1000:.2f} s"
    return f"{milliseconds:.0f} ms" if milliseconds >= 10 else f"{milliseconds:.1f} ms"
