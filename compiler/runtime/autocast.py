"""The autocast regions that a call stands in."""

from __future__ import annotations

from contextlib import ExitStack

import torch

Autocast = tuple[tuple[str, str], ...]
"""(kind of device, dtype) where autocast is on."""

is_on = torch._C._is_any_autocast_enabled
"""Whether autocast is on for some kind of device; a tenth of a microsecond."""


def current() -> Autocast:
    """What is on now."""
    if not is_on():
        return ()
    kinds = [kind for kind in torch._C._autocast_supported_devices() if torch.is_autocast_enabled(kind)]
    return tuple((kind, str(torch.get_autocast_dtype(kind)).removeprefix("torch.")) for kind in kinds)


def off() -> ExitStack:
    """A region where it is off: the casts of a program are in the program."""
    stack = ExitStack()
    for kind, _ in current():
        stack.enter_context(torch.autocast(kind, enabled=False))
    return stack


def text(state: Autocast) -> str:
    """As an error says it."""
    return " and ".join(f"torch.autocast({kind!r}, torch.{dtype})" for kind, dtype in state) or "no torch.autocast"
