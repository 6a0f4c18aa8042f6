"""Choose for each group of loops its kernels and their schedules.

Assumes  groups whose bodies ``convert-fusion-to-linalg`` made; the machine in the module's ``fxc.target``, else any
         CPU.
Ensures  each such group has ``tile.schedule``, a list of one ``#tile.schedule`` per kernel, with each
         ``linalg.generic`` in one of them. Stages that share rows are one kernel, so that the result of a reduction is
         not read from memory; so are pieces of a concatenation. Idempotent.
Leaves   existing schedules, which may be written by hand; groups of other operations.
Cost     one walk over the groups; of those that differ in names and constants only the first is scheduled.

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
    """How kinds, sizes and forms of kernels are chosen.

    A kernel is "inner" where the innermost loop of its largest operand is reduced, "outer" where another loop is, else
    "elementwise", in tiles where operands differ in memory order. On a CPU, lanes fill a vector register, a program is as large
    as the first-level cache (in tiles of a large tensor, a quarter of the second), and there are enough programs for all
    threads; on a GPU a program has one block, of an outer
    reduction with rows of the reduced loop, too.

    With fewer rows than processors, if their number is known, or unequal shares for the threads of a CPU, a reduction is split
    into partial reductions, each pass a kernel. Rows are held where they fit into registers, online where they do not fit into
    a core's cache or a GPU's registers, and stored where a CPU would call a function again.
    """

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
