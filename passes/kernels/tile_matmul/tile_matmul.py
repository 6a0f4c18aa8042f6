"""Compile matrix products to kernels, fused with the groups around them.

Assumes  groups in linalg (``convert-fusion-to-linalg``).
Ensures  each selected ``mm``, ``addmm``, ``bmm``, ``linear`` and ``matmul`` of float16, bfloat16 or float32 matrices of
         known sizes is a ``tile.launch`` of a ``tile.kernel`` of blocks. The kernel includes a group that only computes
         a factor, and the one group that reads the product first, where these are elementwise in its order.
Leaves   other groups, and products that are not selected or have ``tile.library``: the library computes them. Sums are
         float32 in another order, and a product is rounded before a group reads it.
Cost     one walk; where it measures, some milliseconds of the device and a compilation for each choice.

Before:
    func.func @main(%a: tensor<16x16xf32>, %b: tensor<16x16xf32>) {
      %p = torch.aten.mm.default(%a, %b) {tile.blocks = array<i64: 16, 16, 16>}
         : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
      fx.output(%p) : (tensor<16x16xf32>) -> ()
    }
After:
    func.func @main(%a: tensor<16x16xf32>, %b: tensor<16x16xf32>) {
      %p = tile.launch @matmul_0(%a, %b) : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
      fx.output(%p) : (tensor<16x16xf32>) -> ()
    }
    tile.kernel @matmul_0(
      %a: !tile.ptr<f32> {tile.access = "read", tile.elements = 256 : i64},
      %b: !tile.ptr<f32> {tile.access = "read", tile.elements = 256 : i64},
      %p: !tile.ptr<f32> {tile.access = "write", tile.elements = 256 : i64}
    ) attributes {grid = array<i64: 1>, tile.source = ["p = aten.mm.default"]} {
      %0 = arith.constant 0 : index
      %1 = arith.constant 16 : index
      %2 = arith.constant 1 : index
      %program = tile.program_id {axis = 0} : index
      %3 = arith.remui %program, %2 : index
      %4 = arith.divui %program, %2 : index
      %row = arith.muli %3, %1 : index
      %column = arith.muli %4, %1 : index
      %5 = arith.constant 0.000000e+00 : f32
      %6 = tile.splat %5 : f32 to vector<16x16xf32>
      %7 = arith.muli %row, %1 : index
      %8 = scf.for %inner = %0 to %1 step %1 iter_args(%total = %6) -> (vector<16x16xf32>) {
        %9 = arith.addi %7, %inner : index
        %a_1 = tile.load %a[%9] strides [16, 1] : !tile.ptr<f32> -> vector<16x16xf32>
        %10 = arith.muli %inner, %1 : index
        %11 = arith.addi %column, %10 : index
        %b_1 = tile.load %b[%11] strides [16, 1] : !tile.ptr<f32> -> vector<16x16xf32>
        %12 = tile.dot %a_1, %b_1, %total : vector<16x16xf32>, vector<16x16xf32> -> vector<16x16xf32>
        scf.yield %12 : vector<16x16xf32>
      }
      %13 = arith.addi %7, %column : index
      tile.store %8, %p[%13] strides [16, 1] : vector<16x16xf32>, !tile.ptr<f32>
      tile.return
    }
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, FunctionType, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from fxc.dialects.attributes.types import device, tensor_of
from fxc.dialects.context import FxcContext
from fxc.dialects.fusion import GroupOp
from fxc.dialects.target import GpuAttr, is_autotuned, target_of
from fxc.dialects.text.diagnostics import OpPassFailedException
from fxc.dialects.tile.kernel import SOURCE
from fxc.passes.analysis.statistics import count
from fxc.passes.kernels.schedule import SchedulePass
from fxc.passes.kernels.source_lines import listed, notes
from fxc.passes.kernels.tile.tile import TilePass
from fxc.passes.kernels.tile_matmul.product_kernels import Blocks, product_kernel
from fxc.passes.kernels.tiling.arguments import replace_by_launch
from fxc.passes.kernels.tiling.products import Product, Surroundings, product_of, side, surroundings_of
from fxc.passes.rewriting.functions import fresh_names, outside_derivatives
from fxc.passes.rewriting.one_group import one_group

BLOCKS = "tile.blocks"
LIBRARY = "tile.library"
"""The attribute of a product that always falls back to the library."""
CHOICES = ("measured", "all")
SIZES = (Blocks(64, 64, 32), Blocks(128, 64, 32), Blocks(64, 128, 32), Blocks(128, 128, 32))
"""The candidate blocks; the first is used without measurement."""


@dataclass(frozen=True)
class TileMatmulPass(ModulePass):
    """Compile matrix products to kernels, fused with the groups around them.

    Selected are products with ``tile.blocks`` (rows, columns and depth of a block, powers of two), all with ``choose="all"``,
    and with ``"measured"``, where the module has ``fxc.autotune`` and its target is a GPU, those for which a kernel was
    measured to be faster on this device.
    """

    name = "tile-matmul"

    choose: str = "measured"

    def __post_init__(self) -> None:
        if self.choose not in CHOICES:
            raise ValueError(f"choose is one of {', '.join(CHOICES)}, not {self.choose!r}")

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        assert isinstance(ctx, FxcContext)
        names = fresh_names(op, "matmul")
        for inner in list(outside_derivatives(op)):
            product = None if LIBRARY in inner.attributes else product_of(inner)
            requested = _requested(inner) if product is not None else None
            if product is None or (requested is None and not self._considers(op, product)):
                continue
            with one_group(inner):
                around = surroundings_of(product)
                if (blocks := requested or self._chosen(ctx, op, product, around)) is not None:
                    make_product(op, product, around, blocks, next(names))
                    count("products in kernels")

    def _considers(self, module: ModuleOp, product: Product) -> bool:
        """Whether a product without ``tile.blocks`` may become a kernel."""
        is_measured = is_autotuned(module) and isinstance(target_of(module), GpuAttr) and _is_on_gpu(product)
        return self.choose == "all" or is_measured

    def _chosen(self, ctx: FxcContext, module: ModuleOp, product: Product, around: Surroundings) -> Blocks | None:
        """The blocks for such a product; None where it falls back to the library."""
        ways = list(dict.fromkeys(_fitting(product, blocks) for blocks in SIZES))
        if self.choose == "all":
            return ways[0]
        alone = module_of(module, product, around)
        times = ctx.times([_lowered(ctx, alone.clone(), blocks) for blocks in (None, *ways)])
        best = min(range(len(ways) + 1), key=lambda way: times[way]) if times is not None else 0
        return ways[best - 1] if best else None


def module_of(module: ModuleOp, product: Product, around: Surroundings) -> ModuleOp:
    """A module like ``module`` whose ``main`` is the product with its surroundings."""
    ops = [*(factor.owner for factor in around.before), product.op, *([around.group] if around.group is not None else [])]
    made = {result for op in ops if isinstance(op, Operation) for result in op.results}
    read = dict.fromkeys(value for op in ops if isinstance(op, Operation) for value in _reads(op) if value not in made)
    block = Block(arg_types=[value.type for value in read])
    values: dict[SSAValue, SSAValue] = dict(zip(read, block.args, strict=True))
    for op in ops:
        assert isinstance(op, Operation)
        block.add_op(op.clone(values))
    results = [values[result] for result in ops[-1].results]  # type: ignore[union-attr]
    block.add_op(ReturnOp(*results))
    types = FunctionType.from_lists([value.type for value in read], [result.type for result in results])
    return ModuleOp([FuncOp("main", types, Region(block))], dict(module.attributes))


def _reads(op: Operation) -> Iterator[SSAValue]:
    """The values from outside of ``op`` that it or the ops in its regions read."""
    for inner in op.walk():
        yield from (value for value in inner.operands if not op.is_ancestor(value.owner))


def _lowered(ctx: FxcContext, module: ModuleOp, blocks: Blocks | None) -> ModuleOp:
    """``module`` with kernels: also for its product, or, without ``blocks``, only for the groups around it."""
    product = next(found for op in module.walk() if (found := product_of(op)) is not None)
    if blocks is not None:
        make_product(module, product, surroundings_of(product), blocks, next(fresh_names(module, "matmul")))
    SchedulePass().apply(ctx, module)
    TilePass().apply(ctx, module)
    return module


def make_product(module: ModuleOp, product: Product, around: Surroundings, blocks: Blocks, name: str) -> None:
    """Replace ``product``, and the groups fused with it, by a launch of the kernel ``name``."""
    made = product_kernel(name, product, around, blocks)
    made.kernel.location, made.kernel.attributes[SOURCE] = product.op.location, ArrayAttr(list(_sources(product, around)))
    olds = [(product.result, product.result)] if product.result in made.outputs else []
    if around.group is not None:
        olds += zip(around.group.results, around.group.yielded(), strict=True)
    replace_by_launch(module, made, olds, around.group or product.op)
    if around.group is not None:
        Rewriter.erase_op(around.group)
    Rewriter.erase_op(product.op)
    for factor in around.before:
        assert isinstance(factor.owner, GroupOp)
        Rewriter.erase_op(factor.owner)


def _is_on_gpu(product: Product) -> bool:
    return device(tensor_of(product.result)).startswith("cuda")


def _requested(op: Operation) -> Blocks | None:
    """The blocks that an attribute of ``op`` requests, else None."""
    said = op.attributes.get(BLOCKS)
    if said is None:
        return None
    sizes = [int(size) for size in said.get_values()] if isinstance(said, DenseArrayBase) else []
    if len(sizes) != 3 or any(size < 1 or size & (size - 1) for size in sizes):
        raise OpPassFailedException(f"{BLOCKS} is array<i64: rows, columns, depth>, powers of two", op)
    return Blocks(*sizes)


def _fitting(product: Product, blocks: Blocks) -> Blocks:
    """``blocks``, reduced along dimensions that they would not fill."""
    _, rows, columns, inner = map(side, product.extents)
    return Blocks(min(rows, blocks.rows), min(columns, blocks.columns), min(inner, blocks.inner))


def _sources(product: Product, around: Surroundings) -> Iterator[StringAttr]:
    """The operators that the kernel computes, in order."""
    for factor in around.before:
        yield from listed(factor.owner)
    yield from notes([product.op])
    yield from listed(around.group)
