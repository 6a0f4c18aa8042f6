"""What may lie in a fusion group, and which ops of a straight line become one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import ArrayAttr, TensorType
from xdsl.ir import Attribute, Operation, SSAValue

from fxc.dialects.effects import aliases
from fxc.dialects.torch_ops.base import TorchOp
from fxc.dialects.torch_ops.traits import is_concatenation, is_split
from fxc.dialects.types import FloatType, device, layout, sizes
from fxc.dialects.values import bool_attr
from fxc.passes._broadcasting import broadcasts
from fxc.passes._constants import is_constant
from fxc.passes._slices import Slices

MOST_VALUES = 128
"""How many inputs and outputs a group may have together."""


@dataclass
class _Border:
    """What a slice reads of others and how often, how often others read which of its results, where it runs, and how many
    of its ops are concatenations."""

    inputs: Counter[SSAValue]
    outputs: Counter[SSAValue]
    devices: frozenset[str]
    concatenations: int

    @classmethod
    def of(cls, op: Operation) -> _Border:
        uses = Counter[SSAValue]({result: count for result in op.results if (count := sum(1 for _ in result.uses))})
        inputs = Counter(value for value in op.operands if not is_host_constant(value))
        devices = frozenset(device(result.type) for result in op.results if isinstance(result.type, TensorType))
        return cls(inputs, uses, devices, is_concatenation(op))

    def joined(self, other: _Border) -> _Border:
        """That of both, which are one slice: a Counter keeps no count that falls to zero."""
        inputs, outputs = self.inputs + other.inputs, self.outputs + other.outputs
        return _Border(
            inputs=Counter({value: count for value, count in inputs.items() if value not in outputs}),
            outputs=outputs - inputs,
            devices=self.devices | other.devices,
            concatenations=self.concatenations + other.concatenations,
        )

    def fits(self) -> bool:
        return len(self.devices) == 1 and self.concatenations <= 1 and len(self.inputs) + len(self.outputs) <= MOST_VALUES


class Groups(Slices):
    """The groups of ``ops``: of pointwise ops first, then of each concatenation with producers; chunks join what reads them."""

    def __init__(self, ops: Sequence[Operation]) -> None:
        super().__init__(ops, {op for op in ops if is_pointwise(op)}, lambda op: True)
        self.borders = dict[int, _Border]()

    def groups(self) -> list[list[Operation]]:
        super().groups()
        for i in reversed(range(len(self.ops))):
            if joins_tensors(self.ops[i]):
                self._grow(i)
        for i, op in enumerate(self.ops):
            if is_chunk(op):
                self._pull(i)
        return [members for members in self._found() if len(members) > 1]

    def reader(self, op: Operation) -> int | None:
        """The one slice that reads the results of ``op``, where nothing else does."""
        users = {use.operation for result in op.results for use in result.uses}
        found = {self.graph.find(i) if (i := self.index.get(user)) in self.taken else None for user in users}
        return found.pop() if len(found) == 1 else None

    def _pull(self, i: int) -> None:
        """Take the chunk ``i`` into the group that alone reads its pieces, where no other kind there has its operand."""
        reader, chunk = self.reader(self.ops[i]), self.ops[i]
        if reader is None or len(members := self.graph.members(reader)) < 2:
            return
        others = [self.ops[j] for j in members if is_split(self.ops[j]) and self.ops[j].operands[0] is chunk.operands[0]]
        if all(is_equal_call(chunk, other) for other in others):
            self._merge(i, reader)

    def _merge(self, producer: int, consumer: int) -> bool:
        joined = self._border(producer).joined(self._border(consumer))
        if not joined.fits() or not super()._merge(producer, consumer):
            return False
        self.borders[self.graph.find(consumer)] = joined
        return True

    def _border(self, i: int) -> _Border:
        root = self.graph.find(i)
        if root not in self.borders:
            self.borders[root] = _Border.of(self.ops[root])
        return self.borders[root]


def is_pointwise(op: Operation) -> bool:
    """Whether ``op`` makes one strided tensor of tensors, floats and constants, element by element, and something reads it."""
    if not isinstance(op, TorchOp) or op.SCHEMA.mutates or not broadcasts(op) or len(op.results) != 1 or needs_gradient(op):
        return False
    tensors = _is_strided(op.results[0].type) and op.results[0].first_use is not None
    return tensors and all(_is_strided(v.type) or isinstance(v.type, FloatType) or is_host_constant(v) for v in op.operands)


def joins_tensors(op: Operation) -> bool:
    """Whether ``op`` puts tensors of one type, of known sizes, behind each other, and something reads the result."""
    if not is_concatenation(op) or needs_gradient(op):
        return False
    if not op.operands or op.results[0].first_use is None or any(aliases(op)):
        return False
    types = [value.type for value in (*op.operands, *op.results)]
    return all(_is_strided(type) for type in types) and _is_one_kind(types) and _is_one_shape(op.operand_types)


def is_chunk(op: Operation) -> bool:
    """Whether ``op`` cuts a tensor into two or more pieces of one known shape, one result each."""
    if not is_split(op) or len(op.operands) != 1 or len(op.results) < 2 or needs_gradient(op):
        return False
    return all(_is_strided(type) for type in op.result_types) and _is_one_shape(op.result_types)


def needs_gradient(op: Operation) -> bool:
    """Whether ``op`` says that a result needs a gradient: autograd sees no op in a group."""
    flags = op.attributes.get("requires_grad")
    return isinstance(flags, ArrayAttr) and bool_attr(True) in flags.data


def is_equal_call(a: Operation, b: Operation) -> bool:
    """Whether two ops without regions compute the same."""
    same = a.name == b.name and a._operands == b._operands and a.result_types == b.result_types
    return same and a.properties == b.properties and a.attributes == b.attributes


def is_host_constant(value: SSAValue) -> bool:
    """Whether ``value`` is a number, a string or none that an op states: each group has a copy."""
    return isinstance(value.owner, Operation) and is_constant(value.owner) and not isinstance(value.type, TensorType)


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
