"""Values that a call of a model stores in attributes, lists and dicts: a program returns them, and each call assigns them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_unflatten

from fxc.bridge.values import SYMBOLIC_NUMBERS
from fxc.frontends.state_stores import ABSENT, Items, Place, tensors_in
from fxc.frontends.unrecorded import Unrecorded

_KINDS = (torch.Tensor, *SYMBOLIC_NUMBERS, int, float)
_COMPUTED = object()


class StoredValues:
    """The values at ``places``, of which a program returns the tensors and numbers."""

    def __init__(self, places: Mapping[str, Place]) -> None:
        self._places = dict(places)

    def computed(self) -> tuple[Any, ...]:
        """The tensors and numbers among the current values. Unrecorded for what a call cannot make and assign."""
        values = [place.value for place in self._places.values()]
        leaves, self._nesting = tree_flatten(values)
        for (path, place), value in zip(self._places.items(), values, strict=True):
            others = [leaf for leaf in tree_flatten(value)[0] if not isinstance(leaf, torch.Tensor)]
            of_object = any(next(tensors_in(leaf), None) is not None for leaf in others)
            if of_object or value is ABSENT or not place.is_simple:
                raise Unrecorded(f"what a call of the model stores in {path!r} is not recorded")
        self._leaves = [_COMPUTED if isinstance(leaf, _KINDS) else leaf for leaf in leaves]
        return tuple(leaf for leaf in leaves if isinstance(leaf, _KINDS))

    def move(self, containers: Mapping[str, Any]) -> None:
        """From now on, store in ``containers``, by path, instead of those that the model has had there."""
        for path, place in self._places.items():
            if isinstance(place.store, Items) and place.store.path in containers:
                self._places[path] = Place(Items(place.store.path, containers[place.store.path]), place.key)

    def assign(self, computed: Sequence[Any]) -> None:
        """Store new values that have ``computed`` as their tensors and numbers."""
        rest = iter(computed)
        values = tree_unflatten([next(rest) if leaf is _COMPUTED else leaf for leaf in self._leaves], self._nesting)
        for place, value in zip(self._places.values(), values, strict=True):
            place.assign(value)
