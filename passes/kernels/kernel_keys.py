"""Keys of groups: equal for groups that have the same kernels except for operands, names, and free constants."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import FloatAttr, UnknownLoc
from xdsl.ir import Attribute, Block, Operation, OpResult, Region, SSAValue, Use
from xdsl.ir.core import SSAValues

from fxc.dialects.attributes.attribute_numbers import AttributeNumbers
from fxc.dialects.attributes.types import is_tensor
from fxc.dialects.fusion import GroupOp
from fxc.passes.analysis.structural_key import StructuralKey

WRITTEN = frozenset(["mask", "program"])
"""Names that kernels give to generated values."""


class Outline(StructuralKey):
    """The key of a group, and the parts in which groups with an equal key may differ.

    Groups with an equal ``key`` have the same loops, schedules and kernels, except for the listed parts. ``reads`` are the
    tensors that the group reads, ``names`` the names of its values and tensors, ``constants`` its free numbers. Each is listed
    once, in order: items that are equal in one group are equal in the other. ``locations``: of its ops, where known.
    """

    def __init__(self, group: GroupOp, numbers: AttributeNumbers) -> None:
        super().__init__(numbers)
        self.names, self.constants = list[str](), list[Attribute]()
        self.locations = list[int]()
        sizes = [size for op in group.body.block.ops for value in op._operands for size in _sizes(value)]
        self._steps, self._longest = math.prod(sizes), max(sizes, default=0)
        self.block(group.body.block)
        self._items += [self._name(result._name) for result in group.results]

    def _outside(self, value: SSAValue) -> int:
        """The position of a tensor that the group reads. Its type and name become part of the key."""
        self.reads.append(value)
        self._items += ("reads", self.numbers.of(value.type), self._name(value._name))
        return self._places.setdefault(id(value), len(self._places))

    def _made(self, values: Sequence[SSAValue]) -> None:
        for value in values:
            self._places[id(value)] = len(self._places)
            self._items += (self.numbers.of(value._type), self._name(value._name))

    def _name(self, name: str | None) -> Hashable:
        if name is None or name in WRITTEN:
            return name
        if name not in self._places:
            self._places[name] = len(self._places)
            self.names.append(name)
        return self._places[name]

    def _given(self, op: Operation) -> Hashable:
        if type(op.location) is not UnknownLoc:
            self.locations.append(self.numbers.of(op.location))
        if not isinstance(op, arith.ConstantOp) or not isinstance(number := op.value, FloatAttr):
            return super()._given(op)
        if not self._is_free(number.value.data):
            return repr(number.value.data), self.numbers.of(number.type)
        return self._number(number)

    def _number(self, number: Attribute) -> Hashable:
        place = "number", self.numbers.of(number)
        if place not in self._places:
            self._places[place] = len(self._places)
            self.constants.append(number)
        return self._places[place], self.numbers.of(number.type)  # type: ignore[attr-defined]

    def _is_free(self, number: float) -> bool:
        """Whether ``number`` may differ between equal kernels.

        It may not where kernels generate it, such as 0 and lanes, or compare it with a number of steps.
        """
        if not math.isfinite(number):
            return False
        whole = abs(int(number))
        return whole != abs(number) or (whole > self._longest and bool(whole & (whole - 1)) and bool(self._steps % whole))


def _sizes(value: SSAValue) -> tuple[int, ...]:
    return value.type.get_shape() if is_tensor(value.type) else ()


class Copier:
    """Copies the code generated for a group with the outline ``old`` for one with the outline ``new`` and an equal key.

    The ops have no successors. They are built here directly, because xDSL's constructors repeat checks that the copied ops
    passed.
    """

    def __init__(self, old: Outline, new: Outline) -> None:
        self.names = dict(zip(old.names, new.names, strict=True))
        self.numbers = dict(zip(old.constants, new.constants, strict=True))
        self.values = {id(value): given for value, given in zip(old.reads, new.reads, strict=True)}

    def op(self, op: Operation) -> Operation:
        new, values = op.__class__.__new__(op.__class__), self.values
        new._successors = new._successor_uses = new.regions = ()
        given, uses, made = list[SSAValue](), list[Use](), list[OpResult]()
        for index, value in enumerate(op._operands):
            value, use = values[id(value)], Use(new, index)
            if (following := value.first_use) is not None:  # ``SSAValue.add_use``
                use._next_use = following
                following._prev_use = use
            value.first_use = use
            given.append(value)
            uses.append(use)
        new._operands, new._operand_uses = SSAValues(given), tuple(uses)
        new.properties, new.attributes, new.location = op.properties.copy(), op.attributes.copy(), op.location
        if self.numbers and isinstance(op, arith.ConstantOp):
            new.properties["value"] = self.numbers.get(op.value, op.value)
        if op.regions:
            for region in op.regions:
                new.add_region(Region([self.block(block) for block in region.blocks]))
        for index, old in enumerate(op.results):
            values[id(old)] = result = OpResult(old._type, new, index)
            if old._name is not None:
                result._name = self.names.get(old._name, old._name)
            made.append(result)
        new.results = SSAValues(made)
        return new

    def block(self, block: Block) -> Block:
        new = Block(arg_types=[argument.type for argument in block.args])
        for old, argument in zip(block.args, new.args, strict=True):
            self.values[id(old)] = argument
            argument._name = self.names.get(old._name, old._name) if old._name is not None else None
        last: Operation | None = None
        op = block._first_op
        while op is not None:
            copy = self.op(op)
            copy.parent, copy._prev_op = new, last
            if last is None:
                new._first_op = copy
            else:
                last._next_op = copy
            last, op = copy, op._next_op
        new._last_op = last
        return new
