"""The patterns that ``fxc.register_pattern`` added in this process."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from typing import Any

from fxc.dialects.equations import Equation

_lock = Lock()
_registered = dict[str, tuple[Equation, Any]]()


def registered() -> Sequence[Equation]:
    """The patterns, in the order of their registration."""
    with _lock:
        return [equation for equation, _ in _registered.values()]


def add(equation: Equation, key: Any) -> str | None:
    """Add ``equation``. Returns the name of a registered one with this name or an equal ``key``, and then adds nothing."""
    with _lock:
        for name, (_, other) in _registered.items():
            if name == equation.name or other == key:
                return name
        _registered[equation.name] = equation, key
        return None


def remove(equation: Equation) -> None:
    """Remove ``equation`` if it is registered."""
    with _lock:
        if equation.name in _registered and _registered[equation.name][0] is equation:
            del _registered[equation.name]
