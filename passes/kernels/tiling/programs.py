"""Distribution of work to the programs of a kernel: rows, bands of tiles, chunks of columns, and parts of reductions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from xdsl.dialects import arith
from xdsl.ir import SSAValue

from fxc.dialects.attributes.size_polynomials import Polynomial
from fxc.dialects.tile import ScheduleAttr
from fxc.passes.kernels.tiling.bodies import Bodies
from fxc.passes.kernels.tiling.dynamic import Count, Quotient, ceildiv
from fxc.passes.kernels.tiling.loop_nests import PART, LoopPlan, Nest
from fxc.passes.kernels.tiling.loops import (
    Abreast,
    Along,
    Carried,
    Span,
    Step,
    abreast,
    block_at,
    ends,
    loop,
    nested,
    share,
    side_by_side,
)
from fxc.passes.kernels.tiling.row_loops import RowWriter, span_of
from fxc.passes.kernels.tiling.writer import Axis, BlockWriter, Scope, Value

BAND = 4
"""The largest number of adjacent tiles in a band: long contiguous writes use memory best."""

Spans: TypeAlias = Sequence[tuple[int, Span]]

SHORT = 8
"""The largest number of steps of a loop in lanes that are unrolled, so that all their loads are in flight at once."""


class Programs:
    """Writes the programs of ``plan`` after ``schedule``.

    ``pointers``: tensor -> the kernel's argument for it; results without one are not stored.
    """

    def __init__(
        self, plan: LoopPlan, writer: BlockWriter, pointers: Mapping[SSAValue, SSAValue], schedule: ScheduleAttr
    ) -> None:
        self.plan, self.writer = plan, writer
        kind, self.unroll = schedule.kind.data, schedule.unroll.value.data
        lanes, tile, block = schedule.lanes.value.data, schedule.tile.value.data, schedule.block.value.data
        folds = kind == "outer" and tile > 1
        self.bodies = Bodies(plan, writer, pointers, reduces_lanes=kind == "inner" or folds)
        self.row_writer = RowWriter(self.bodies, schedule) if kind == "inner" or folds else None
        self.lane: Axis | None = None
        self.turned: Axis | None = None
        if kind != "inner" and plan.rows:
            self.lane = Axis(plan.rows[-1], lanes)
            second = plan.second_loop() if tile > 1 and not folds else None
            self.turned = None if second is None else Axis(second, tile)
        axes = [axis for axis in (self.turned, self.lane) if axis is not None]
        self.outer = [row for row in plan.rows if all(row != axis.loop for axis in axes)]
        many = block > math.prod(axis.lanes for axis in axes)
        self.band = tile * (max(min(math.isqrt(block) // tile, BAND), 1) if many else 1) if self.turned is not None else 1
        self.bands = ceildiv(plan.sizes[self.turned.loop], self.band) if self.turned is not None else 1
        self._chunks(block // self.band, block if kind == "inner" else None)
        self.is_block = self.unroll == 1 and self.rows == 1 and not many
        self.groups = ceildiv(plan.count(self.outer), self.rows)
        self.radices = (plan.cut.count if plan.cut is not None else 1, self.groups, self.bands, self.chunks)
        known = math.prod(radix for radix in self.radices if isinstance(radix, int))
        self.count = 0 if 0 in (plan.sizes[row] for row in plan.rows) else known
        """The number of programs, to be multiplied by each of ``unknown``."""
        self.unknown = [radix for radix in self.radices if isinstance(radix, Quotient)] if self.count else []

    def _chunks(self, elements: int, rows: int | None) -> None:
        """Split columns into chunks of about ``elements``. A program has ``rows``, or as many as fit into ``elements``."""
        self.chunk, self.rows = 0, rows or 1
        self.chunks: Count = 1
        if self.lane is None:
            self.rows = rows or max(elements, 1)
            return
        columns, vector = self.plan.sizes[self.lane.loop], self.lane.lanes * self.unroll
        self.chunk = max(elements // vector, 1) * vector
        if isinstance(columns, Polynomial):
            self.chunks = ceildiv(columns, self.chunk)
            return
        self.chunk = min(self.chunk, columns)
        self.chunks = math.ceil(columns / self.chunk) if columns else 1
        if self.chunks == 1 and self.turned is None:
            self.rows = max(elements // max(columns, 1), 1)

    def write(self, program: SSAValue) -> None:
        """Write the program with the number ``program``."""
        w, rows = self.writer, self.plan.count(self.outer)
        w.axes = ()
        part, group, band, chunk = self._digits(program)
        w.scopes.append(Scope(w.scopes[-1].block, {} if part is None else {PART: part}))
        if rows == 1 or self.rows == 1:
            self._row(None if isinstance(rows, int) and rows <= 1 else group, part, band, chunk)
        else:
            span = share(w, group, self.rows, rows)
            loop(w, *ends(w, span), 1, [], lambda row, carried: self._row(row, part, band, chunk))
        w.scopes.pop()

    def _digits(self, program: SSAValue) -> list[SSAValue | None]:
        """The position of a program along each of ``radices``; None where there is only one."""
        w, found = self.writer, list[SSAValue | None]([None] * len(self.radices))
        order = sorted(range(len(self.radices)), key=lambda place: isinstance(self.radices[place], int))  # symbolic ones first
        while order:
            place = order.pop(0)
            if self.radices[place] == 1:
                continue
            below = self._product([self.radices[other] for other in order])
            found[place] = program if below is None else w.add(arith.DivUIOp(program, below))
            program = program if below is None else w.add(arith.RemUIOp(program, below))
        return found

    def _product(self, counts: Sequence[Count]) -> SSAValue | None:
        """The product of ``counts``, computed once per kernel; None where it is 1."""
        w, known = self.writer, math.prod(count for count in counts if isinstance(count, int))
        total = w.index(known) if known != 1 else None
        for count in counts:
            if isinstance(count, Quotient):
                factor = w.shares(count.size, count.length)
                total = factor if total is None else w.times(total, factor)
        return total

    def total(self) -> int | SSAValue:
        """The total number of programs."""
        return self._product([self.count, *self.unknown]) or 1 if self.unknown else self.count

    def _row(self, row: SSAValue | None, part: SSAValue | None, band: SSAValue | None, chunk: SSAValue | None) -> None:
        """Write all work of one row. ``row`` is its number over all ``outer`` loops, None where there is only one."""
        w = self.writer
        w.scopes.append(Scope(w.scopes[-1].block, bounds=w.scopes[-1].bounds))
        for number in reversed(self.outer):
            if row is None or number == self.outer[0]:
                w.scopes[-1].loops[number] = w.index(0) if row is None else row
            else:
                size = w.size(self.plan.sizes[number])
                w.scopes[-1].loops[number] = w.add(arith.RemUIOp(row, size))
                row = w.add(arith.DivUIOp(row, size))
        if self.row_writer is not None and self.lane is None:
            self.row_writer.write(part)
        elif self.lane is None:
            self._lanes(part, [w.scopes[-1]])
        elif self.turned is None:
            self._columns(self.lane, part, chunk, (self.lane,))
        else:
            self._tiles(self.turned, self.lane, band, chunk)
        w.scopes.pop()

    def _tiles(self, turned: Axis, lane: Axis, band: SSAValue | None, chunk: SSAValue | None) -> None:
        """Write blocks of two loops: a band of ``turned``, along ``lane``."""
        axes = (turned, lane)
        self._along(turned, band, self.band, axes, lambda _: self._columns(lane, None, chunk, axes))

    def _columns(self, lane: Axis, part: SSAValue | None, chunk: SSAValue | None, axes: tuple[Axis, ...]) -> None:
        self._along(lane, chunk, self.chunk, axes, lambda vectors: self._lanes(part, vectors))

    def _along(self, axis: Axis, number: SSAValue | None, length: int, axes: tuple[Axis, ...], body: Abreast) -> None:
        """Share ``number``, of ``length`` steps, of a loop in lanes: in one block, or in strips of full ones."""
        w, size = self.writer, self.plan.sizes[axis.loop]

        def inside(vectors: Sequence[Scope]) -> None:
            w.axes = axes
            body(vectors)

        if self.is_block and (number is not None or (isinstance(size, int) and size <= axis.lanes)):
            first = None if number is None else w.add(arith.MuliOp(number, w.index(length)))
            block_at(w, axis, first, size, inside)
        else:
            unroll = self.unroll if axis == self.lane else 1
            side_by_side(w, axis, unroll, share(w, number, length, size), inside)
        w.axes = ()

    # lanes along a row loop

    def _lanes(self, part: SSAValue | None, vectors: Sequence[Scope]) -> None:
        """Write the stages for the lanes of ``vectors``, the first of which is the scope."""
        w, depth = self.writer, self.writer.depth
        if self.row_writer is not None:
            return self.row_writer.write(part)
        for nest in self.plan.nests:
            starts = [self._spread(self.bodies.identity(stage)).ssa for stage in nest.reductions for _ in vectors]
            spans = [(number, span_of(self.plan, self.writer, number, part)) for number in nest.loops]

            def stages(carried: Carried, nest: Nest = nest) -> Carried:
                return abreast(w, vectors, depth, carried, lambda carried: self.bodies.stages(nest, carried))

            def steps(span: Span, carried: Carried, nest: Nest = nest, stages: Step = stages) -> Carried:
                return nested(w, [(nest.loops[-1], span)], carried, stages, SHORT)

            def along(
                carried: Carried, nest: Nest = nest, starts: Carried = starts, spans: Spans = spans, steps: Along = steps
            ) -> Carried:
                count, most = len(vectors), self._most(nest.loops[-1]) if len(vectors) > 1 else None
                return self.bodies.in_blocks(nest, count, spans[-1][1], 1, starts, carried, steps, most)

            totals = nested(w, spans[:-1], starts, along) if spans else stages(starts)
            for number, scope in enumerate(vectors):
                w.scopes[depth] = scope
                for stage, total in zip(nest.reductions, totals[number :: len(vectors)], strict=True):
                    self.bodies.finish(stage, Value(total, depth))
            w.scopes[depth] = vectors[0]

    def _spread(self, value: Value) -> Value:
        return self.writer.block(value) if self.writer.axes else value

    def _most(self, number: int) -> int | None:
        """The largest number of steps of a loop in one program; None where it is unknown."""
        cut, size = self.plan.cut, self.plan.sizes[number]
        return cut.length if cut is not None and cut.loop == number else size if isinstance(size, int) else None
