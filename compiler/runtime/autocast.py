"""The autocast state of a call."""

from __future__ import annotations

from contextlib import ExitStack

import torch

Autocast = tuple[tuple[str, str], ...]
"""``(device type, dtype)`` for each device type with autocast on."""

is_on = torch._C._is_any_autocast_enabled
"""Whether autocast is on for some device type; takes 0.1 us."""


def current() -> Autocast:
    """Return the autocast state of this thread."""
    if not is_on():
        return ()
    kinds = [kind for kind in torch._C._autocast_supported_devices() if torch.is_autocast_enabled(kind)]
    return tuple((kind, str(torch.get_autocast_dtype(kind)).removeprefix("torch.")) for kind in kinds)


def off() -> ExitStack:
    """Return a context in which autocast is off: a compiled program contains its casts."""
    stack = ExitStack()
    for kind, _ in current():
        stack.enter_context(torch.autocast(kind, enabled=False))
    return stack


def text(state: Autocast) -> str:
    """Format ``state`` for an error message."""
    return " and ".join(f"torch.autocast({kind!r}, torch.{dtype})" for kind, dtype in state) or "no torch.autocast"
