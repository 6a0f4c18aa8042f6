"""What may lie in a fusion group, and which ops of a straight line become one."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Operation, SSAValue

from fxc.dialects.effects import aliases
from fxc.dialects.torch_ops.base import TorchOp
from fxc.dialects.types import FloatType, device, layout, sizes
from fxc.passes._broadcasting import broadcasts
from fxc.passes._constants import is_constant
from fxc.passes.autodiff._slices import Slices

CONCATENATIONS = frozenset(["torch.aten.cat.default"])
CHUNKS = frozenset(["torch.aten.chunk.default", "torch.aten.split.Tensor"])
MOST_VALUES = 128
"""How many inputs and outputs a group may have together."""


class Groups(Slices):
    """The groups of ``ops``: of pointwise ops first, then of each concatenation with producers; chunks join what reads them."""

    def __init__(self, ops: Sequence[Operation]) -> None:
        super().__init__(ops, {op for op in ops if is_pointwise(op)}, lambda op: True)

    def groups(self) -> list[list[Operation]]:
        super().groups()
        for i in reversed(range(len(self.ops))):
            if is_concatenation(self.ops[i]):
                self._set(1 << i)
                self._grow(i)
        for i, op in enumerate(self.ops):
            if is_chunk(op):
                self._pull(i)
        masks = dict.fromkeys(self.slice_of[i] for i in sorted(self.slice_of))
        found = [self._members(mask) for mask in masks]
        return [members for members in found if len(members) > 1]

    def _pull(self, i: int) -> None:
        """Take the chunk ``i`` into the group that alone reads its pieces, where no other chunk there has its operand."""
        users = {use.operation for result in self.ops[i].results for use in result.uses}
        if not users or not all(user in self.index and self.index[user] in self.slice_of for user in users):
            return
        masks = {self.slice_of[self.index[user]] for user in users}
        mask = masks.pop()
        members = self._members(mask)
        known = [op for op in members if op.name in CHUNKS and op.operands[0] is self.ops[i].operands[0]]
        if not masks and len(members) > 1 and not known:
            self._merge(mask | 1 << i)

    def _merge(self, mask: int) -> bool:
        return self._fits(self._members(mask)) and super()._merge(mask)

    def _fits(self, members: Sequence[Operation]) -> bool:
        last = [op for op in members if op.name in CONCATENATIONS]
        if len(last) > 1 or any(use.operation in members for op in last for use in op.results[0].uses):
            return False
        devices = {device(result.type) for op in members for result in op.results if isinstance(result.type, TensorType)}
        return len(devices) == 1 and len(inputs(members)) + len(outputs(members)) <= MOST_VALUES

    def _members(self, mask: int) -> list[Operation]:
        return [op for i, op in enumerate(self.ops) if mask >> i & 1]


def is_pointwise(op: Operation) -> bool:
    """Whether ``op`` makes one strided tensor of tensors, floats and constants, element by element, and something reads it."""
    if not isinstance(op, TorchOp) or op.SCHEMA.mutates or not broadcasts(op) or len(op.results) != 1:
        return False
    tensors = _is_strided(op.results[0].type) and op.results[0].first_use is not None
    return tensors and all(_is_strided(v.type) or isinstance(v.type, FloatType) or is_host_constant(v) for v in op.operands)


def is_concatenation(op: Operation) -> bool:
    """Whether ``op`` puts tensors of one type, of known sizes, behind each other, and something reads the result."""
    if op.name not in CONCATENATIONS or not op.operands or op.results[0].first_use is None or any(aliases(op)):
        return False
    types = [value.type for value in (*op.operands, *op.results)]
    return all(_is_strided(type) for type in types) and _is_one_kind(types) and _is_one_shape(op.operand_types)


def is_chunk(op: Operation) -> bool:
    """Whether ``op`` cuts a tensor into two or more pieces of one known shape, one result each."""
    if op.name not in CHUNKS or len(op.operands) != 1 or len(op.results) < 2:
        return False
    return all(_is_strided(type) for type in op.result_types) and _is_one_shape(op.result_types)


def is_host_constant(value: SSAValue) -> bool:
    """Whether ``value`` is a number, a string or none that an op states: each group has a copy."""
    return isinstance(value.owner, Operation) and is_constant(value.owner) and not isinstance(value.type, TensorType)


def inputs(members: Sequence[Operation]) -> list[SSAValue]:
    """What ``members`` read from outside, once each, constants that are copied apart."""
    made = {result for op in members for result in op.results}
    read = dict.fromkeys(value for op in members for value in op.operands if value not in made)
    return [value for value in read if not is_host_constant(value)]


def outputs(members: Sequence[Operation]) -> list[SSAValue]:
    """The results of ``members`` that others read."""
    inside = set(members)
    results = (result for op in members for result in op.results)
    return [result for result in results if any(use.operation not in inside for use in result.uses)]


def _is_strided(type: Attribute) -> bool:
    return isinstance(type, TensorType) and layout(type) == "strided"


def _is_one_kind(types: Sequence[Attribute]) -> bool:
    return len({type.element_type for type in types if isinstance(type, TensorType)}) == 1


def _is_one_shape(types: Sequence[Attribute]) -> bool:
    shapes = {sizes(type) for type in types if isinstance(type, TensorType)}
    return len(shapes) == 1 and "" not in shapes.pop()
