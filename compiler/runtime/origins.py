"""Origins of objects without an importable name, as Python text from which another process can make them."""

from __future__ import annotations

from typing import Any, TypeVar
from weakref import WeakKeyDictionary

T = TypeVar("T")

_ORIGINS = WeakKeyDictionary[Any, tuple[str, tuple[Any, ...]]]()


def made_by(name: str, made: T, *args: Any) -> T:
    """Register ``made`` as the result of ``name(*args)``, for ``origin``."""
    _ORIGINS[made] = name, args
    return made


def origin(value: Any) -> tuple[str, tuple[Any, ...]] | None:
    """Return the name of the function that made ``value``, and its arguments; None if unknown."""
    try:
        return _ORIGINS.get(value)
    except TypeError:  # unhashable, or not weakly referenceable
        return None
