"""The kernel of an attention: blocks of rows, with a loop over blocks of keys that carries the softmax online."""

from __future__ import annotations

import math as numbers
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import FloatAttr, VectorType, f32
from xdsl.ir import Attribute, SSAValue

from fxc.dialects.target import allows_tf32, toplevel
from fxc.dialects.tile import CompareOp, DotOp, ExpandOp, MaskOp, ProgramIdOp, ReduceOp, SelectOp
from fxc.dialects.tile.types import shape_of
from fxc.passes.kernels.tile_attention.attention import Attention
from fxc.passes.kernels.tiling.arguments import Made, element_of, finished_kernel, kernel_block
from fxc.passes.kernels.tiling.bodies import Bodies
from fxc.passes.kernels.tiling.dynamic import fixed
from fxc.passes.kernels.tiling.loops import Carried, loop
from fxc.passes.kernels.tiling.products import BATCH, COLUMN, INNER, ROW, Factor
from fxc.passes.kernels.tiling.stages import KINDS, Stage
from fxc.passes.kernels.tiling.writer import Axis, BlockWriter, Value

HEAD, DEPTH, FEATURE = 2000, 2001, 2002
"""The loops of products that the group does not have: over the batch, columns of queries, and columns of values."""


@dataclass(frozen=True)
class Blocks:
    """The rows of a program, the keys of a step, and the columns of queries and values with padding.

    ``turned``: rows are the last dimension of blocks, so that lanes run along them, and reductions and factors move no lanes.
    """

    rows: int
    keys: int
    depth: int
    features: int
    turned: bool


def attention_kernel(name: str, found: Attention, blocks: Blocks) -> Made:
    return _AttentionKernel(found, blocks).kernel(name)


