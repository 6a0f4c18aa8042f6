"""Candidates for fusion groups, and the grouping of the ops of a straight line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.ir import Attribute, Operation, SSAValue

from fxc.dialects.attributes.types import FloatType, device, is_tensor, layout, sizes
from fxc.dialects.base.effects import aliases
from fxc.dialects.torch_ops.base import TorchOp
from fxc.passes.analysis.constants import is_scalar_constant
from fxc.passes.analysis.requires_grad import needs_gradient
from fxc.passes.analysis.slices import Slices
from fxc.passes.fusion.fuse.cost import MOST_VALUES, Extent
from fxc.passes.operators.record import Role
from fxc.passes.operators.table import role_of
from fxc.passes.rewriting.broadcasting import broadcasts

DEVICES = "devices: a group runs on one"
CONCATENATIONS = "concatenations: a group has one"
VALUES = f"values: a group has at most {MOST_VALUES} inputs and outputs"
CYCLE = "cycle: an op between the two would depend on the group, and the group on it"
"""Rules that reject merging two slices, as printed in remarks."""


@dataclass
class Border:
    """The interface of a slice: inputs with their number of uses, outputs with their number of outside uses, and devices.

    ``concatenations``: the number of concatenations among its ops.
    """

    inputs: Mapping[SSAValue, int]
    outputs: Mapping[SSAValue, int]
    devices: frozenset[str]
    concatenations: int
    extent: Extent | None = None
    """The loops of the slice, for groups that become kernels."""
    gathered: frozenset[SSAValue] = frozenset()
    """Inputs that are read at computed positions."""
    places: Mapping[int, frozenset[tuple[int, int]]] = field(default_factory=dict[int, frozenset[tuple[int, int]]])
    """The positions at which ops of the slice are computed, for the ops whose positions this border determined."""

    @classmethod
    def of(cls, op: Operation) -> Border:
        uses: dict[SSAValue, int] = {result: count for result in op.results if (count := sum(1 for _ in result.uses))}
        inputs = Counter(value for value in op.operands if not is_scalar_constant(value))
        devices = frozenset(device(result.type) for result in op.results if is_tensor(result.type))
        return cls(inputs, uses, devices, role_of(op) is Role.CONCATENATION)

    def joined(self, other: Border) -> Border:
        """The border of the merged slice."""
        inputs, outputs = _sum(self.inputs, other.inputs), _sum(self.outputs, other.outputs)
        for value in inputs.keys() & outputs.keys():
            outputs[value] -= inputs.pop(value)
            if outputs[value] <= 0:
                del outputs[value]
        return Border(
            inputs=inputs,
            outputs=outputs,
            devices=self.devices | other.devices,
            concatenations=self.concatenations + other.concatenations,
            gathered=self.gathered | other.gathered,
        )

    def is_full(self) -> bool:
        """Whether the slice has as many inputs and outputs as a group may have."""
        return len(self.inputs) + len(self.outputs) >= MOST_VALUES

    def refusal(self) -> str | None:
        """The rule that a group with this border violates, else None."""
        if len(self.devices) != 1:
            return DEVICES
        if self.concatenations > 1:
            return CONCATENATIONS
        return VALUES if len(self.inputs) + len(self.outputs) > MOST_VALUES else None


def _sum(some: Mapping[SSAValue, int], others: Mapping[SSAValue, int]) -> dict[SSAValue, int]:
    """The sum of the counts of each value."""
    total = dict(some)
    for value, number in others.items():
        total[value] = total.get(value, 0) + number
    return total


class Groups(Slices):
    """The groups of ``ops``.

    Pointwise ops are grouped first, then each concatenation with its producers. Chunks join the groups that read them.
    """

    def __init__(self, ops: Sequence[Operation]) -> None:
        members = {op for op in ops if self.is_member(op)}
        super().__init__(ops, members, self.is_root)
        self.borders = dict[int, Border]()
        self.refused = dict[tuple[int, int], str]()
        """(producer, consumer) -> the rule that rejected their merge."""

    def is_member(self, op: Operation) -> bool:
        """Whether ``op`` may be in a group."""
        return is_pointwise(op)

    def exclusion(self, op: Operation) -> str | None:
        """The rule that excludes ``op`` from all groups, although groups may contain ops of its kind; else None."""
        return None

    def is_root(self, op: Operation) -> bool:
        """Whether a group may grow from ``op``."""
        return True

    def joins(self, op: Operation) -> bool:
        """Whether ``op`` is a concatenation that may end a group."""
        return joins_tensors(op)

    def cuts(self, op: Operation) -> bool:
        """Whether ``op`` is a chunk that may join a group."""
        return is_chunk(op)

    def widen(self) -> None:
        """Merge slices that do not read each other."""

    def objection(self, producer: int, consumer: int, joined: Border) -> str | None:
        """An additional rule that rejects merging the slices of two ops, else None."""
        return None

    def is_group(self, members: Sequence[Operation]) -> bool:
        return len(members) > 1

    def groups(self) -> list[list[Operation]]:
        super().groups()
        self.widen()
        for i in reversed(range(len(self.ops))):
            if self.joins(self.ops[i]):
                self._grow(i)
        for i, op in enumerate(self.ops):
            if self.cuts(op):
                self._pull(i)
        return [members for members in self._slices() if self.is_group(members)]

    def reader(self, op: Operation) -> int | None:
        """The one slice that reads the results of ``op``; None where several do, or an op in no slice."""
        users = {use.operation for result in op.results for use in result.uses}
        found = {self.graph.find(i) if (i := self.index.get(user)) in self.taken else None for user in users}
        return found.pop() if len(found) == 1 else None

    def _pull(self, i: int) -> None:
        """Merge the chunk ``i`` into the only group that reads its pieces.

        A group with a different split of the same operand does not take it.
        """
        reader, chunk = self.reader(self.ops[i]), self.ops[i]
        if reader is None or len(members := self.graph.members(reader)) < 2:
            return
        others = [
            self.ops[j] for j in members if role_of(self.ops[j]) is Role.SPLIT and self.ops[j].operands[0] is chunk.operands[0]
        ]
        if all(is_equal_call(chunk, other) for other in others):
            self._merge(i, reader)

    def _merge(self, producer: int, consumer: int) -> bool:
        joined = self.joined_border(producer, consumer)
        rule = joined.refusal() or self.objection(producer, consumer, joined)
        if rule is not None or not super()._merge(producer, consumer):
            self.refused[producer, consumer] = rule or CYCLE
            return False
        self.borders[self.graph.find(consumer)] = joined
        return True

    def border(self, i: int) -> Border:
        """The border of the slice of op ``i``."""
        root = self.graph.find(i)
        if root not in self.borders:
            self.borders[root] = self.new_border(root)
        return self.borders[root]

    def new_border(self, i: int) -> Border:
        """The border of op ``i`` alone."""
        return Border.of(self.ops[i])

    def joined_border(self, producer: int, consumer: int) -> Border:
        """The border of the merged slices of two ops."""
        return self.border(producer).joined(self.border(consumer))


def is_pointwise(op: Operation) -> bool:
    """Whether ``op`` computes one strided tensor elementwise from tensors, floats and constants, and the result is used."""
    if not isinstance(op, TorchOp) or op.SCHEMA.mutates or not broadcasts(op) or len(op.results) != 1 or needs_gradient(op):
        return False
    tensors = _is_strided(op.results[0].type) and op.results[0].first_use is not None
    return tensors and all(_is_strided(v.type) or isinstance(v.type, FloatType) or is_scalar_constant(v) for v in op.operands)


def joins_tensors(op: Operation) -> bool:
    """Whether ``op`` concatenates tensors of one type and known shape, and the result is used."""
    if role_of(op) is not Role.CONCATENATION or needs_gradient(op):
        return False
    if not op.operands or op.results[0].first_use is None or any(aliases(op)):
        return False
    types = [value.type for value in (*op.operands, *op.results)]
    return all(_is_strided(type) for type in types) and _is_one_kind(types) and _is_one_shape(op.operand_types)


def is_chunk(op: Operation) -> bool:
    """Whether ``op`` splits a tensor into two or more pieces of one known shape, with one result each."""
    if role_of(op) is not Role.SPLIT or len(op.operands) != 1 or len(op.results) < 2 or needs_gradient(op):
        return False
    return all(_is_strided(type) for type in op.result_types) and _is_one_shape(op.result_types)


def is_equal_call(a: Operation, b: Operation) -> bool:
    """Whether two ops without regions are equal."""
    same = a.name == b.name and a._operands == b._operands and a.result_types == b.result_types
    return same and a.properties == b.properties and a.attributes == b.attributes


def _is_strided(type: Attribute) -> bool:
    return is_tensor(type) and layout(type) == "strided"


def _is_one_kind(types: Sequence[Attribute]) -> bool:
    return len({type.element_type for type in types if is_tensor(type)}) == 1


def _is_one_shape(types: Sequence[Attribute]) -> bool:
    shapes = {sizes(type) for type in types if is_tensor(type)}
    return len(shapes) == 1 and "" not in shapes.pop()
