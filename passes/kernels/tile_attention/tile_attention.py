"""Compile attention to kernels that do not store its scores.

Assumes  groups in linalg (``convert-fusion-to-linalg``), those of attention grown by ``grow-softmax``; types in order.
Ensures  scores, a softmax of each row after any elementwise change of them, and the product with values are one kernel
         of blocks: each step computes the scores of some keys, and corrects totals and sum by the new maximum.
Leaves   products that need gradients, are scaled, or have unknown sizes, fewer than 16 rows or keys, or more than 256
         columns; scores or probabilities with other readers; probabilities that more than a scale of rows follows.
Cost     one walk. LLVM takes longer for such a kernel than for others. CPUs multiply half precision in float32.

Before:
    func.func @main(%q: tensor<16x8xf32>, %k: tensor<8x16xf32>, %v: tensor<16x8xf32>) {
      %s = torch.aten.mm.default(%q, %k) : (tensor<16x8xf32>, tensor<8x16xf32>) -> tensor<16x16xf32>
      %p = fusion.group ({
        %0 = arith.constant 0xff800000 : f32
        %1 = tensor.empty() : tensor<16xf32>
        %2 = linalg.fill ins(%0 : f32) outs(%1 : tensor<16xf32>) -> tensor<16xf32>
        %m = linalg.generic {
          indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>],
          iterator_types = ["parallel", "reduction"]
        } ins(%s : tensor<16x16xf32>) outs(%2 : tensor<16xf32>) {
        ^bb0(%3: f32, %4: f32):
          %5 = arith.maximumf %4, %3 : f32
          linalg.yield %5 : f32
        } -> tensor<16xf32>
        %6 = arith.constant 0.000000e+00 : f32
        %7 = tensor.empty() : tensor<16xf32>
        %8 = linalg.fill ins(%6 : f32) outs(%7 : tensor<16xf32>) -> tensor<16xf32>
        %t = linalg.generic {
          indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0)>],
          iterator_types = ["parallel", "reduction"]
        } ins(%s, %m : tensor<16x16xf32>, tensor<16xf32>) outs(%8 : tensor<16xf32>) {
        ^bb0(%9: f32, %10: f32, %11: f32):
          %d = arith.subf %9, %10 : f32
          %e = math.exp %d : f32
          %12 = arith.addf %11, %e : f32
          linalg.yield %12 : f32
        } -> tensor<16xf32>
        %13 = tensor.empty() : tensor<16x16xf32>
        %w = linalg.generic {
          indexing_maps = [
            affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>,
            affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0, d1)>
          ],
          iterator_types = ["parallel", "parallel"]
        } ins(%s, %m, %t : tensor<16x16xf32>, tensor<16xf32>, tensor<16xf32>) outs(%13 : tensor<16x16xf32>) {
        ^bb0(%14: f32, %15: f32, %16: f32, %17: f32):
          %d_1 = arith.subf %14, %15 : f32
          %e_1 = math.exp %d_1 : f32
          %w_1 = arith.divf %e_1, %16 : f32
          linalg.yield %w_1 : f32
        } -> tensor<16x16xf32>
        fusion.yield %w : tensor<16x16xf32>
      }) -> tensor<16x16xf32>
      %o = torch.aten.mm.default(%p, %v) : (tensor<16x16xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
      fx.output(%o) : (tensor<16x8xf32>) -> ()
    }
After:
    func.func @main(%q: tensor<16x8xf32>, %k: tensor<8x16xf32>, %v: tensor<16x8xf32>) {
      %o = tile.launch @attention_0(%q, %k, %v)
        : (tensor<16x8xf32>, tensor<8x16xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
      fx.output(%o) : (tensor<16x8xf32>) -> ()
    }
    tile.kernel @attention_0(
      %q: !tile.ptr<f32> {tile.access = "read", tile.elements = 128 : i64},
      %k: !tile.ptr<f32> {tile.access = "read", tile.elements = 128 : i64},
      %v: !tile.ptr<f32> {tile.access = "read", tile.elements = 128 : i64},
      %o: !tile.ptr<f32> {tile.access = "write", tile.elements = 128 : i64}
    ) attributes {grid = array<i64: 4>, tile.source = ["s = aten.mm.default", "o = aten.mm.default"]} {
      %0 = arith.constant 16 : index
      %1 = arith.constant 8 : index
      %2 = arith.constant 4 : index
      %3 = arith.constant 0 : index
      %program = tile.program_id {axis = 0} : index
      %row = arith.muli %program, %2 : index
      %4 = arith.muli %row, %1 : index
      %5 = arith.addi %4, %3 : index
      %q_1 = tile.load %q[%5] strides [8, 1] : !tile.ptr<f32> -> vector<4x8xf32>
      %q_2 = tile.transpose %q_1 {permutation = [1, 0]} : vector<4x8xf32> to vector<8x4xf32>
      %6 = arith.constant 0xff800000 : f32
      %7 = tile.splat %6 : f32 to vector<4xf32>
      %8 = arith.constant 0.000000e+00 : f32
      %9 = tile.splat %8 : f32 to vector<4xf32>
      %10 = tile.splat %8 : f32 to vector<8x4xf32>
      %11 = arith.muli %3, %0 : index
      %12 = tile.splat %8 : f32 to vector<16x4xf32>
      %13, %14, %15 = scf.for %key = %3 to %0 step %0
        iter_args(%16 = %7, %17 = %9, %18 = %10) -> (vector<4xf32>, vector<4xf32>, vector<8x4xf32>) {
        %19 = arith.addi %11, %key : index
        %k_1 = tile.load %k[%19] strides [16, 1] : !tile.ptr<f32> -> vector<8x16xf32>
        %k_2 = tile.transpose %k_1 {permutation = [1, 0]} : vector<8x16xf32> to vector<16x8xf32>
        %20 = tile.dot %k_2, %q_2, %12 : vector<16x8xf32>, vector<8x4xf32> -> vector<16x4xf32>
        %21 = tile.reduce "max" %20 {dims = [0]} : vector<16x4xf32> -> vector<4xf32>
        %22 = arith.maximumf %16, %21 : vector<4xf32>
        %23 = tile.compare "oeq" %22, %7 : vector<4xf32>
        %24 = tile.select %23, %9, %22 : vector<4xf32>
        %25 = arith.subf %16, %24 : vector<4xf32>
        %26 = math.exp %25 : vector<4xf32>
        %27 = tile.expand %24 {dim = 0} : vector<4xf32> to vector<16x4xf32>
        %d = arith.subf %20, %27 : vector<16x4xf32>
        %e = math.exp %d : vector<16x4xf32>
        %28 = tile.reduce "add" %e {dims = [0]} : vector<16x4xf32> -> vector<4xf32>
        %29 = arith.mulf %17, %26 : vector<4xf32>
        %30 = arith.addf %29, %28 : vector<4xf32>
        %31 = arith.muli %key, %1 : index
        %32 = arith.addi %3, %31 : index
        %v_1 = tile.load %v[%32] strides [8, 1] : !tile.ptr<f32> -> vector<16x8xf32>
        %v_2 = tile.transpose %v_1 {permutation = [1, 0]} : vector<16x8xf32> to vector<8x16xf32>
        %33 = tile.expand %26 {dim = 0} : vector<4xf32> to vector<8x4xf32>
        %34 = arith.mulf %18, %33 : vector<8x4xf32>
        %35 = tile.dot %v_2, %e, %34 : vector<8x16xf32>, vector<16x4xf32> -> vector<8x4xf32>
        scf.yield %22, %30, %35 : vector<4xf32>, vector<4xf32>, vector<8x4xf32>
      }
      %36 = arith.subf %13, %13 : vector<4xf32>
      %37 = arith.addf %14, %36 : vector<4xf32>
      %38 = tile.expand %13 {dim = 0} : vector<4xf32> to vector<8x4xf32>
      %39 = tile.expand %37 {dim = 0} : vector<4xf32> to vector<8x4xf32>
      %w = arith.divf %15, %39 : vector<8x4xf32>
      %w_1 = tile.transpose %w {permutation = [1, 0]} : vector<8x4xf32> to vector<4x8xf32>
      tile.store %w_1, %o[%5] strides [8, 1] : vector<4x8xf32>, !tile.ptr<f32>
      tile.return
    }
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from fxc.dialects.target import CpuAttr, TargetAttr, preset, target_of
from fxc.dialects.tile.kernel import SOURCE
from fxc.passes.analysis.statistics import count
from fxc.passes.kernels.source_lines import listed, notes
from fxc.passes.kernels.tile_attention.attention import Attention, attention_of
from fxc.passes.kernels.tile_attention.attention_kernels import Blocks, attention_kernel
from fxc.passes.kernels.tiling.arguments import replace_by_launch
from fxc.passes.kernels.tiling.products import COLUMN, INNER, ROW, side
from fxc.passes.rewriting.functions import fresh_names, outside_derivatives
from fxc.passes.rewriting.one_group import one_group

KEYS = 32
"""The keys of a step on a CPU."""


@dataclass(frozen=True)
class TileAttentionPass(ModulePass):
    """Compile attention to kernels that do not store its scores."""

    name = "tile-attention"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = target_of(op) or preset("cpu")
        names = fresh_names(op, "attention")
        for inner in list(outside_derivatives(op)):
            with one_group(inner):
                found = attention_of(inner)
                if found is not None:
                    _replace(op, found, _blocks(found, target), next(names))
                    count("attentions in kernels")


def _blocks(found: Attention, target: TargetAttr) -> Blocks:
    """On a CPU a vector of rows; on a GPU squares, with columns padded to powers of two."""
    keys, depth, features = found.output.extents[INNER], found.scores.extents[INNER], found.output.extents[COLUMN]
    if isinstance(target, CpuAttr):
        return Blocks(target.lanes(), min(KEYS, side(keys)), depth, features, turned=True)
    depth, features = side(depth), side(features)
    most = 64 if max(depth, features) <= 128 else 32
    rows = found.output.extents[ROW]
    return Blocks(min(most, side(rows)), min(most, side(keys)), depth, features, turned=False)


def _replace(module: ModuleOp, found: Attention, blocks: Blocks, name: str) -> None:
    """Replace the ops of ``found`` by a launch of the kernel ``name``."""
    made = attention_kernel(name, found, blocks)
    made.kernel.location, made.kernel.attributes[SOURCE] = found.output.op.location, _sources(found)
    pairs = zip(found.group.results, found.group.yielded(), strict=True)
    olds = [(found.output.result, found.output.result), *(pair for pair in pairs if pair[1] in made.outputs)]
    replace_by_launch(module, made, olds, found.output.op)
    for op in _all_ops(found):
        Rewriter.erase_op(op)


def _all_ops(found: Attention) -> list[Operation]:
    """The ops of ``found``, readers first."""
    ops = [found.output.op, found.group, found.scores.op, *found.between]
    block = found.group.parent
    assert block is not None
    order = {op: place for place, op in enumerate(block.ops)}
    return sorted(ops, key=lambda op: -order[op])


def _sources(found: Attention) -> ArrayAttr[StringAttr]:
    """The operators that the kernel computes, in order."""
    return ArrayAttr([*notes([found.scores.op]), *listed(found.group), *notes([found.output.op])])