class _AttentionKernel:
    def __init__(self, found: Attention, blocks: Blocks) -> None:
        self.found, self.blocks = found, blocks
        self.rows, self.keys = Axis(found.row, blocks.rows), Axis(found.key, blocks.keys)
        self.depth, self.features = Axis(DEPTH, blocks.depth), Axis(FEATURE, blocks.features)
        self.heads = {BATCH: HEAD} if found.output.extents[BATCH] > 1 else {}
        self.dim = 0 if blocks.turned else 1
        """The dimension of blocks along keys, or along what else there is for each row."""
        factors = [found.scores.left.value, found.scores.right.value, found.output.right.value]
        self.inputs = list(dict.fromkeys([*factors, *found.sources()]))
        self.outputs = [*found.results(), found.output.result]
        self.block, self.pointers = kernel_block([*self.inputs, *self.outputs])
        self.writer = BlockWriter(self.block)
        self.bodies = Bodies(found.plan, self.writer, self.pointers, reduces_lanes=False)
        self.same = {stage: list(found.same(stage)) for stage in (found.total, *found.others, found.last)}
        self.numbers = dict[SSAValue, Value]()
        """The result of a stage -> the number of each row."""

    def kernel(self, name: str) -> Made:
        found, w = self.found, self.writer
        grid = self._start()
        names = {**self.heads, ROW: found.row, INNER: DEPTH}
        queries = self._factor(found.scores.left, names, self._pair(self.rows, self.depth))
        accumulated = self._finished(self._loop(queries))
        w.axes = self._pair(self.rows, self.features)
        given = {found.weight: Value(accumulated, w.depth), **self._given(found.last, self.blocks.features)}
        result = w.block(self.bodies.element(found.last, given))
        form = found.output.total.form.renamed({**self.heads, ROW: found.row, COLUMN: FEATURE})
        w.store(result, self.pointers[found.output.result], form)
        return finished_kernel(name, grid, self.block, self.inputs, self.outputs)

    def _pair(self, rows: Axis, others: Axis) -> tuple[Axis, Axis]:
        return (others, rows) if self.blocks.turned else (rows, others)

    def _start(self) -> list[int]:
        """Compute the rows of the program, and return the grid."""
        found, w = self.found, self.writer
        batch, rows, features, _ = found.output.extents
        scope, sizes = w.scopes[0], {found.row: rows, DEPTH: found.scores.extents[INNER], FEATURE: features}
        program = w.add(ProgramIdOp.of(0))
        program.name_hint = "program"
        scope.loops = {DEPTH: w.index(0), FEATURE: w.index(0)}
        scope.loops[found.row] = w.add(arith.MuliOp(program, w.index(self.blocks.rows)))
        scope.loops[found.row].name_hint = "row"
        left = scope.loops[HEAD] = w.add(ProgramIdOp.of(1)) if batch > 1 else w.index(0)
        left.name_hint = "head" if batch > 1 else None
        for number in reversed(found.batches[1:]):
            size = w.index(fixed(found.plan.sizes[number]))
            scope.loops[number], left = w.add(arith.RemUIOp(left, size)), w.add(arith.DivUIOp(left, size))
        scope.loops |= dict.fromkeys(found.batches[:1], left)
        lanes = {axis.loop: axis.lanes for axis in (self.rows, self.depth, self.features)}
        scope.bounds = {number: (scope.loops[number], w.index(size)) for number, size in sizes.items() if size % lanes[number]}
        return [-(-rows // self.blocks.rows)] + [batch] * (batch > 1)

    def _factor(self, factor: Factor, names: Mapping[int, int], axes: tuple[Axis, Axis]) -> SSAValue:
        """A block of a factor, with zeros outside of the matrix."""
        self.writer.axes = axes
        return self.writer.load(self.pointers[factor.value], factor.form.renamed(names)).ssa

    def _dot(self, rows: SSAValue, others: SSAValue, start: SSAValue) -> SSAValue:
        tf32 = element_of(self.found.scores.left.value) == f32 and allows_tf32(toplevel(self.found.output.op))
        return self.writer.add(DotOp.of(*((others, rows) if self.blocks.turned else (rows, others)), start, tf32=tf32))

    def _constant(self, value: float) -> SSAValue:
        """A float in each lane."""
        return self.writer.block(self.writer.constant(arith.ConstantOp(FloatAttr(value, f32)))).ssa

    def _loop(self, queries: SSAValue) -> Carried:
        """The maximum, the total of exponentials, the sum of values times them, and the results of other reductions."""
        found, w, key = self.found, self.writer, self.found.key
        size = found.output.extents[INNER]
        w.axes = (self.rows,)
        starts = [self._constant(-numbers.inf), self._constant(0.0)]
        starts += [w.block(self.bodies.identity(stage)).ssa for stage in found.others]
        w.axes = self._pair(self.rows, self.features)
        starts.append(self._constant(0.0))

        def step(first: SSAValue, carried: Carried) -> Carried:
            scope = w.scopes[-1]
            first.name_hint, scope.loops[key] = "key", first
            if size % self.blocks.keys:
                scope.bounds = {**scope.bounds, key: (first, w.index(size))}
            return self._step(queries, carried)

        return loop(w, w.index(0), w.index(size), self.blocks.keys, starts, step)

    def _step(self, queries: SSAValue, carried: Carried) -> Carried:
        found, w = self.found, self.writer
        largest, total, *others, accumulated = carried
        names = {**self.heads, COLUMN: found.key, INNER: DEPTH}
        keys = self._factor(found.scores.right, names, self._pair(self.depth, self.keys))
        w.axes = axes = self._pair(self.rows, self.keys)
        score = self._cast(self._dot(queries, keys, self._constant(0.0)), element_of(found.scores.result))
        scores = {stage: self._scores(stage, score) for stage in (found.maximum, *self.same)}
        modified = self.bodies.element(found.maximum, scores[found.maximum])
        best = self._reduced(found.maximum, modified)
        w.axes = (self.rows,)
        new = w.add(arith.MaximumfOp(largest, best))
        nothing = w.add(CompareOp.of("oeq", new, self._constant(-numbers.inf)))
        centre = w.add(SelectOp.of(nothing, self._constant(0.0), new))
        factor = w.add(math.ExpOp(w.add(arith.SubfOp(largest, centre))))
        w.axes = axes
        given = {stage: scores[stage] | dict.fromkeys(same, modified) for stage, same in self.same.items()}
        wide = self._expanded(centre)
        centres = {stage: dict.fromkeys(found.centres(stage), wide) for stage in (found.total, found.last)}
        exponentials = self.bodies.element(found.total, given[found.total] | centres[found.total])
        more = self._reduced(found.total, exponentials)
        rest = [self._reduced(stage, self.bodies.element(stage, given[stage])) for stage in found.others]
        weights = self.bodies.element(found.last, given[found.last] | centres[found.last], found.weight)
        weights = self._cast(self._counted(found.total, weights).ssa, element_of(found.output.right.value))
        w.axes = (self.rows,)
        total = w.add(arith.AddfOp(w.add(arith.MulfOp(total, factor)), more))
        others = [self._combined(*each) for each in zip(found.others, others, rest, strict=True)]
        names = {**self.heads, INNER: found.key, COLUMN: FEATURE}
        values = self._factor(found.output.right, names, self._pair(self.keys, self.features))
        w.axes = self._pair(self.rows, self.features)
        scaled = w.add(arith.MulfOp(accumulated, self._expanded(factor, self.blocks.features).ssa))
        return [new, total, *others, self._dot(weights.ssa, values, scaled)]

    def _scores(self, stage: Stage, score: Value) -> dict[SSAValue, Value]:
        return {argument: score for argument, source, _ in stage.reads() if source is self.found.read}

    def _cast(self, block: SSAValue, element: Attribute) -> Value:
        if element == f32:
            return Value(block, self.writer.depth)
        return Value(self.writer.add(arith.TruncFOp(block, VectorType(element, shape_of(block.type)))), self.writer.depth)

    def _reduced(self, stage: Stage, value: Value) -> SSAValue:
        """The total of ``stage`` over the keys of a block."""
        assert stage.combiner is not None
        return self.writer.add(ReduceOp.of(KINDS[stage.combiner.name], self._counted(stage, value).ssa, [self.dim]))

    def _counted(self, stage: Stage, value: Value) -> Value:
        """``value`` for each key, and the neutral element of ``stage`` beyond the last. Rows beyond the last are not stored."""
        w, value = self.writer, self.writer.block(value)
        bounds = w.scopes[-1].bounds.get(self.found.key)
        if bounds is None:
            return value
        neutral = w.block(self.bodies.identity(stage)).ssa
        if (found := w.find(("counted", value.ssa, neutral))) is not None:
            return found
        mask = w.find("keys") or w.save("keys", Value(w.add(MaskOp.of(*bounds, w.shape, self.dim)), w.depth))
        counted = Value(w.add(SelectOp.of(mask.ssa, value.ssa, neutral)), w.depth)
        return w.save(("counted", value.ssa, neutral), counted)

    def _combined(self, stage: Stage, total: SSAValue, more: SSAValue) -> SSAValue:
        w = self.writer
        assert stage.combiner is not None
        return w.apply(stage.combiner, [Value(total, w.depth), Value(more, w.depth)]).ssa

    def _expanded(self, value: SSAValue, size: int = 0) -> Value:
        """The number of each row, for each key or feature."""
        w = self.writer
        return Value(w.add(ExpandOp.of(value, self.dim, size or self.blocks.keys)), w.depth)

    def _finished(self, totals: Carried) -> SSAValue:
        """Compute the numbers of each row, and store those that the group yields. Returns the sum of values times weights."""
        found, w = self.found, self.writer
        largest, total, *others, accumulated = totals
        w.axes = (self.rows,)
        undefined = w.add(arith.SubfOp(largest, largest))  # NaN where the maximum is infinite, as each distance from it
        total = w.add(arith.AddfOp(total, undefined))
        stages: Sequence[Stage] = (found.maximum, found.total, *found.others)
        for stage, value in zip(stages, (largest, total, *others), strict=True):
            self.numbers[stage.result] = Value(value, w.depth)
        for stage in found.after:
            self.numbers[stage.result] = w.block(self.bodies.element(stage, self._given(stage)))
        for stage in (*stages, *found.after):
            if stage.result in self.pointers:
                self.bodies.store(stage, self.numbers[stage.result])
        return accumulated

    def _given(self, stage: Stage, size: int = 0) -> dict[SSAValue, Value]:
        """The numbers of rows that ``stage`` reads, ``size`` times each."""
        read = {argument: self.numbers[source] for argument, source, _ in stage.reads() if source in self.numbers}
        return {argument: self._expanded(value.ssa, size) if size else value for argument, value in read.items()}
