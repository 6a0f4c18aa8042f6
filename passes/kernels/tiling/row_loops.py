"""The rows of an inner kernel: lanes run along the reduced loop, with one pass over the row for each nest."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TypeAlias

from xdsl.ir import SSAValue
from xdsl.utils.exceptions import VerifyException

from fxc.dialects.tile import ScheduleAttr
from fxc.passes.kernels.tiling.bodies import Bodies
from fxc.passes.kernels.tiling.dynamic import fixed
from fxc.passes.kernels.tiling.loop_nests import LoopPlan, Nest
from fxc.passes.kernels.tiling.loops import Carried, Span, loop, nested, share, strips
from fxc.passes.kernels.tiling.online import Pair, Piece, lane_totals, pair_of
from fxc.passes.kernels.tiling.repeats import repeated
from fxc.passes.kernels.tiling.stages import Stage
from fxc.passes.kernels.tiling.writer import Axis, BlockWriter, Scope, Value

Given: TypeAlias = Mapping[SSAValue, Value]
"""Known values of a body."""


class RowWriter:
    """Writes the row of the scope in the form of ``schedule``; where reductions are split, only part number ``part`` of it.

    In an outer kernel with ``tile``, each lane of the scope has a row: the first dimension of blocks is the reduced loop.
    """

    def __init__(self, bodies: Bodies, schedule: ScheduleAttr) -> None:
        self.bodies, self.plan, self.writer = bodies, bodies.plan, bodies.writer
        along = schedule.lanes if schedule.kind.data == "inner" else schedule.tile
        self.lanes, self.unroll = along.value.data, schedule.unroll.value.data
        self.form, self.piece = schedule.form.data, schedule.piece.value.data

    def write(self, part: SSAValue | None) -> None:
        FORMS[self.form](self, part)

    def looped(self, part: SSAValue | None) -> None:
        for nest in self.plan.nests:
            self._pass(nest, part)

    def stored(self, part: SSAValue | None) -> None:
        """Like ``looped``, but saves repeated expensive values in the memory of a result that is written later."""
        self.bodies.keeps, self.bodies.kept_in = repeated(self.plan, self.bodies.pointers)
        self.looped(part)

    def held(self, part: SSAValue | None) -> None:
        """Hold the whole row in one vector: all nests are in its scope."""
        w, lane = self.writer, self.plan.row_loop()
        size = self.plan.sizes[lane] if lane is not None else 0
        if lane is None or not isinstance(size, int) or size > self.lanes:
            raise VerifyException("#tile.schedule: a row is held only where all passes have the same loop, and a vector has it")
        axis, place = Axis(lane, self.lanes), w.index(0)
        scope = Scope(w.scopes[-1].block, {lane: place})
        if size < self.lanes:
            scope.bounds = {lane: (place, w.index(size))}
        w.scopes.append(scope)
        for nest in self.plan.nests:
            w.axes = (axis,) if nest.loops else ()
            for stage in nest.stages:
                self._held(nest, stage)
        w.axes = ()
        w.scopes.pop()

    def _held(self, nest: Nest, stage: Stage) -> None:
        w, bodies = self.writer, self.bodies
        value = bodies.element(stage)
        if stage.combiner is None:
            bodies.store(stage, w.save(("result", stage), Value(value.ssa, w.depth)))
            return
        if nest.loops:
            value = bodies.joined(stage, [bodies.counted(stage, value).ssa])
            value.ssa.name_hint = stage.result.name_hint
        axes, w.axes = w.axes, ()
        bodies.finish(stage, w.apply(stage.combiner, [bodies.identity(stage), value]))
        w.axes = axes

    def online(self, part: SSAValue | None) -> None:
        """Compute pairs of passes in one, piece by piece; other passes are as in ``looped``."""
        number = 0
        while number < len(self.plan.nests):
            pair = pair_of(self.plan, number)
            if pair is None:
                self._pass(self.plan.nests[number], part)
                number += 1
                continue
            (self._in_lanes if self.piece == 1 else self._pair)(pair, self.plan.nests[number].loops[0])
            for nest in pair.between:
                self._pass(nest, part)
            number += 2 + len(pair.between)

    def _in_lanes(self, pair: Pair, lane: int) -> None:
        """Totals of each lane, which are combined after the row."""
        w, bodies = self.writer, self.bodies
        totals = lane_totals(bodies, pair, Axis(lane, self.lanes), fixed(self.plan.sizes[lane]))
        bodies.finish(pair.first, Value(totals[0], w.depth))
        bodies.finish(pair.second, Value(pair.final(w, totals), w.depth))

    def _pair(self, pair: Pair, lane: int) -> None:
        w, bodies = self.writer, self.bodies
        size, length = fixed(self.plan.sizes[lane]), self.piece
        totals = [bodies.identity(stage).ssa for stage in (pair.first, pair.second)]
        whole = size // length * length
        if whole:

            def body(first: SSAValue, carried: Carried) -> Carried:
                return self._piece(pair, lane, Piece(first, length), carried)

            totals = loop(w, w.index(0), w.index(whole), length, totals, body)
        if whole < size:
            totals = self._piece(pair, lane, Piece(w.index(whole), size - whole), totals)
        bodies.finish(pair.first, Value(totals[0], w.depth))
        bodies.finish(pair.second, Value(pair.final(w, totals), w.depth))

    def _piece(self, pair: Pair, lane: int, piece: Piece, before: Carried) -> Carried:
        """The totals including ``piece``. If one vector holds the piece, both passes are in its scope."""
        w, axis = self.writer, Axis(lane, self.lanes)
        scope = Scope(w.scopes[-1].block, bounds=w.scopes[-1].bounds)
        one = piece.length <= self.lanes
        if one:
            scope.loops[lane] = piece.first
            if piece.length < self.lanes:
                scope.bounds = {**scope.bounds, lane: (w.index(0), w.index(piece.length))}
        w.scopes.append(scope)
        total = self._over if one else self._along
        first = total(pair.first, axis, piece, {})
        centre = pair.centred(w, before, first, piece)
        second = total(pair.second, axis, piece, {pair.centre: Value(centre, w.depth)})
        merged = pair.merged(w, before, [first, second], centre, piece)
        w.scopes.pop()
        return merged

    def _over(self, stage: Stage, axis: Axis, piece: Piece, given: Given) -> SSAValue:
        """The total of ``stage`` over a piece that one vector holds."""
        w, bodies = self.writer, self.bodies
        w.axes = (axis,)
        total = bodies.joined(stage, [bodies.counted(stage, bodies.element(stage, given)).ssa])
        w.axes = ()
        return total.ssa

    def _along(self, stage: Stage, axis: Axis, piece: Piece, given: Given) -> SSAValue:
        """The total of ``stage`` over a piece, in strips."""
        w, bodies, combiner = self.writer, self.bodies, stage.combiner
        assert combiner is not None

        def step(carried: Carried) -> Carried:
            value = bodies.counted(stage, bodies.element(stage, given))
            return [w.apply(combiner, [Value(carried[0], w.depth), value]).ssa]

        w.axes = (axis,)
        starts = [w.block(bodies.identity(stage)).ssa] * self.unroll
        total = bodies.joined(stage, strips(w, axis, self.unroll, Span(piece.first, piece.length), starts, step))
        w.axes = ()
        return total.ssa

    def _pass(self, nest: Nest, part: SSAValue | None) -> None:
        """One pass over the row."""
        w, bodies, axes = self.writer, self.bodies, self.writer.axes
        if not nest.loops:
            totals = bodies.stages(nest, [bodies.identity(stage).ssa for stage in nest.reductions])
            values = [Value(total, w.depth) for total in totals]
        else:
            axis = Axis(nest.loops[-1], self.lanes)
            w.axes = (axis, *axes)
            starts = [w.block(bodies.identity(stage)).ssa for stage in nest.reductions for _ in range(self.unroll)]
            spans = [(number, span_of(self.plan, w, number, part)) for number in nest.loops]

            def strip(span: Span, carried: Carried) -> Carried:
                return strips(w, axis, self.unroll, span, carried, lambda carried: bodies.stages(nest, carried))

            def along(carried: Carried) -> Carried:
                wide = self.lanes * self.unroll
                return bodies.in_blocks(nest, self.unroll, spans[-1][1], wide, starts, carried, strip)

            def outer(span: Span, carried: Carried) -> Carried:
                return nested(w, [(spans[0][0], span), *spans[1:-1]], carried, along)

            if len(spans) == 1:
                totals = along(starts)
            else:
                totals = bodies.in_blocks(nest, self.unroll, spans[0][1], 1, starts, starts, outer)
            groups = [totals[i * self.unroll :][: self.unroll] for i in range(len(nest.reductions))]
            values = [bodies.joined(stage, group) for stage, group in zip(nest.reductions, groups, strict=True)]
        w.axes = axes
        for stage, value in zip(nest.reductions, values, strict=True):
            bodies.finish(stage, value)


def span_of(plan: LoopPlan, writer: BlockWriter, number: int, part: SSAValue | None) -> Span:
    """All steps of loop ``number``, or those of ``part``."""
    if plan.cut is None or plan.cut.loop != number:
        return share(writer, None, 0, plan.sizes[number])
    return share(writer, part, plan.cut.length, plan.sizes[number])


FORMS: Mapping[str, Callable[[RowWriter, SSAValue | None], None]] = MappingProxyType(
    {"looped": RowWriter.looped, "held": RowWriter.held, "stored": RowWriter.stored, "online": RowWriter.online}
)
"""Form of a schedule -> the method that writes a row in this form."""
