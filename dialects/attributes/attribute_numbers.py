"""Number attributes, so that ops can be compared without walking their attributes."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

from xdsl.ir import Attribute, SSAValue


class AttributeNumbers:
    """Maps equal attributes to equal numbers. Looks up by identity first: hashing walks an attribute, and most are interned."""

    def __init__(self) -> None:
        self._by_id = dict[int, int]()  # numbers start at 1
        self._by_value = dict[Attribute, int]()
        self._held = list[Attribute]()  # prevents reuse of an id

    def of(self, attribute: Attribute) -> int:
        return self._by_id.get(id(attribute)) or self._new(attribute)

    def of_types(self, values: Sequence[SSAValue]) -> tuple[int, ...]:
        """The numbers of the types of ``values``."""
        known = self._by_id.get
        return tuple([known(id(value._type)) or self._new(value._type) for value in values])

    def of_all(self, named: Mapping[str, Attribute]) -> Hashable:
        known = self._by_id.get
        numbered = [(name, known(id(attribute)) or self._new(attribute)) for name, attribute in named.items()]
        if len(numbered) > 1:
            numbered.sort()
        return tuple(numbered)

    def _new(self, attribute: Attribute) -> int:
        number = self._by_value.setdefault(attribute, len(self._by_value) + 1)
        self._by_id[id(attribute)] = number
        self._held.append(attribute)
        return number
