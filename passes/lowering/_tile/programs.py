"""The programs of a kernel: rows dealt out, loops, lanes, accumulators and stores."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IndexType
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import Block, SSAValue

from fxc.dialects.tile import MaskOp, ReduceOp, SelectOp
from fxc.passes.lowering._tile.plans import Nest, Plan
from fxc.passes.lowering._tile.stages import KINDS, Stage
from fxc.passes.lowering._tile.writer import Scope, Value, Writer

Carried: TypeAlias = list[SSAValue]
Step: TypeAlias = Callable[[Carried], Carried]
"""One step of a loop: what is carried into it -> what is carried on."""


class Programs:
    """Writes the programs of ``plan``: of ``kind``, with ``lanes``, ``unroll`` and ``block`` as in ``#tile.schedule``.

    ``pointers``: tensor -> the kernel's argument for it. Only results that are there are stored.
    """

    def __init__(
        self, plan: Plan, writer: Writer, pointers: Mapping[SSAValue, SSAValue], kind: str, unroll: int, block: int
    ) -> None:
        self.plan, self.writer, self.pointers, self.kind, self.unroll = plan, writer, pointers, kind, unroll
        rows = plan.rows
        if kind == "inner":
            self.lane, self.outer = None, rows
            self.chunk, self.chunks, self.rows = 0, 1, block
        else:
            self.lane, self.outer = (rows[-1], rows[:-1]) if rows else (None, [])
            columns = plan.sizes[rows[-1]] if rows else 1
            vector = writer.lanes * unroll
            self.chunk = min(max(block // vector, 1) * vector, columns)
            self.chunks = math.ceil(columns / self.chunk) if columns else 1
            self.rows = max(block // max(columns, 1), 1) if self.chunks == 1 else 1
        self.count = math.ceil(plan.count(self.outer) / self.rows) * self.chunks
        if 0 in (plan.sizes[loop] for loop in rows):
            self.count = 0

    def write(self, program: SSAValue) -> None:
        """The program of this number."""
        w, rows = self.writer, self.plan.count(self.outer)
        w.lane = self.lane
        part, chunk = program, program if self.chunks > 1 else None
        if rows > 1 and self.chunks > 1:
            part, chunk = (self._op(cls, program, w.index(self.chunks)) for cls in (arith.DivUIOp, arith.RemUIOp))
        if rows == 1 or self.rows == 1:
            self._row(part if rows > 1 else None, chunk)
            return
        first = self._op(arith.MuliOp, part, w.index(self.rows))
        stop = self._op(arith.AddiOp, first, w.index(self.rows))
        if rows % self.rows:
            stop = self._op(arith.MinUIOp, stop, w.index(rows))
        self._for(first, stop, 1, [], lambda row, carried: self._row(row, chunk))

    def _op(self, cls: type, left: SSAValue, right: SSAValue) -> SSAValue:
        return self.writer.add(cls(left, right))

    def _for(
        self, start: SSAValue, stop: SSAValue, step: int, carried: Carried, body: Callable[[SSAValue, Carried], Carried | None]
    ) -> Carried:
        """A loop in a scope of its own."""
        w = self.writer
        block = Block(arg_types=[IndexType(), *(value.type for value in carried)])
        w.scopes.append(Scope(block, mask=w.scopes[-1].mask))
        last = body(block.args[0], list(block.args[1:])) or []
        w.add(scf.YieldOp(*last))
        w.scopes.pop()
        op = scf.ForOp(start, stop, w.index(step), carried, block)
        w.add(op)
        return list(op.results)

    def _row(self, row: SSAValue | None, chunk: SSAValue | None) -> None:
        """All of one row: ``row`` is its number over all ``outer`` loops, None where there is one."""
        w = self.writer
        w.scopes.append(Scope(w.scopes[-1].block, mask=w.scopes[-1].mask))
        for loop in reversed(self.outer):
            if row is None or loop == self.outer[0]:
                w.scopes[-1].loops[loop] = w.index(0) if row is None else row
            else:
                size = w.index(self.plan.sizes[loop])
                w.scopes[-1].loops[loop] = self._op(arith.RemUIOp, row, size)
                row = self._op(arith.DivUIOp, row, size)
        if self.kind == "inner":
            for nest in self.plan.nests:
                self._inner(nest)
        elif self.lane is None:
            self._lanes([])
        else:
            self._columns(self.lane, chunk)
        w.scopes.pop()

    # lanes along a row loop

    def _columns(self, lane: int, chunk: SSAValue | None) -> None:
        columns, w = self.plan.sizes[lane], self.writer
        if chunk is None:
            self._strips(lane, None, columns, [], self._lanes)
            return
        first = self._op(arith.MuliOp, chunk, w.index(self.chunk))
        if columns % self.chunk == 0:
            self._strips(lane, first, self.chunk, [], self._lanes)
            return
        left = self._op(arith.SubiOp, w.index(columns), first)
        self._strips(lane, first, self._op(arith.MinUIOp, left, w.index(self.chunk)), [], self._lanes)

    def _lanes(self, carried: Carried, copy: int = 0) -> Carried:
        """The stages for the lanes of the scope."""
        for nest in self.plan.nests:
            starts = [self._identity(stage) for stage in nest.reductions]
            starts = [self._spread(start).ssa for start in starts]
            totals = self._nested(nest.loops, starts, lambda carried, nest=nest: self._stages(nest, carried))
            for stage, total in zip(nest.reductions, totals, strict=True):
                self._finish(stage, Value(total, self.writer.depth))
        return carried

    def _spread(self, value: Value) -> Value:
        return value if self.lane is None else self.writer.block(value)

    # lanes along an inner loop

    def _inner(self, nest: Nest) -> None:
        w = self.writer
        w.lane = nest.loops[-1] if nest.loops else None
        if w.lane is None:
            totals = self._stages(nest, [self._identity(stage).ssa for stage in nest.reductions])
            values = [Value(total, w.depth) for total in totals]
        else:
            starts = [w.block(self._identity(stage)).ssa for stage in nest.reductions for _ in range(self.unroll)]
            size, lane = self.plan.sizes[w.lane], w.lane

            def strips(carried: Carried) -> Carried:
                return self._strips(lane, None, size, carried, lambda part, copy: self._stages(nest, part))

            totals = self._nested(nest.loops[:-1], starts, strips)
            values = [self._joined(stage, totals[i * self.unroll :][: self.unroll]) for i, stage in enumerate(nest.reductions)]
        w.lane = None
        for stage, value in zip(nest.reductions, values, strict=True):
            self._finish(stage, value)

    def _joined(self, stage: Stage, totals: Sequence[SSAValue]) -> Value:
        """One number of the accumulators of a reduction."""
        w, combiner = self.writer, stage.combiner
        assert combiner is not None
        values = [Value(total, w.depth) for total in totals]
        while len(values) > 1:
            pairs = [values[i : i + 2] for i in range(0, len(values), 2)]
            values = [w.apply(combiner, pair) if len(pair) == 2 else pair[0] for pair in pairs]
        return Value(w.add(ReduceOp.of(KINDS[combiner.name], values[0].ssa, [0])), w.depth)

    # loops

    def _nested(self, loops: Sequence[int], carried: Carried, body: Step) -> Carried:
        if not loops:
            return body(carried)
        w, size = self.writer, self.plan.sizes[loops[0]]

        def step(value: SSAValue, carried: Carried) -> Carried:
            w.scopes[-1].loops[loops[0]] = value
            return self._nested(loops[1:], carried, body)

        return self._for(w.index(0), w.index(size), 1, carried, step)

    def _strips(
        self,
        lane: int,
        first: SSAValue | None,
        length: int | SSAValue,
        carried: Carried,
        body: Callable[[Carried, int], Carried],
    ) -> Carried:
        """``length`` steps of the loop ``lane`` from ``first``, in vectors: several at once, one by one, then what is left.

        What is carried has ``unroll`` parts each, of which a single vector takes the first.
        """
        w, lanes = self.writer, self.writer.lanes
        wide = lanes * self.unroll
        ends = [self._floor(length, wide), self._floor(length, lanes)]

        def at(value: SSAValue, part: Carried, copies: Sequence[int], stop: SSAValue | None = None) -> Carried:
            start = value if first is None else self._op(arith.AddiOp, first, value)
            result = list(part)
            for copy in copies:
                place = start if copy == 0 else self._op(arith.AddiOp, start, w.index(copy * lanes))
                scope = Scope(w.scopes[-1].block, {lane: place}, mask=w.scopes[-1].mask)
                if stop is not None:
                    scope.mask = w.add(MaskOp.of(value, stop, [lanes]))
                w.scopes.append(scope)
                result[copy :: self.unroll] = body(part[copy :: self.unroll], copy)
                w.scopes.pop()
            return result

        def loop(
            start: int | SSAValue, stop: int | SSAValue, step: int, copies: Sequence[int], carried: Carried, *, masked: bool
        ) -> Carried:
            if isinstance(start, int) and isinstance(stop, int) and start >= stop:
                return carried
            begin, end = (w.index(value) if isinstance(value, int) else value for value in (start, stop))
            limit = end if masked else None
            if isinstance(start, int) and isinstance(stop, int) and start + step >= stop:
                return at(begin, carried, copies, limit)
            return self._for(begin, end, step, carried, lambda value, part: at(value, part, copies, limit))

        if self.unroll > 1:
            carried = loop(0, ends[0], wide, range(self.unroll), carried, masked=False)
        carried = loop(ends[0] if self.unroll > 1 else 0, ends[1], lanes, [0], carried, masked=False)
        return loop(ends[1], length, lanes, [0], carried, masked=True)

    def _floor(self, length: int | SSAValue, step: int) -> int | SSAValue:
        """The largest multiple of ``step`` up to ``length``."""
        if isinstance(length, int):
            return length // step * step
        number = self.writer.index(step)
        return self._op(arith.MuliOp, self._op(arith.DivUIOp, length, number), number)

    # stages

    def _stages(self, nest: Nest, totals: Carried) -> Carried:
        """The stages of ``nest`` for the lanes of the scope; totals of its reductions in, and out."""
        w, result = self.writer, list(totals)
        for stage in nest.stages:
            value = self._element(stage)
            if stage.combiner is None:
                self._store(stage, w.keep(("result", stage), Value(value.ssa, w.depth)))
                continue
            place = nest.reductions.index(stage)
            total = Value(totals[place], w.depth)
            if total.is_block:
                value = w.block(value)
                if w.scopes[-1].mask is not None and self.kind == "inner":
                    kept = w.block(self._identity(stage))
                    value = Value(w.add(SelectOp.of(w.scopes[-1].mask, value.ssa, kept.ssa)), w.depth)
            result[place] = w.apply(stage.combiner, [total, value]).ssa
        return result

    def _element(self, stage: Stage) -> Value:
        """What the body of ``stage`` computes: the element that is stored or combined."""
        w, made = self.writer, {other.result: other for other in self.plan.stages}
        values = dict[SSAValue, Value]()
        for argument, source, _ in stage.reads():
            found = w.find(("result", made[source])) if source in made else None
            values[argument] = found or w.load(self.pointers[source], self.plan.forms[stage, argument])
        for op in stage.op.body.block.ops:
            if isinstance(op, arith.ConstantOp):
                values[op.result] = w.constant(op)
            elif isinstance(op, linalg.IndexOp):
                values[op.result] = w.number(self.plan.forms[stage, op])
            elif isinstance(op, arith.IndexCastOp):
                values[op.result] = values[op.input]
            elif not isinstance(op, linalg.YieldOp) and op is not stage.combiner:
                values[op.results[0]] = w.apply(op, [values[operand] for operand in op.operands])
        return values[stage.element]

    def _identity(self, stage: Stage) -> Value:
        start = stage.start()
        assert start is not None
        return self.writer.constant(start)

    def _finish(self, stage: Stage, total: Value) -> None:
        self.writer.keep(("result", stage), total)
        self._store(stage, total)

    def _store(self, stage: Stage, value: Value) -> None:
        if stage.result in self.pointers:
            lanes = self.writer.lane is not None
            self.writer.store(value, self.pointers[stage.result], self.plan.forms[stage, None], in_lanes=lanes)
