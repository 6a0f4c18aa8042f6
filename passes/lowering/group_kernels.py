"""group-kernels: small kernels that do not need one another are one launch.

Assumes:    groups with one ``#tile.schedule`` each (``schedule``).
Guarantees: groups of one kind whose kernels are small, of one block of ops, none of which needs what another makes, are one
            group with one schedule: one kernel, whose programs are those of all. Each is computed where the first of them is
            used, or the last of them stood. Small is what takes a machine no longer than a launch: 32768 elements of a CPU,
            262144 of a GPU. A kernel has at most 48 tensors.
Keeps:      groups with several schedules or with parts, large ones, and the order around ops that write memory or have effects.
Cost:       one walk over the ops for each kernel that comes of several.

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
from xdsl.dialects.builtin import DYNAMIC_INDEX, ArrayAttr, ModuleOp, TensorType
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from fxc.dialects.effects import has_side_effect, writes
from fxc.dialects.fusion import GroupOp, YieldOp
from fxc.dialects.target import CpuAttr, GpuAttr, TargetAttr, preset, target_of
from fxc.dialects.tile import ScheduleAttr
from fxc.passes._statistics import count
from fxc.passes.lowering._tile.stages import are_apart, stages_of

SCHEDULE, SOURCE = "tile.schedule", "tile.source"

SMALL: Mapping[type, int] = MappingProxyType({CpuAttr: 1 << 15, GpuAttr: 1 << 18})
"""Elements that a machine goes through in the time that a launch takes."""

TENSORS = 48
"""The most that a kernel takes and makes: they are arguments of a call."""


@dataclass(frozen=True)
class GroupKernelsPass(ModulePass):
    name = "group-kernels"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = target_of(op) or preset("cpu")
        blocks = {inner.parent_block(): None for inner in op.walk() if isinstance(inner, GroupOp)}
        for block in blocks:
            while block is not None and (batch := _batch(block, target)) is not None:
                batch.join()
                count("groups joined", len(batch.groups))


class Batch:
    """Groups that may become one. ``places`` has the place of each op in the block."""

    def __init__(self, group: GroupOp, schedule: ScheduleAttr, places: Mapping[Operation, int]) -> None:
        self.places, self.block = places, group.parent_block()
        self.groups, self.schedules = [group], [schedule]
        self.tensors = len(group.inputs()) + len(group.results)
        self.end = self._first_use(group)

    def takes(self, group: GroupOp) -> bool:
        """Whether ``group`` can be computed before anything uses what the batch makes, and in one kernel with it."""
        before = min(self.end, self.places[group])
        more = len(group.inputs()) + len(group.results)
        known = all(self._place(value) < before and value.owner not in self.groups for value in group.inputs())
        if not known or self.tensors + more > TENSORS:
            return False
        return are_apart([stage for member in (*self.groups, group) for stage in stages_of(member)])

    def add(self, group: GroupOp, schedule: ScheduleAttr) -> None:
        self.groups.append(group)
        self.schedules.append(schedule)
        self.tensors += len(group.inputs()) + len(group.results)
        self.end = min(self.end, self._first_use(group))

    def _place(self, value: SSAValue) -> int:
        """Where ``value`` is made; -1 for what is known before the block."""
        return self.places.get(value.owner, -1) if isinstance(value.owner, Operation) else -1

    def _first_use(self, group: GroupOp) -> int:
        assert self.block is not None
        users = [self.block.find_ancestor_op_in_block(use.operation) for result in group.results for use in result.uses]
        return min((self.places[user] for user in users if user is not None), default=len(self.places))

    def join(self) -> None:
        """Put one group where the first use is, or the last group."""
        body, results = Block(), [result for group in self.groups for result in group.results]
        stages = [len(stages_of(group)) for group in self.groups]
        yielded = [value for group in self.groups for value in group.yielded()]
        first = min(self.end, self.places[self.groups[-1]])
        [anchor] = [op for op, place in self.places.items() if place == first]
        for group in self.groups:
            for op in list(group.body.block.ops)[:-1]:
                op.detach()
                body.add_op(op)
        body.add_op(YieldOp.of(yielded))
        new = GroupOp.of(Region(body))
        new.attributes |= self._attributes(stages)
        new.location = self.groups[0].location
        Rewriter.insert_op(new, InsertPoint.before(anchor))
        for old, result in zip(results, new.results, strict=True):
            result.name_hint = old.name_hint
            old.replace_all_uses_with(result)
        for group in self.groups:
            Rewriter.erase_op(group)

    def _attributes(self, stages: Sequence[int]) -> dict[str, Attribute]:
        first, numbers, offset = self.schedules[0], list[int](), 0
        for schedule, number in zip(self.schedules, stages, strict=True):
            numbers += [offset + stage for stage in schedule.numbers()]
            offset += number
        fields = {name: value for name, value in first.fields().items() if name in ScheduleAttr.DEFAULTS}
        lanes = min(schedule.lanes.value.data for schedule in self.schedules)
        block = max(schedule.block.value.data for schedule in self.schedules)
        joined = ScheduleAttr.of(first.kind.data, numbers, lanes, first.unroll.value.data, block, **fields)  # type: ignore[arg-type]
        found: dict[str, Attribute] = {SCHEDULE: ArrayAttr([joined])}
        sources = [line for group in self.groups for line in _lines(group)]
        return found | ({SOURCE: ArrayAttr(sources)} if sources else {})


def _lines(group: GroupOp) -> Sequence[Attribute]:
    found = group.attributes.get(SOURCE)
    return found.data if isinstance(found, ArrayAttr) else ()


def _batch(block: Block, target: TargetAttr) -> Batch | None:
    """The first batch of several groups of ``block``; None where there is none."""
    places = {op: place for place, op in enumerate(block.ops)}
    found, open_batches = list[Batch](), dict[tuple[object, ...], Batch]()
    for op in block.ops:
        if isinstance(op, GroupOp) and (schedule := _small(op, target)) is not None:
            key = _key(schedule)
            if key in open_batches and open_batches[key].takes(op):
                open_batches[key].add(op, schedule)
            else:
                open_batches[key] = Batch(op, schedule, places)
                found.append(open_batches[key])
        elif writes(op) != [] or has_side_effect(op):
            open_batches.clear()
    return next((batch for batch in found if len(batch.groups) > 1), None)


def _small(group: GroupOp, target: TargetAttr) -> ScheduleAttr | None:
    """The schedule of ``group``, where that has one kernel, which is small."""
    schedules = group.attributes.get(SCHEDULE)
    if not isinstance(schedules, ArrayAttr) or len(schedules) != 1:
        return None
    [schedule] = schedules.data
    values = [*group.inputs(), *group.results]
    shapes = [value.type.get_shape() for value in values if isinstance(value.type, TensorType)]
    if any(DYNAMIC_INDEX in shape for shape in shapes):
        return None
    sizes = [math.prod(shape) for shape in shapes]
    small = (
        isinstance(schedule, ScheduleAttr) and schedule.parts.value.data == 1 and max(sizes, default=0) <= SMALL[type(target)]
    )
    return schedule if small else None  # type: ignore[return-value]


def _key(schedule: ScheduleAttr) -> tuple[object, ...]:
    """What schedules of one kernel have in common: rows that are held or reduced need lanes of their own."""
    fields = schedule.fields()
    lanes = fields["lanes"] if schedule.kind.data != "elementwise" or schedule.tile.value.data > 1 else None
    return (schedule.kind.data, lanes, *(fields[name] for name in ("unroll", *ScheduleAttr.DEFAULTS)))
