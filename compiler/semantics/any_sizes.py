"""Traces that hold for any sizes: what a hint decided is not in them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import TypeVar

from xdsl.dialects.builtin import DictionaryAttr
from xdsl.ir import Operation

from fxc.dialects.semantics import CannotInfer
from fxc.semantics.tensors import FakeWorld

Traced = TypeVar("Traced")


def traced_for_any_sizes(trace: Callable[[FakeWorld], Traced], world: FakeWorld, symbols: DictionaryAttr | None) -> Traced:
    """The result of ``trace`` in ``world``. CannotInfer where it compared a size with others, and other hints give another."""
    traced = trace(world)
    if world.has_guards and not _same(traced, trace(type(world)(symbols, other_guesses=True))):
        raise CannotInfer("what it computes hangs on sizes that are not known")
    return traced


def _same(a: object, b: object) -> bool:
    if isinstance(a, Operation) and isinstance(b, Operation):
        return a.is_structurally_equivalent(b)
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(_same, a, b))
    if is_dataclass(a) and is_dataclass(b):
        return all(_same(getattr(a, field.name), getattr(b, field.name)) for field in fields(a))
    return a == b
