"""Run a small kernel as the last program of the kernel before it.

Assumes  groups with a ``#tile.schedule`` for each kernel (``schedule``).
Ensures  a kernel that reads results of the kernel before it, and whose work takes one program no longer than a launch,
         has a schedule with ``program = "last"``, in one group with that one. Both have static sizes; the group reads
         and writes at most 48 tensors, and there is no write or effect between them.
Leaves   results and the computations; kernels of dynamic sizes; groups that compute new values of arguments, which a
         kernel with such a last program could not write in place.
Cost     one walk.

Before:
    func.func @main(%x: tensor<4x8xf32>) {
      %s = fusion.group ({
        %e = tensor.empty() : tensor<4x8xf32>
        %r = linalg.generic {
          indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>],
          iterator_types = ["parallel", "parallel"]
        } ins(%x : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
        ^bb0(%a: f32, %o: f32):
          %n = arith.negf %a : f32
          linalg.yield %n : f32
        } -> tensor<4x8xf32>
        fusion.yield %r : tensor<4x8xf32>
      }) {tile.schedule = [#tile.schedule<"elementwise", stages = [0], lanes = 8, unroll = 1, block = 16>]} -> tensor<4x8xf32>
      %t = fusion.group ({
        %zero = arith.constant 0.0 : f32
        %f = tensor.empty() : tensor<f32>
        %g = linalg.fill ins(%zero : f32) outs(%f : tensor<f32>) -> tensor<f32>
        %u = linalg.generic {
          indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> ()>],
          iterator_types = ["reduction", "reduction"]
        } ins(%s : tensor<4x8xf32>) outs(%g : tensor<f32>) {
        ^bb0(%b: f32, %p: f32):
          %m = arith.addf %p, %b : f32
          linalg.yield %m : f32
        } -> tensor<f32>
        fusion.yield %u : tensor<f32>
      }) {tile.schedule = [#tile.schedule<"inner", stages = [0], lanes = 16, unroll = 4, block = 1>]} -> tensor<f32>
      fx.output(%t) : (tensor<f32>) -> ()
    }
After:
    func.func @main(%x: tensor<4x8xf32>) {
      %t = fusion.group ({
        %e = tensor.empty() : tensor<4x8xf32>
        %r = linalg.generic {
          indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>],
          iterator_types = ["parallel", "parallel"]
        } ins(%x : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
        ^bb0(%a: f32, %o: f32):
          %n = arith.negf %a : f32
          linalg.yield %n : f32
        } -> tensor<4x8xf32>
        %zero = arith.constant 0.0 : f32
        %f = tensor.empty() : tensor<f32>
        %g = linalg.fill ins(%zero : f32) outs(%f : tensor<f32>) -> tensor<f32>
        %u = linalg.generic {
          indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> ()>],
          iterator_types = ["reduction", "reduction"]
        } ins(%r : tensor<4x8xf32>) outs(%g : tensor<f32>) {
        ^bb0(%b: f32, %p: f32):
          %m = arith.addf %p, %b : f32
          linalg.yield %m : f32
        } -> tensor<f32>
        fusion.yield %u : tensor<f32>
      }) {tile.schedule = [
        #tile.schedule<"elementwise", stages = [0], lanes = 8, unroll = 1, block = 16>,
        #tile.schedule<"inner", stages = [1], lanes = 32, unroll = 1, block = 32, form = "held", program = "last">
      ]} -> tensor<f32>
      fx.output(%t) : (tensor<f32>) -> ()
    }
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from fxc.dialects.attributes.values import isa
from fxc.dialects.base.effects import has_side_effect, writes
from fxc.dialects.fusion import GroupOp, groups_of
from fxc.dialects.target import TargetAttr, preset, target_of
from fxc.dialects.tile import ScheduleAttr
from fxc.passes.analysis.statistics import count
from fxc.passes.analysis.written_arguments import new_values
from fxc.passes.kernels.joined_groups import SCHEDULE, TENSORS, join
from fxc.passes.kernels.tiling.choices import choose_last
from fxc.passes.kernels.tiling.stages import Stage, kernels_of, stages_of


@dataclass(frozen=True)
class AppendKernelsPass(ModulePass):
    name = "append-kernels"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = target_of(op) or preset("cpu")
        blocks = {group.parent_block(): None for group in groups_of(op)}
        for block in blocks:
            assert block is not None
            _append_groups(block, target)
        for group in groups_of(op):
            _append_within(group, target)


def _append_groups(block: Block, target: TargetAttr) -> None:
    """Join groups of ``block`` with earlier groups whose last programs can do their work."""
    places, start, function = {op: place for place, op in enumerate(block.ops)}, 0, block.parent_op()
    updates = set(new_values(function)) if isinstance(function, FuncOp) else set[SSAValue]()
    for place, op in enumerate(list(block.ops)):
        if isinstance(op, GroupOp):
            first = None if updates & {*op.results} else _group_before(op, places)
            if (
                first is None
                or updates & {*first.results}
                or places[first] < start
                or (anchor := _anchor(first, op, places)) is None
            ):
                continue
            if schedules := _joined_schedules(first, op, target):
                there = places[anchor]
                places[join([first, op], schedules, anchor)] = there
                count("groups joined", 2)
        elif writes(op) != [] or has_side_effect(op):
            start = place


def _group_before(group: GroupOp, places: Mapping[Operation, int]) -> GroupOp | None:
    """The latest group whose results ``group`` reads."""
    owners = [value.owner for value in group.inputs()]
    found = [owner for owner in owners if isinstance(owner, GroupOp) and owner in places]
    return max(found, key=lambda owner: places[owner], default=None)


def _anchor(first: GroupOp, second: GroupOp, places: Mapping[Operation, int]) -> Operation | None:
    """The op at whose position both groups may be computed: ``first``, else ``second``, else None."""

    def place(value: SSAValue) -> int:
        return places.get(value.owner, -1) if isinstance(value.owner, Operation) else -1

    if all(value.owner is first or place(value) < places[first] for value in second.inputs()):
        return first
    block = first.parent_block()
    assert block is not None
    users = [block.find_ancestor_op_in_block(use.operation) for result in first.results for use in result.uses]
    return second if all(user is None or places[user] >= places[second] for user in users) else None


def _joined_schedules(first: GroupOp, second: GroupOp, target: TargetAttr) -> list[ScheduleAttr]:
    """The schedules of the two as one group; none where ``second`` is not suited for a last program of ``first``."""
    known, stages, more = _schedules(first), stages_of(first), stages_of(second)
    tensors = {*first.inputs(), *second.inputs(), *first.results, *second.results}
    if not known or not more or SCHEDULE not in second.attributes or len(tensors) > TENSORS or not _has_programs(known, stages):
        return []
    before, found = _last_with_grid(known), list[ScheduleAttr]()
    for kernel in kernels_of(second, more):
        schedule = choose_last(kernel, before, target)
        if schedule is None:
            return []
        found.append(_moved(schedule, len(stages)))
    return [*known, *found]


def _append_within(group: GroupOp, target: TargetAttr) -> None:
    """Let last programs compute the later kernels of one group where they can."""
    schedules, stages = _schedules(group), stages_of(group)
    for place in range(1, len(schedules)):
        earlier, schedule = schedules[:place], schedules[place]
        chosen = [stages[number] for number in schedule.numbers()]
        if schedule.is_last or not _has_programs(earlier, stages) or not _reads(chosen, _stages_of_last(earlier, stages)):
            continue
        last = choose_last(chosen, _last_with_grid(earlier), target)
        if last is not None:
            schedules[place] = last
            count("kernels appended")
    if schedules:
        group.attributes[SCHEDULE] = ArrayAttr(schedules)


def _schedules(group: GroupOp) -> list[ScheduleAttr]:
    found = group.attributes.get(SCHEDULE)
    listed = found.data if isa(found, ArrayAttr) else ()
    return [schedule for schedule in listed if isinstance(schedule, ScheduleAttr)]


def _last_with_grid(schedules: Sequence[ScheduleAttr]) -> ScheduleAttr:
    return [schedule for schedule in schedules if not schedule.is_last][-1]


def _stages_of_last(schedules: Sequence[ScheduleAttr], stages: Sequence[Stage]) -> list[Stage]:
    """The stages of the last kernel of ``schedules``, including those of its last program."""
    start = max(place for place, schedule in enumerate(schedules) if not schedule.is_last)
    return [stages[number] for schedule in schedules[start:] for number in schedule.numbers()]


def _has_programs(schedules: Sequence[ScheduleAttr], stages: Sequence[Stage]) -> bool:
    """Whether the last kernel of ``schedules`` is known to have programs."""
    own = _stages_of_last(schedules, stages)
    return not any(stage.is_dynamic or 0 in stage.sizes.values() for stage in own)


def _reads(stages: Sequence[Stage], others: Sequence[Stage]) -> bool:
    made = {stage.result for stage in others}
    sources = {value for stage in stages for value in (*(source for _, source, _ in stage.reads()), *stage.gathered)}
    return bool(made & sources)


def _moved(schedule: ScheduleAttr, first: int) -> ScheduleAttr:
    """``schedule`` with its stage numbers shifted by ``first``."""
    fields = schedule.fields()
    return ScheduleAttr.of(schedule.kind.data, [first + number for number in schedule.numbers()], **fields)  # type: ignore[arg-type]
