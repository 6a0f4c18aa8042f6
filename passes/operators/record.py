"""The record of an operator: all that the compiler knows of it beside its schema and its effects, in one entry."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from fxc.passes.operators.rules import Rule


class Role(Enum):
    """What an operator does to tensors as a whole, where passes treat all that do it alike."""

    CONCATENATION = auto()
    """Puts tensors behind each other along a dimension."""
    STACK = auto()
    """Puts tensors behind each other along a new dimension."""


@dataclass(frozen=True)
class Operator:
    """Facts about an operator overload. One without a record is a call of the library.

    ``formula``: how kernels compute it. ``cost``: how many additions the formula takes about as long as, for an element.
    """

    formula: Rule | None = None
    cost: int = 1
    role: Role | None = None


def each(names: str, formula: Rule | None = None, **facts: Any) -> dict[str, Operator]:
    """One record for each of ``names``, overloads of ``aten`` where they name no namespace. ``facts``: its other fields."""
    return dict.fromkeys(map(_full, names.split()), Operator(formula, **facts))


def _full(name: str) -> str:
    return name if name.count(".") == 2 else f"aten.{name}"
