"""Disjoint sets as a dict from members towards the member that represents their set (union-find, Galler and Fischer 1964)."""

from __future__ import annotations

from typing import TypeVar

_T = TypeVar("_T")


def representative(above: dict[_T, _T], member: _T) -> _T:
    """The representative of the set of ``member``; paths to it are halved."""
    while (parent := above.get(member)) is not None:
        if (top := above.get(parent)) is not None:
            above[member] = top
        member = parent
    return member


def unite(above: dict[_T, _T], one: _T, other: _T) -> None:
    """Make one set of two; its representative is that of ``other``."""
    if (first := representative(above, one)) != (second := representative(above, other)):
        above[first] = second
