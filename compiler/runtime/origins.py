"""How objects came to be that no name leads to, as Python text: in another process they can be made in the same way."""

from __future__ import annotations

from typing import Any, TypeVar
from weakref import WeakKeyDictionary

T = TypeVar("T")

_ORIGINS = WeakKeyDictionary[Any, tuple[str, tuple[Any, ...]]]()


def made_by(name: str, made: T, *args: Any) -> T:
    """``made``, which ``name(*args)`` gives, as ``origin`` will say from now on."""
    _ORIGINS[made] = name, args
    return made


def origin(value: Any) -> tuple[str, tuple[Any, ...]] | None:
    """The function that made ``value``, by name, and its arguments; None where that is not known."""
    try:
        return _ORIGINS.get(value)
    except TypeError:  # no hash, or no weak reference
        return None
