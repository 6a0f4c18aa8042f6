"""Stages in the lanes of a scope: evaluation of their bodies, reductions, and stores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from xdsl.dialects import arith, cf
from xdsl.ir import Block, Operation, SSAValue

from fxc.dialects.tile import IterateOp, NextOp, ReduceOp, SelectOp
from fxc.dialects.tile.control import structure
from fxc.passes.analysis.index.forms import Form
from fxc.passes.kernels.tiling import gathers
from fxc.passes.kernels.tiling.loop_nests import LoopPlan, Nest
from fxc.passes.kernels.tiling.loops import Along, Carried, Span, in_blocks
from fxc.passes.kernels.tiling.stages import KINDS, Stage
from fxc.passes.kernels.tiling.writer import BlockWriter, Scope, Value


class Bodies:
    """Writes stages of ``plan``.

    ``pointers``: tensor -> the kernel's argument for it; results without one are not stored. ``reduces_lanes``: lanes run along
    the reduced loop, so inactive lanes must not change a total.
    """

    def __init__(
        self, plan: LoopPlan, writer: BlockWriter, pointers: Mapping[SSAValue, SSAValue], *, reduces_lanes: bool
    ) -> None:
        self.plan, self.writer, self.pointers, self.reduces_lanes = plan, writer, pointers, reduces_lanes
        self.made = {stage.result: stage for stage in plan.stages}
        self.kept_in = dict[tuple[Stage, SSAValue], Stage]()
        """A value in the body of a stage -> the stage in whose memory an earlier pass saved it."""
        self.keeps = dict[tuple[Stage, SSAValue], Stage]()
        """A value in the body of a stage -> the stage in whose memory this pass saves it."""

    def stages(self, nest: Nest, totals: Carried) -> Carried:
        """Write the stages of ``nest`` for the lanes of the scope. Takes and returns the totals of its reductions."""
        w, result = self.writer, list(totals)
        for stage in nest.stages:
            if stage.combiner is None:
                self.store(stage, w.save(("result", stage), Value(self.element(stage).ssa, w.depth)))
                continue
            place = nest.reductions.index(stage)
            total = Value(totals[place], w.depth)
            value = self.counted(stage, self.element(stage)) if total.is_block else self.element(stage)
            result[place] = w.apply(stage.combiner, [total, value]).ssa
        return result

    def counted(self, stage: Stage, value: Value) -> Value:
        """``value`` in active lanes, and the neutral element of the reduction in others."""
        w, value = self.writer, self.writer.block(value)
        mask = w.mask(w.depth, w.axes) if self.reduces_lanes else None
        if mask is None:
            return value
        return Value(w.add(SelectOp.of(mask, value.ssa, w.block(self.identity(stage)).ssa)), w.depth)

    def element(self, stage: Stage, given: Mapping[SSAValue, Value] | None = None, wanted: SSAValue | None = None) -> Value:
        """The value that the body of ``stage`` stores or combines, or ``wanted``. ``given`` are known values of the body."""
        last = stage.element if wanted is None else wanted
        w, values = self.writer, dict(given or {})
        for value in stage.op.body.block.args[:-1]:
            self._load_saved(stage, value, values)
        needed = self._needed(stage, last, values)
        for argument, source, _ in stage.reads():
            if argument in needed and argument not in values:
                values[argument] = self._read(stage, argument, source)
                self._save(stage, argument, values)
        for op in stage.op.body.block.ops:
            if isinstance(op, cf.AssertOp) and op.arg in values:
                gathers.check(w, values[op.arg], op.msg.data)
            results = [result for result in op.results if result in needed and result not in values]
            if not results:
                continue
            if isinstance(op, gathers.FORMED):
                values[op.results[0]] = gathers.write(w, op, self.pointers, self.plan.forms[stage, op], values)
            elif isinstance(op, arith.IndexCastOp):
                size = stage.numbers.get(op.input)
                values[op.result] = values[op.input] if size is None else w.number(Form(size))
            else:
                values.update(zip(op.results, write_op(w, op, values), strict=True))
            for result in results:
                self._save(stage, result, values)
        return values[last]

    def _needed(self, stage: Stage, last: SSAValue, values: dict[SSAValue, Value]) -> set[SSAValue]:
        """The values of the body on which ``last`` depends, except through known values."""
        needed, pending = set[SSAValue](), [last]
        while pending:
            value = pending.pop()
            if value in needed or value in values or self._load_saved(stage, value, values):
                continue
            needed.add(value)
            if isinstance(value.owner, Operation) and value not in stage.numbers:
                pending += gathers.operands_of(value.owner)
        return needed

    def _load_saved(self, stage: Stage, value: SSAValue, values: dict[SSAValue, Value]) -> bool:
        """Load ``value`` where an earlier pass saved it. Returns whether one did."""
        holder = self.kept_in.get((stage, value))
        if holder is not None and value not in values:
            values[value] = self.writer.load(self.pointers[holder.result], self.plan.forms[holder, None])
        return holder is not None

    def _save(self, stage: Stage, value: SSAValue, values: Mapping[SSAValue, Value]) -> None:
        """Save ``value`` for later passes, where they need it."""
        if (holder := self.keeps.get((stage, value))) is not None:
            self.store(holder, values[value])

    def _read(self, stage: Stage, argument: SSAValue, source: SSAValue) -> Value:
        """An element of a tensor: the value computed in this scope if it is the same element, else a load."""
        form, made = self.plan.forms[stage, argument], self.made.get(source)
        found = self.writer.find(("result", made)) if made is not None else None
        in_lanes = found is not None and found.is_block and source in self.pointers
        if made is not None and found is not None and not (in_lanes and self.plan.forms[made, None] != form):
            return found
        return self.writer.load(self.pointers[source], form)

    def identity(self, stage: Stage) -> Value:
        start = stage.start()
        assert start is not None
        return self.writer.constant(start)

    def joined(self, stage: Stage, totals: Sequence[SSAValue]) -> Value:
        """The accumulators of a reduction combined to one number."""
        w, combiner = self.writer, _combiner(stage)
        values: list[Value] = [Value(total, w.depth) for total in totals]
        while len(values) > 1:
            pairs = [values[i : i + 2] for i in range(0, len(values), 2)]
            values = [w.apply(combiner, pair) if len(pair) == 2 else pair[0] for pair in pairs]
        return Value(w.add(ReduceOp.of(KINDS[combiner.name], values[0].ssa, [0])), w.depth)

    def in_blocks(
        self,
        nest: Nest,
        parts: int,
        span: Span,
        step: int,
        starts: Carried,
        carried: Carried,
        body: Along,
        most: int | None = None,
    ) -> Carried:
        """Run ``body`` on ``span``: ``step`` steps at once, ``parts`` totals a stage, in blocks where floats are added."""
        if not any(isinstance(stage.combiner, arith.AddfOp) for stage in nest.reductions):
            return body(span, carried)
        return in_blocks(self.writer, span, step, starts, carried, partial(self._merged, nest, parts), body, most)

    def _merged(self, nest: Nest, parts: int, totals: Carried, more: Carried) -> Carried:
        """Combine two sets of totals of the reductions of ``nest``."""
        w, stages = self.writer, [stage for stage in nest.reductions for _ in range(parts)]
        pairs = [[Value(first, w.depth), Value(second, w.depth)] for first, second in zip(totals, more, strict=True)]
        return [w.apply(_combiner(stage), pair).ssa for stage, pair in zip(stages, pairs, strict=True)]

    def finish(self, stage: Stage, total: Value) -> None:
        """Record and store ``total``, the result of ``stage`` for this row, or for each lane."""
        self.writer.save(("result", stage), total)
        total.ssa.name_hint = total.ssa.name_hint or stage.result.name_hint
        self.store(stage, total)

    def store(self, stage: Stage, value: Value) -> None:
        if stage.result not in self.pointers:
            return
        if stage.sink is not None:
            updates = self.writer.find(("result", self.made[stage.sink.updates]))
            assert updates is not None
            self.writer.accumulate(stage.sink.kind.data, updates, value, self.pointers[stage.result])
        else:
            self.writer.store(value, self.pointers[stage.result], self.plan.forms[stage, None])


def _combiner(stage: Stage) -> Operation:
    assert stage.combiner is not None
    return stage.combiner


# loops with a data-dependent number of steps: a block iterates while any of its lanes does


Values = Mapping[SSAValue, Value]


def write_op(w: BlockWriter, op: Operation, values: Values) -> list[Value]:
    """The results of a scalar op of a body: one op for all lanes, or a loop that runs while any lane iterates."""
    if isinstance(op, arith.ConstantOp):
        return [w.constant(op)]
    if isinstance(op, IterateOp):
        return _iterate(w, op, values)
    return [w.apply(op, [values[operand] for operand in op.operands])]


def _iterate(w: BlockWriter, op: IterateOp, values: Values) -> list[Value]:
    """``op`` in the outermost scope in which its operands are defined."""
    captured = op.captured()
    key = ("iterate", structure(op, [values[value].ssa for value in (*op.operands, *captured)]))
    found = [w.find((*key, place)) for place in range(len(op.results))]
    known = [value for value in found if value is not None]
    if len(known) == len(found):
        return known
    taken = [values[value] for value in (*op.operands, *captured)]
    depth, scopes = max(value.depth for value in taken), w.scopes
    w.scopes = scopes[: depth + 1]
    new = _written(w, op, values, lanes=any(value.is_block for value in taken))
    w.scopes = scopes
    for result, made in zip(op.results, new.results, strict=True):
        made.name_hint = result.name_hint
    return [w.save((*key, place), Value(result, depth)) for place, result in enumerate(new.results)]


def _written(w: BlockWriter, op: IterateOp, values: Values, *, lanes: bool) -> IterateOp:
    """The loop in the innermost scope. Inactive lanes do not iterate."""
    going, *carried = [w.block(values[operand]) if lanes else values[operand] for operand in op.operands]
    if lanes and (mask := w.mask(w.depth, w.axes)) is not None:
        going = Value(w.add(arith.AndIOp(going.ssa, mask)), w.depth)
    body = Block(arg_types=[value.ssa.type for value in carried])
    w.scopes.append(Scope(body, bounds=w.scopes[-1].bounds, may_be_skipped=True))
    inside = dict(values)
    for argument, made in zip(op.body.block.args, body.args, strict=True):
        made.name_hint = argument.name_hint
        inside[argument] = Value(made, w.depth)
    last = op.body.block.last_op
    assert isinstance(last, NextOp)
    for each in op.body.block.ops:
        if each is not last:
            inside.update(zip(each.results, write_op(w, each, inside), strict=True))
    more, *new = [w.block(inside[value]) if lanes else inside[value] for value in last.operands]
    w.add(NextOp.of(more.ssa, [value.ssa for value in new]))
    w.scopes.pop()
    made = IterateOp.of(going.ssa, [value.ssa for value in carried], body)
    w.add(made)
    return made
