"""What an op computes, as a key: equal for two ops that compute the same of the values that they read."""

from __future__ import annotations

from collections.abc import Hashable

from xdsl.ir import Operation, SSAValue

from fxc.dialects.attributes.attribute_numbers import AttributeNumbers
from fxc.passes.analysis.constants import is_scalar_constant


class Structures:
    """Keys of ops, their regions included. Host constants that an op reads are a part of its key; other values are not."""

    def __init__(self) -> None:
        self._numbers = AttributeNumbers()

    def reads(self, op: Operation) -> list[SSAValue]:
        """What ``op`` and the ops in its regions read that is made around it, host constants apart, in order."""
        found = [value for value in op.operands if not is_scalar_constant(value)]
        if op.regions:
            inside = {value for inner in op.walk() for value in _made_in(inner)}
            for inner in op.walk():
                if inner is not op:
                    found += [value for value in inner.operands if value not in inside and not is_scalar_constant(value)]
        return found

    def key(self, op: Operation) -> Hashable:
        """Of ``op`` in its block."""
        return self._key(op, {})

    def _key(self, op: Operation, local: dict[SSAValue, int]) -> Hashable:
        """``local``: the values that regions around have made, numbered."""
        operands = tuple([self._operand(value, local) for value in op.operands])
        types = self._numbers.of_types(op.results)
        given = self._numbers.of_all(op.properties), self._numbers.of_all(op.attributes)
        blocks = list[Hashable]()
        for region in op.regions:
            for block in region.blocks:
                for argument in block.args:
                    local[argument] = len(local)
                blocks.append(self._numbers.of_types(block.args))
                for inner in block.ops:
                    blocks.append(self._key(inner, local))
                    for result in inner.results:
                        local[result] = len(local)
        return op.name, operands, types, given, tuple(blocks)

    def _operand(self, value: SSAValue, local: dict[SSAValue, int]) -> Hashable:
        if value in local:
            return local[value]
        if is_scalar_constant(value) and isinstance(value.owner, Operation):
            return value.owner.name, self._numbers.of_all(value.owner.properties)
        return "type", self._numbers.of(value.type)


def _made_in(op: Operation) -> list[SSAValue]:
    """The results of ``op`` and the arguments of its blocks."""
    return [*op.results, *(argument for region in op.regions for block in region.blocks for argument in block.args)]
