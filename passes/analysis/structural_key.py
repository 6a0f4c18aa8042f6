"""What ops compute, as a key: equal for ops that compute the same of the values that they read."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from xdsl.ir import Block, Operation, SSAValue

from fxc.dialects.attributes.attribute_numbers import AttributeNumbers
from fxc.passes.analysis.constants import is_scalar_constant


class StructuralKey:
    """Collects the key of the ops that ``op`` and ``block`` are given: names of ops, attributes, types, and who reads whom.

    Of values that are read and made elsewhere, ``reads`` in order, the type counts, and of host constants what they are. Names
    of values and locations do not count. Keys are compared among those that have the same ``numbers``.
    """

    def __init__(self, numbers: AttributeNumbers) -> None:
        self.numbers, self.reads = numbers, list[SSAValue]()
        self._items, self._places = list[Hashable](), dict[Hashable, int]()
        """``_places``: values by identity, as hashing one is a Python call."""

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
        """What counts of a value that is made elsewhere."""
        if is_scalar_constant(value) and isinstance(value.owner, Operation):
            return value.owner.name, self.numbers.of_all(value.owner.properties)
        self.reads.append(value)
        return "type", self.numbers.of(value.type)

    def _given(self, op: Operation) -> Hashable:
        """What counts of the properties of ``op``."""
        return self.numbers.of_all(op.properties) if op.properties else ()

    def _made(self, values: Sequence[SSAValue]) -> None:
        for value in values:
            self._places[id(value)] = len(self._places)
            self._items.append(self.numbers.of(value._type))


class Structures:
    """Keys of ops, their regions included. Host constants that an op reads are a part of its key; other values are not."""

    def __init__(self) -> None:
        self._numbers = AttributeNumbers()

    def of(self, op: Operation) -> StructuralKey:
        """The key of ``op`` in its block, and what it and the ops in its regions read that is made around it."""
        found = StructuralKey(self._numbers)
        found.op(op)
        return found

    def key(self, op: Operation) -> Hashable:
        return self.of(op).key
