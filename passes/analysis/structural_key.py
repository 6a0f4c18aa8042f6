"""Structural keys: equal for ops that compute the same function of the values that they read."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from xdsl.ir import Block, Operation, SSAValue

from fxc.dialects.attributes.attribute_numbers import AttributeNumbers
from fxc.passes.analysis.constants import is_scalar_constant


class StructuralKey:
    """The key of the ops and blocks passed to ``op`` and ``block``: op names, attributes, types, and def-use edges.

    A value from outside contributes its type and is appended to ``reads``; a host constant contributes its value. Value names
    and locations do not count. Keys are comparable where they were made with the same ``numbers``.
    """

    def __init__(self, numbers: AttributeNumbers) -> None:
        self.numbers, self.reads = numbers, list[SSAValue]()
        self._items, self._places = list[Hashable](), dict[Hashable, int]()
        """``_places``: positions of values by identity, because hashing a value is a Python call."""

    @property
    def key(self) -> Hashable:
        return tuple(self._items)

    def op(self, op: Operation) -> None:
        items, places = self._items, self._places
        items.append(op.name)
        for value in op._operands:
            place = places.get(id(value))
            items.append(self._outside(value) if place is None else place)
        items.append(self._given(op))
        if op.attributes:
            items.append(self.numbers.of_all(op.attributes))
        self._made(op.results)
        for region in op.regions:
            items.append(-len(region.blocks))
            for block in region.blocks:
                self.block(block)
                items.append("end")

    def block(self, block: Block) -> None:
        self._made(block.args)
        op = block._first_op
        while op is not None:
            self.op(op)
            op = op._next_op

    def _outside(self, value: SSAValue) -> Hashable:
        """The part of the key for a value that is defined outside."""
        if is_scalar_constant(value) and isinstance(value.owner, Operation):
            return value.owner.name, self.numbers.of_all(value.owner.properties)
        self.reads.append(value)
        return "type", self.numbers.of(value.type)

    def _given(self, op: Operation) -> Hashable:
        """The part of the key for the properties of ``op``."""
        return self.numbers.of_all(op.properties) if op.properties else ()

    def _made(self, values: Sequence[SSAValue]) -> None:
        for value in values:
            self._places[id(value)] = len(self._places)
            self._items.append(self.numbers.of(value._type))


class Structures:
    """Structural keys of ops with their regions. Host constants that an op reads are part of its key; other operands not."""

    def __init__(self) -> None:
        self._numbers = AttributeNumbers()

    def of(self, op: Operation) -> StructuralKey:
        """The key of ``op``, and the outside values that it and the ops in its regions read."""
        found = StructuralKey(self._numbers)
        found.op(op)
        return found

    def key(self, op: Operation) -> Hashable:
        return self.of(op).key
