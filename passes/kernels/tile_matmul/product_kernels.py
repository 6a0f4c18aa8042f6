"""The kernel of a matrix product: blocks of the result, with a prologue for the factors and an epilogue."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import FloatAttr, IndexType, VectorType, f32
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from fxc.dialects.target import allows_tf32, toplevel
from fxc.dialects.tile import DotOp, ProgramIdOp, SelectOp
from fxc.passes.analysis.index.forms import Form
from fxc.passes.kernels.tiling.arguments import Made, element_of, finished_kernel, kernel_block
from fxc.passes.kernels.tiling.products import BATCH, COLUMN, INNER, ROW, Factor, Fused, Product, Surroundings
from fxc.passes.kernels.tiling.writer import Axis, BlockWriter, Scope, Value

GROUP = 8
"""The number of blocks in a column that consecutive programs compute, so that programs share rows and columns in the cache."""


@dataclass(frozen=True)
class Blocks:
    """The size of the block that a program computes, and the depth that it adds at once; powers of two."""

    rows: int
    columns: int
    inner: int


def product_kernel(name: str, product: Product, around: Surroundings, blocks: Blocks) -> Made:
    """The kernel writes the results of the fused group, and the product itself where other ops read it."""
    return _ProductKernel(product, around, blocks).kernel(name)


class _ProductKernel:
    def __init__(self, product: Product, around: Surroundings, blocks: Blocks) -> None:
        self.product, self.around = product, around
        self.lanes = {ROW: blocks.rows, COLUMN: blocks.columns, INNER: blocks.inner}
        self.inputs, self.outputs = self._inputs(), self._outputs()
        self.block, self.pointers = kernel_block([*self.inputs, *self.outputs])
        self.writer = BlockWriter(self.block)

    def kernel(self, name: str) -> Made:
        grid = self._start()
        total = self._epilogue(self._loop())
        for fused in self.around.after:
            total[fused.stage.result] = self._element(fused, total)
            if fused.stage.result in self.pointers and fused.written is not None:
                self._store(total[fused.stage.result], fused.stage.result, fused.written)
        if self.product.result in self.pointers:
            self._store(total[self.product.result], self.product.result, self.product.total.form)
        return finished_kernel(name, grid, self.block, self.inputs, self.outputs)

    def _inputs(self) -> list[SSAValue]:
        found = list[SSAValue]()
        for factor in (self.product.left, self.product.right):
            fused = self.around.before.get(factor.value)
            found += [factor.value] if fused is None else [source for _, source, _ in fused.stage.reads()]
        found += [] if self.product.bias is None else [self.product.bias.value]
        made = {self.product.result, *(fused.stage.result for fused in self.around.after)}
        found += [source for fused in self.around.after for _, source, _ in fused.stage.reads() if source not in made]
        return list(dict.fromkeys(found))

    def _outputs(self) -> list[SSAValue]:
        group = self.around.group
        inside = set(group.walk()) if group is not None else set[Operation]()
        others = any(use.operation not in inside for use in self.product.result.uses)
        yielded = list(dict.fromkeys(group.yielded())) if group is not None else []
        return [*yielded, *([self.product.result] if others or group is None else [])]

    def _start(self) -> list[int]:
        """Compute the position of the program's block, and return the grid."""
        batch, rows, columns, _ = self.product.extents
        down, right = -(-rows // self.lanes[ROW]), -(-columns // self.lanes[COLUMN])
        program = self.writer.add(ProgramIdOp.of(0))
        program.name_hint = "program"
        row, column = self._place(program, down, right)
        scope = self.writer.scopes[0]
        for loop, place in ((ROW, row), (COLUMN, column)):
            start = self._op(arith.MuliOp, place, self.writer.index(self.lanes[loop]))
            start.name_hint = "row" if loop == ROW else "column"
            scope.loops[loop] = start
        if batch > 1:
            scope.loops[BATCH] = self.writer.add(ProgramIdOp.of(1))
            scope.loops[BATCH].name_hint = "batch"
        scope.bounds = self._bounds(scope.loops, (ROW, COLUMN))
        return [down * right] + [batch] * (batch > 1)

    def _place(self, program: SSAValue, down: int, right: int) -> tuple[SSAValue, SSAValue]:
        """The row and column of the block of a program, with blocks ordered in groups of rows."""
        index, op = self.writer.index, self._op
        if down <= GROUP or right == 1:
            return op(arith.RemUIOp, program, index(down)), op(arith.DivUIOp, program, index(down))
        group, place = (op(cls, program, index(GROUP * right)) for cls in (arith.DivUIOp, arith.RemUIOp))
        first = op(arith.MuliOp, group, index(GROUP))
        height = op(arith.MinSIOp, op(arith.SubiOp, index(down), first), index(GROUP))
        return op(arith.AddiOp, first, op(arith.RemUIOp, place, height)), op(arith.DivUIOp, place, height)

    def _bounds(self, loops: dict[int, SSAValue], names: Sequence[int]) -> dict[int, tuple[SSAValue, SSAValue]]:
        """The bounds of the loops whose size is not a multiple of the block."""
        sizes = {loop: self.product.extents[loop] for loop in names}
        uneven = {loop: size for loop, size in sizes.items() if size % self.lanes[loop]}
        return {loop: (loops[loop], self.writer.index(size)) for loop, size in uneven.items()}

    def _loop(self) -> SSAValue:
        """The loop over the depth, which computes the block of the product."""
        w, product = self.writer, self.product
        shape = [self.lanes[ROW], self.lanes[COLUMN]]
        w.axes = (Axis(ROW, shape[0]), Axis(COLUMN, shape[1]))
        zeros = w.block(w.constant(arith.ConstantOp(FloatAttr(0.0, f32))))
        body = Block(arg_types=[IndexType(), zeros.ssa.type])
        body.args[0].name_hint, body.args[1].name_hint = "inner", "total"
        start, stop, step = (w.index(number) for number in (0, product.extents[INNER], self.lanes[INNER]))
        outer = w.scopes[0]
        loops = {**outer.loops, INNER: body.args[0]}
        w.scopes.append(Scope(body, {INNER: body.args[0]}, bounds={**outer.bounds, **self._bounds(loops, (INNER,))}))
        left = self._factor(product.left, (ROW, INNER))
        right = self._factor(product.right, (INNER, COLUMN))
        w.add(scf.YieldOp(w.add(DotOp.of(left.ssa, right.ssa, body.args[1], tf32=self._rounds()))))
        w.scopes.pop()
        w.axes = (Axis(ROW, shape[0]), Axis(COLUMN, shape[1]))
        return w.add(scf.ForOp(start, stop, step, [zeros.ssa], Region(body)))

    def _rounds(self) -> bool:
        """Whether the factors may be rounded to TF32."""
        return element_of(self.product.left.value) == f32 and allows_tf32(toplevel(self.product.op))

    def _factor(self, factor: Factor, loops: tuple[int, int]) -> Value:
        """A block of a factor, with zeros outside of the matrix."""
        w = self.writer
        w.axes = tuple(Axis(loop, self.lanes[loop]) for loop in loops)
        fused = self.around.before.get(factor.value)
        if fused is not None:
            value = w.block(self._element(fused, {}))
        else:
            value = w.block(w.load(self.pointers[factor.value], factor.form))
            if factor.form.factor(INNER):
                return value  # the load is masked
        mask = w.mask(w.depth, w.axes)
        if mask is None:
            return value
        zero = w.block(Value(w.zero(element_of(factor.value)), 0))
        return Value(w.add(SelectOp.of(mask, value.ssa, zero.ssa)), w.depth)

    def _epilogue(self, total: SSAValue) -> dict[SSAValue, Value]:
        """The result of PyTorch's operator: scaled, with the bias, and rounded once."""
        w, product = self.writer, self.product
        value = Value(total, 0)
        if product.alpha != 1:
            value = self._scaled(value, product.alpha)
        if product.bias is not None:
            loaded = w.load(self.pointers[product.bias.value], product.bias.form)
            bias = self._cast(arith.ExtFOp, loaded, f32) if element_of(product.bias.value) != f32 else loaded
            value = self._apply(arith.AddfOp, value, bias if product.beta == 1 else self._scaled(bias, product.beta))
        if element_of(product.result) != f32:
            value = self._cast(arith.TruncFOp, value, element_of(product.result))
        return {product.result: value}

    def _scaled(self, value: Value, factor: float) -> Value:
        return self._apply(arith.MulfOp, value, self.writer.constant(arith.ConstantOp(FloatAttr(factor, f32))))

    def _apply(self, cls: type[arith.AddfOp] | type[arith.MulfOp], left: Value, right: Value) -> Value:
        w = self.writer
        return Value(w.add(cls(w.block(left).ssa, w.block(right).ssa)), 0)

    def _cast(self, cls: type[arith.ExtFOp] | type[arith.TruncFOp], value: Value, element: Attribute) -> Value:
        block = self.writer.block(value).ssa
        return Value(self.writer.add(cls(block, VectorType(element, block.type.get_shape()))), 0)  # type: ignore[arg-type, union-attr]

    def _element(self, fused: Fused, made: dict[SSAValue, Value]) -> Value:
        """The value of a stage in the lanes of the block."""
        w, stage, values = self.writer, fused.stage, dict[SSAValue, Value]()
        for argument, source, _ in stage.reads():
            form = fused.reads[argument]
            values[argument] = made[source] if form is None else w.load(self.pointers[source], form)
        for op in stage.op.body.block.ops:
            if isinstance(op, arith.ConstantOp):
                values[op.result] = w.constant(op)
            elif op.results:
                values[op.results[0]] = w.apply(op, [values[operand] for operand in op.operands])
        return values[stage.element]

    def _store(self, value: Value, tensor: SSAValue, form: Form) -> None:
        self.writer.store(value, self.pointers[tensor], form)

    def _op(self, cls: type[Operation], left: SSAValue, right: SSAValue) -> SSAValue:
        return self.writer.add(cls.create(operands=[left, right], result_types=[left.type]))
