"""schedule: say of each group of loops which kernels compute it, and how.

Assumes:    groups whose bodies ``convert-fusion-to-linalg`` made; the machine in the module's ``fxc.target``, else any CPU.
Guarantees: each such group has the attribute ``tile.schedule``: a list of ``#tile.schedule``, one for each kernel, which
            together have each ``linalg.generic`` once. Stages that share rows are in one kernel, so that what one reduces
            others read without going through memory; pieces of a concatenation are in one. A kernel is "inner" where the
            innermost loop of its largest operand is reduced, "outer" where another one is, else "elementwise". On a
            CPU, lanes fill a vector register, programs are as large as the first-level cache holds, and there are enough of
            them to go round; on a GPU a program has one block. Running it again changes nothing.
Keeps:      schedules that are there: a person may write or change them. Groups of other ops.
Cost:       one walk over the groups.

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
      }) -> tensor<4x8xf32>
      fx.output(%s) : (tensor<4x8xf32>) -> ()
    }
After:
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
      }) {tile.schedule = [#tile.schedule<"elementwise", stages = [0], lanes = 16, unroll = 1, block = 1024>]}
         -> tensor<4x8xf32>
      fx.output(%s) : (tensor<4x8xf32>) -> ()
    }
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, FixedBitwidthType, ModuleOp
from xdsl.passes import ModulePass

from fxc.dialects.fusion import GroupOp
from fxc.dialects.target import CpuAttr, GpuAttr, TargetAttr, preset, target_of
from fxc.dialects.tile import ScheduleAttr
from fxc.passes._statistics import count
from fxc.passes.lowering._tile.plans import Plan
from fxc.passes.lowering._tile.stages import Stage, kernels_of, stages_of

SCHEDULE = "tile.schedule"
SMALLEST = 1024
"""Elements: what a program is worth starting for."""

LONGEST, COLUMNS = 4096, 64
"""Elements: of a row that a GPU holds at once, and of the columns that a program of an outer reduction has."""

REGISTERS = 4
"""How many vectors a step of an elementwise loop works on, where the loop is that long: they hide each other's latency."""

ACCUMULATORS = 4
"""How many vectors an inner reduction adds up side by side: an addition takes about four cycles, one may start in each."""


@dataclass(frozen=True)
class SchedulePass(ModulePass):
    name = "schedule"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = target_of(op) or preset("cpu")
        for group in op.walk():
            if not isinstance(group, GroupOp) or SCHEDULE in group.attributes or not (stages := stages_of(group)):
                continue
            kernels = kernels_of(group, stages)
            group.attributes[SCHEDULE] = ArrayAttr([_schedule(kernel, target) for kernel in kernels])
            count("kernels planned", len(kernels))


def _schedule(stages: Sequence[Stage], target: TargetAttr) -> ScheduleAttr:
    kind = _kind(stages)
    lanes, unroll, block = (_on_gpu if isinstance(target, GpuAttr) else _on_cpu)(kind, stages, target)
    return ScheduleAttr.of(kind, [stage.number for stage in stages], lanes, unroll, block)


def _on_cpu(kind: str, stages: Sequence[Stage], target: TargetAttr) -> tuple[int, int, int]:
    """Lanes, unroll and block: a register or four, and what the first-level cache holds, or less for enough programs."""
    assert isinstance(target, CpuAttr)
    bits = max(_bits(stage) for stage in stages)
    lanes = target.lanes(bits)
    total = max(math.prod(stage.sizes.values()) for stage in stages)
    share = math.ceil(total / (4 * target.threads.value.data))
    elements = max(min(target.l1.value.data // (bits // 8) // 2, share), SMALLEST)
    if kind == "inner":
        return lanes, ACCUMULATORS, max(elements // max(_row(stages), 1), 1)
    if kind == "outer":
        return lanes, ACCUMULATORS, lanes * ACCUMULATORS
    return lanes * (REGISTERS if _innermost(stages) >= lanes * REGISTERS else 1), 1, elements


def _on_gpu(kind: str, stages: Sequence[Stage], target: TargetAttr) -> tuple[int, int, int]:
    """Lanes, unroll and block: one block of a power of two, which holds a whole row where that is not too long."""
    if kind == "inner":
        return min(1 << max(_row(stages) - 1, 0).bit_length(), LONGEST), 1, 1
    return (COLUMNS, 1, COLUMNS) if kind == "outer" else (SMALLEST, 1, SMALLEST)


def _innermost(stages: Sequence[Stage]) -> int:
    """How many elements lie behind each other in memory, for all that each stage of an elementwise kernel reads and writes."""
    plans = [Plan([stage], {}) for stage in stages]
    return min(plan.sizes[plan.rows[-1]] if plan.rows else 1 for plan in plans)


def _row(stages: Sequence[Stage]) -> int:
    """How many elements of a row a kernel goes through."""
    plan = Plan(stages, {})
    return max(plan.count(nest.loops) for nest in plan.nests)


def _kind(stages: Sequence[Stage]) -> str:
    if not any(stage.is_reduction for stage in stages):
        return "elementwise"
    plan = Plan(stages, {})
    forms = [plan.forms[stage, argument] for stage in stages if stage.is_reduction for argument, _, _ in stage.reads()]
    model = max(forms, key=lambda form: len(form.loops()), default=None)
    steps = {loop: abs(model.factor(loop)) for loop in model.loops()} if model is not None else {}
    return "outer" if steps and min(steps, key=lambda loop: steps[loop] or math.inf) in plan.rows else "inner"


def _bits(stage: Stage) -> int:
    """The width of the widest number that the body computes with; lanes are chosen for it, or for 32 bits."""
    types = [result.type for op in stage.op.body.block.ops for result in op.results]
    return max([32, *(type.bitwidth for type in types if isinstance(type, FixedBitwidthType))])
