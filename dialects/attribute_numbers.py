"""Attributes as numbers, so that ops can be compared without walking their attributes."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from xdsl.ir import Attribute


class AttributeNumbers:
    """Equal attributes get equal numbers. Hashing an attribute walks it; most are interned, so most are known by identity."""

    def __init__(self) -> None:
        self._by_id = dict[int, tuple[int, Attribute]]()  # holds the attribute, so that its id is not used again
        self._by_value = dict[Attribute, int]()

    def of(self, attribute: Attribute) -> int:
        known = self._by_id.get(id(attribute))
        if known is None:
            number = self._by_value.setdefault(attribute, len(self._by_value))
            known = self._by_id[id(attribute)] = (number, attribute)
        return known[0]

    def of_all(self, named: Mapping[str, Attribute]) -> Hashable:
        if len(named) < 2:
            return tuple([(name, self.of(attribute)) for name, attribute in named.items()])
        return tuple(sorted([(name, self.of(attribute)) for name, attribute in named.items()]))
