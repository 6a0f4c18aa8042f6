"""Abstract values of a walk over Python calls: nestings whose leaves are constants or ``Leaf``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from xdsl.ir import Attribute, SSAValue

from fxc.bridge.tensors import DeferredFake, FakeWorld


@dataclass(frozen=True, eq=False)
class Leaf:
    """A tensor or symbolic number of the graph: its fake value, and the SSA value that holds it when the program runs."""

    given: Any
    """The fake value, or what makes it."""
    value: SSAValue

    @cached_property
    def fake(self) -> Any:
        return self.given.make() if isinstance(self.given, DeferredFake) else self.given

    def type(self, world: FakeWorld) -> Attribute:
        """The type of the fake value; that of the SSA value where there is none yet."""
        is_made = "fake" in self.__dict__ or not isinstance(self.given, DeferredFake)
        return world.type_of(self.fake) if is_made else self.value.type


class Size(tuple):
    """The elements of a torch.Size of which some are symbolic."""


def map_leaves(nest: Any, function: Callable[[Any], Any]) -> Any:
    """``nest`` with ``function`` applied to what is no container. A Size becomes a torch.Size again."""
    if isinstance(nest, (Size, torch.Size)):
        return torch.Size([function(element) for element in nest])
    if isinstance(nest, tuple) and hasattr(nest, "_fields"):
        return type(nest)(*(map_leaves(element, function) for element in nest))
    if isinstance(nest, (list, tuple)):
        return type(nest)(map_leaves(element, function) for element in nest)
    if isinstance(nest, dict):
        return {key: map_leaves(value, function) for key, value in nest.items()}
    if isinstance(nest, slice):
        return slice(*(map_leaves(part, function) for part in (nest.start, nest.stop, nest.step)))
    return function(nest)


def leaves_of(nest: Any) -> list[Leaf]:
    found = list[Leaf]()
    map_leaves(sized(nest), lambda leaf: found.append(leaf) if isinstance(leaf, Leaf) else None)
    return found


def sized(nest: Any) -> Any:
    """``nest`` with every Size as a plain tuple, for walks whose function gives no numbers."""
    if isinstance(nest, (Size, torch.Size)):
        return tuple(nest)
    if isinstance(nest, tuple) and hasattr(nest, "_fields"):
        return tuple(map(sized, nest))
    if isinstance(nest, (list, tuple)):
        return type(nest)(map(sized, nest))
    if isinstance(nest, dict):
        return {key: sized(value) for key, value in nest.items()}
    if isinstance(nest, slice):
        return slice(*map(sized, (nest.start, nest.stop, nest.step)))
    return nest


@dataclass(frozen=True)
class LeafSlot:
    """The place of a traced output in a nested result, or of an input in a nested argument."""

    index: int


def with_slots(result: Any, slot: Callable[[Any], Any]) -> Any:
    """A nested result with ``slot`` applied to its leaves; a torch.Size with symbolic elements becomes a Size."""
    if isinstance(result, torch.Size):
        return Size(map(slot, result)) if any(isinstance(s, torch.SymInt) for s in result) else result
    return map_leaves(result, slot)
