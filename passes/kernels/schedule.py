"""schedule: say of each group of loops which kernels compute it, and how.

Assumes:    groups whose bodies ``convert-fusion-to-linalg`` made; the machine in the module's ``fxc.target``, else any CPU.
Guarantees: each such group has the attribute ``tile.schedule``: a list of ``#tile.schedule``, one for each kernel, which
            together have each ``linalg.generic`` once. Stages that share rows are in one kernel, so that what one reduces
            others read without going through memory; pieces of a concatenation are in one. A kernel is "inner" where the
            innermost loop of its largest operand is reduced, "outer" where another one is, else "elementwise", in tiles where
            operands lie across each other. On a CPU, lanes fill a vector register, programs are as large as the first-level
            cache holds (in tiles of what is large, a quarter of the second), and there are enough of them to go round; on a
            GPU a program has one block. Where there are fewer rows than processors, and it is known how many, or the threads
            of a CPU would not get as many programs each, what is reduced is cut in parts, each pass a kernel. Rows are held
            where registers have them, online where no cache of a core has,
            or no registers of a GPU, and stored where a CPU would call a function again. Running it again changes nothing.
Keeps:      schedules that are there: a person may write or change them. Groups of other ops.
Cost:       one walk over the groups; of those that differ in names and constants only the first is judged.

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

from collections.abc import Hashable
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, ModuleOp
from xdsl.passes import ModulePass

from fxc.dialects.attributes.attribute_numbers import AttributeNumbers
from fxc.dialects.fusion import GroupOp, groups_of
from fxc.dialects.target import TargetAttr, preset, target_of
from fxc.dialects.tile import ScheduleAttr
from fxc.passes.analysis.statistics import count
from fxc.passes.kernels.kernel_keys import Outline
from fxc.passes.kernels.tiling.choices import choose
from fxc.passes.kernels.tiling.stages import is_kernel, kernels_of, stages_of
from fxc.passes.rewriting.one_group import one_group

SCHEDULE = "tile.schedule"


@dataclass(frozen=True)
class SchedulePass(ModulePass):
    name = "schedule"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target, attributes = target_of(op) or preset("cpu"), AttributeNumbers()
        known = dict[Hashable, ArrayAttr[ScheduleAttr]]()
        for group in groups_of(op):
            if SCHEDULE in group.attributes or not is_kernel(group):
                continue
            key = Outline(group, attributes).key
            if key not in known:
                with one_group(group):
                    known[key] = _chosen(group, target)
            if known[key].data:
                group.attributes[SCHEDULE] = known[key]
                count("kernels planned", len(known[key]))


def _chosen(group: GroupOp, target: TargetAttr) -> ArrayAttr[ScheduleAttr]:
    """The schedules of ``group``; none where kernels cannot compute it."""
    kernels = kernels_of(group, stages_of(group))
    return ArrayAttr([schedule for kernel in kernels for schedule in choose(kernel, target)])
