"""Merge small independent kernels into one launch.

Assumes  groups with one ``#tile.schedule`` each (``schedule``).
Ensures  small independent groups of one kind in one block are one group with one schedule: a kernel with the programs
         of all, at the first use of one of them, or at the position of the last. Small means no longer than a launch:
         32768 elements on a CPU, 262144 on a GPU. A kernel has at most 48 tensors.
Leaves   groups with several schedules or partial reductions, large ones, and the order around writes and effects.
Cost     a few walks: kernels that depend on each other are merged in one walk after another.

Before:
    func.func @main(%x: tensor<4xf32>, %y: tensor<6xf32>) {
      %s = fusion.group ({
        %e = tensor.empty() : tensor<4xf32>
        %r = linalg.generic {
          indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]
        } ins(%x : tensor<4xf32>) outs(%e : tensor<4xf32>) {
        ^bb0(%a: f32, %o: f32):
          %n = arith.negf %a : f32
          linalg.yield %n : f32
        } -> tensor<4xf32>
        fusion.yield %r : tensor<4xf32>
      }) {tile.schedule = [#tile.schedule<"elementwise", stages = [0], lanes = 4, unroll = 1, block = 1024>]} -> tensor<4xf32>
      %t = fusion.group ({
        %f = tensor.empty() : tensor<6xf32>
        %u = linalg.generic {
          indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]
        } ins(%y : tensor<6xf32>) outs(%f : tensor<6xf32>) {
        ^bb0(%b: f32, %p: f32):
          %m = arith.negf %b : f32
          linalg.yield %m : f32
        } -> tensor<6xf32>
        fusion.yield %u : tensor<6xf32>
      }) {tile.schedule = [#tile.schedule<"elementwise", stages = [0], lanes = 4, unroll = 1, block = 1024>]} -> tensor<6xf32>
      fx.output((%s, %t)) : (tensor<4xf32>, tensor<6xf32>) -> ()
    }
After:
    func.func @main(%x: tensor<4xf32>, %y: tensor<6xf32>) {
      %s, %t = fusion.group ({
        %e = tensor.empty() : tensor<4xf32>
        %r = linalg.generic {
          indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]
        } ins(%x : tensor<4xf32>) outs(%e : tensor<4xf32>) {
        ^bb0(%a: f32, %o: f32):
          %n = arith.negf %a : f32
          linalg.yield %n : f32
        } -> tensor<4xf32>
        %f = tensor.empty() : tensor<6xf32>
        %u = linalg.generic {
          indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]
        } ins(%y : tensor<6xf32>) outs(%f : tensor<6xf32>) {
        ^bb0(%b: f32, %p: f32):
          %m = arith.negf %b : f32
          linalg.yield %m : f32
        } -> tensor<6xf32>
        fusion.yield %r, %u : tensor<4xf32>, tensor<6xf32>
      }) {tile.schedule = [#tile.schedule<"elementwise", stages = [0, 1], lanes = 4, unroll = 1, block = 1024>]}
         -> (tensor<4xf32>, tensor<6xf32>)
      fx.output((%s, %t)) : (tensor<4xf32>, tensor<6xf32>) -> ()
    }
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from xdsl.context import Context
from xdsl.dialects.builtin import DYNAMIC_INDEX, ArrayAttr, ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from fxc.dialects.attributes.types import is_tensor, tensor_of
from fxc.dialects.attributes.values import isa
from fxc.dialects.base.effects import has_side_effect, writes
from fxc.dialects.fusion import GroupOp, groups_of
from fxc.dialects.target import CpuAttr, GpuAttr, TargetAttr, preset, target_of
from fxc.dialects.tile import ScheduleAttr
from fxc.passes.analysis.statistics import count
from fxc.passes.kernels.joined_groups import SCHEDULE, TENSORS, join
from fxc.passes.kernels.tiling.choices import can_hold
from fxc.passes.kernels.tiling.stages import are_independent, stages_of

SMALL: Mapping[type, int] = MappingProxyType({CpuAttr: 1 << 15, GpuAttr: 1 << 18})
"""The number of elements that a machine processes in the time of a launch."""

Place = tuple[int, int]
"""The number of an op in its block, and 0. For an inserted op, the number of the op before it and a running number."""


@dataclass(frozen=True)
class GroupKernelsPass(ModulePass):
    name = "group-kernels"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = target_of(op) or preset("cpu")
        blocks = {group.parent_block(): None for group in groups_of(op)}
        for block in blocks:
            while block is not None and _join(block, target):
                pass


class Batch:
    """Groups that may become one. ``places`` has the position of each op in the block."""

    def __init__(self, group: GroupOp, schedule: ScheduleAttr, places: Mapping[Operation, Place]) -> None:
        self.places, self.block = places, group.parent_block()
        self.groups, self.schedules = [group], [schedule]
        self.tensors = len(group.inputs()) + len(group.results)
        self.end = self._first_use(group)

    def takes(self, group: GroupOp) -> bool:
        """Whether ``group`` can be computed before the first use of the batch, and in one kernel with it."""
        before = min(self.end, self.places[group])
        more = len(group.inputs()) + len(group.results)
        known = all(self._place(value) < before and value.owner not in self.groups for value in group.inputs())
        if not known or self.tensors + more > TENSORS:
            return False
        stages = [stage for member in (*self.groups, group) for stage in stages_of(member)]
        return are_independent(stages) and can_hold(self.schedules[0], stages)

    def add(self, group: GroupOp, schedule: ScheduleAttr) -> None:
        self.groups.append(group)
        self.schedules.append(schedule)
        self.tensors += len(group.inputs()) + len(group.results)
        self.end = min(self.end, self._first_use(group))

    def _place(self, value: SSAValue) -> Place:
        """The position of the op that defines ``value``; (-1, 0) for values from outside of the block."""
        return self.places.get(value.owner, (-1, 0)) if isinstance(value.owner, Operation) else (-1, 0)

    def _first_use(self, group: GroupOp) -> Place:
        assert self.block is not None
        users = [self.block.find_ancestor_op_in_block(use.operation) for result in group.results for use in result.uses]
        return min((self.places[user] for user in users if user is not None), default=(len(self.places), 0))

    def anchor(self) -> Operation | None:
        """The op before which the joined group is inserted: its first user, or its last member.

        None where an operand is defined later, or where that op is a group that was just inserted.
        """
        assert self.block is not None
        users = [self.block.find_ancestor_op_in_block(use.operation) for g in self.groups for r in g.results for use in r.uses]
        first = min([user for user in (*users, self.groups[-1]) if user is not None], key=lambda user: self.places[user])
        place = self.places[first]
        known = all(self._place(value) < place for group in self.groups for value in group.inputs())
        return first if known and place[1] == 0 else None

    def join(self, anchor: Operation) -> Operation:
        """Insert the joined group before ``anchor``."""
        return join(self.groups, [self._schedule([len(stages_of(group)) for group in self.groups])], anchor)

    def _schedule(self, stages: Sequence[int]) -> ScheduleAttr:
        first, numbers, offset = self.schedules[0], list[int](), 0
        for schedule, number in zip(self.schedules, stages, strict=True):
            numbers += [offset + stage for stage in schedule.numbers()]
            offset += number
        fields = {name: value for name, value in first.fields().items() if name in ScheduleAttr.DEFAULTS}
        lanes = min(schedule.lanes.value.data for schedule in self.schedules)
        block = max(schedule.block.value.data for schedule in self.schedules)
        return ScheduleAttr.of(first.kind.data, numbers, lanes, first.unroll.value.data, block, **fields)  # type: ignore[arg-type]


def _join(block: Block, target: TargetAttr) -> bool:
    """Join the batches of ``block``. Returns whether there are any. Batches that others changed are joined in the next call."""
    places: dict[Operation, Place] = {op: (number, 0) for number, op in enumerate(block.ops)}
    batches = [batch for batch in _batches(block, target, places) if len(batch.groups) > 1]
    for put, batch in enumerate(batches, 1):
        if (anchor := batch.anchor()) is not None:
            before = places[anchor][0] - 1
            places[batch.join(anchor)] = (before, put)
            count("groups joined", len(batch.groups))
    return bool(batches)


def _batches(block: Block, target: TargetAttr, places: Mapping[Operation, Place]) -> list[Batch]:
    found, open_batches = list[Batch](), dict[tuple[object, ...], Batch]()
    for op in block.ops:
        if isinstance(op, GroupOp) and (schedule := _small(op, target)) is not None:
            key = _key(op, schedule)
            if key in open_batches and open_batches[key].takes(op):
                open_batches[key].add(op, schedule)
            else:
                open_batches[key] = Batch(op, schedule, places)
                found.append(open_batches[key])
        elif writes(op) != [] or has_side_effect(op):
            open_batches.clear()
    return found


def _small(group: GroupOp, target: TargetAttr) -> ScheduleAttr | None:
    """The schedule of ``group``, if it has one kernel, which is small; else None."""
    schedules = group.attributes.get(SCHEDULE)
    if not isa(schedules, ArrayAttr) or len(schedules) != 1:
        return None
    [schedule] = schedules.data
    values = [*group.inputs(), *group.results]
    sizes = [_elements(value) for value in values if is_tensor(value.type)]
    if min(sizes, default=0) < 0 or max(sizes, default=0) > SMALL[type(target)]:
        return None
    return schedule if isinstance(schedule, ScheduleAttr) and schedule.parts.value.data == 1 else None


def _elements(value: SSAValue) -> int:
    """The number of elements of a tensor; -1 where it is not known."""
    shape = tensor_of(value).get_shape()
    return -1 if DYNAMIC_INDEX in shape else math.prod(shape)


def _key(group: GroupOp, schedule: ScheduleAttr) -> tuple[object, ...]:
    """The properties in which groups of one kernel must agree.

    Rows that are held or reduced need a specific number of lanes. Groups of single elements, which other groups read, are
    better computed before those.
    """
    fields = schedule.fields()
    lanes = fields["lanes"] if schedule.kind.data != "elementwise" or schedule.tile.value.data > 1 else None
    single = all(_elements(value) == 1 for value in group.results)
    return (schedule.kind.data, lanes, single, *(fields[name] for name in ("unroll", *ScheduleAttr.DEFAULTS)))
