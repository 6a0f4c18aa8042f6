"""Online reductions: one pass over a row for a reduction and a second one that is centred by its result.

The row is processed in pieces. The first reduction of a piece is complete before the second starts on it; the second total so
far is corrected by a formula for the new centre. Where a piece is one element, each lane has totals of its elements, which are
combined once, after the row: no step waits for other warps.
"""

from __future__ import annotations

import math as numbers
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import AnyFloat, FloatAttr, f32, i64
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import Operation, SSAValue

from fxc.dialects.tile import CastOp, CompareOp, MaskOp, ReduceOp, SelectOp
from fxc.dialects.tile.types import element_of, shape_of
from fxc.passes.kernels.tiling.bodies import Bodies
from fxc.passes.kernels.tiling.dynamic import fixed
from fxc.passes.kernels.tiling.loop_nests import LoopPlan, Nest
from fxc.passes.kernels.tiling.loops import Span, strips
from fxc.passes.kernels.tiling.repeats import Expressions
from fxc.passes.kernels.tiling.stages import Stage
from fxc.passes.kernels.tiling.writer import Axis, BlockWriter, Scope, Value

Totals = Sequence[SSAValue]
"""The totals of the first and the second reduction."""


@dataclass(frozen=True)
class Piece:
    """A piece of a row. ``first``: the index of its first element. ``length``: the number of its elements."""

    first: SSAValue
    length: int


@dataclass(frozen=True)
class Pair:
    """Two reductions that can run in one pass.

    ``centre`` is the value in the body of ``second`` that is computed from the result of ``first``. ``centred`` returns it for
    a piece, from the totals before the piece and the first total of the piece. ``merged`` returns the totals including the
    piece, from those before, those of the piece, and the centre. ``final`` returns the second total of the row. ``between``:
    nests between the two that only copy the first total. ``lanes``: the totals of lanes.
    """

    first: Stage
    second: Stage
    centre: SSAValue
    centred: Callable[[BlockWriter, Totals, SSAValue, Piece], SSAValue]
    merged: Callable[[BlockWriter, Totals, Totals, SSAValue, Piece], list[SSAValue]]
    final: Callable[[BlockWriter, Totals], SSAValue]
    lanes: LaneTotals
    between: Sequence[Nest] = ()


@dataclass(frozen=True)
class LaneTotals:
    """Totals of each lane. ``starts``: the numbers before the first element. ``step`` returns those with one more.

    ``step`` takes the element, the number of those before it, and where the totals are ``shifted``, the first element of the
    row. ``joined`` takes the number of elements of each lane and of all, and returns the totals of the row.
    """

    starts: Callable[[SSAValue], list[float]]
    step: Callable[[BlockWriter, Totals, SSAValue, Callable[[], SSAValue], SSAValue | None], list[SSAValue]]
    joined: Callable[[BlockWriter, Totals, Callable[[], SSAValue], int], list[SSAValue]]
    shifted: bool = False


def pair_of(plan: LoopPlan, number: int) -> Pair | None:
    """The pair of nest ``number`` of ``plan`` and the next one, else None."""
    start, *rest = plan.nests[number:]
    if len(start.stages) != 1 or not start.reductions:
        return None
    [first] = start.stages
    between = list(takewhile(lambda nest: not nest.loops and all(copies(stage, first) for stage in nest.stages), rest))
    end = rest[len(between)] if len(between) < len(rest) else None
    if end is None or len(end.stages) != 1 or not end.reductions:
        return None
    [second] = end.stages
    same = start.loops == end.loops and len(start.loops) == 1 and isinstance(plan.sizes[start.loops[0]], int)
    if not same or first.result.type != second.result.type or not isinstance(_type(first), AnyFloat):
        return None
    pair = exponentials(plan, first, second) or _squares(plan, first, second)
    return None if pair is None else replace(pair, between=between)


def lane_totals(bodies: Bodies, pair: Pair, axis: Axis, size: int) -> list[SSAValue]:
    """The totals of ``pair`` over a row of ``size`` elements, with separate ones for each lane until its end."""
    w = bodies.writer
    shift = _shift(bodies, pair, axis) if pair.lanes.shifted else None
    w.axes = (axis,)
    like = w.block(bodies.identity(pair.first)).ssa

    def step(carried: list[SSAValue]) -> list[SSAValue]:
        x, place = bodies.counted(pair.first, bodies.element(pair.first)).ssa, w.scopes[-1].loops[axis.loop]

        def before() -> SSAValue:
            done = w.add(arith.IndexCastOp(w.add(arith.DivUIOp(place, w.index(axis.lanes))), i64))
            return w.add(CastOp.of("sitofp", done, element_of(like.type)))

        new, mask = pair.lanes.step(w, carried, x, before, shift), w.mask(w.depth, w.axes)
        return new if mask is None else [w.add(SelectOp.of(mask, a, b)) for a, b in zip(new, carried, strict=True)]

    starts = [_number(w, start, like) for start in pair.lanes.starts(like)]
    totals = strips(w, axis, 1, Span(None, size), starts, step)

    def counts() -> SSAValue:
        fewest, rest = _number(w, size // axis.lanes, like), size % axis.lanes
        mask = w.add(MaskOp.of(w.index(0), w.index(rest), [axis.lanes])) if rest else None
        return fewest if mask is None else w.add(SelectOp.of(mask, _number(w, size // axis.lanes + 1, like), fewest))

    totals = pair.lanes.joined(w, totals, counts, size)
    w.axes = ()
    return totals


def _shift(bodies: Bodies, pair: Pair, axis: Axis) -> SSAValue:
    """The first element of the row, or 0 where it is large or NaN. Numbers near it are subtracted without rounding."""
    w = bodies.writer
    w.scopes.append(Scope(w.scopes[-1].block, {axis.loop: w.index(0)}, bounds=w.scopes[-1].bounds))
    first = bodies.element(pair.first).ssa
    w.scopes.pop()
    some = w.add(CompareOp.of("olt", w.add(math.AbsFOp(first)), _number(w, 2.0**60, first)))
    return w.add(SelectOp.of(some, first, _number(w, 0.0, first)))


def copies(stage: Stage, first: Stage) -> bool:
    """Whether the result of ``stage`` is that of ``first``, in another shape."""
    return [(source, argument) for argument, source, _ in stage.reads()] == [(first.result, stage.element)]


def _type(stage: Stage) -> object:
    return stage.op.body.block.args[-1].type


def _total_in(first: Stage, second: Stage) -> SSAValue | None:
    """The argument of ``second`` that reads the total of ``first``."""
    users = [use.operation for use in first.result.uses]
    others = [Stage(op, 0) for op in users if isinstance(op, linalg.GenericOp) and op is not second.op]
    same = {first.result, *(other.result for other in others if not other.is_reduction and copies(other, first))}
    read = [argument for argument, source, _ in second.reads() if source in same]
    return read[0] if len(read) == 1 else None


def _defined(value: SSAValue, cls: type[Operation]) -> Operation | None:
    return value.owner if isinstance(value.owner, cls) else None


def _is_element(plan: LoopPlan, first: Stage, second: Stage, value: SSAValue) -> bool:
    """Whether ``value`` in ``second`` is equal to the element that ``first`` combines."""
    keys = Expressions(plan).keys
    return keys[second, value] == keys[first, first.element]


# the sum of exp(x - maximum)


def exponentials(plan: LoopPlan, first: Stage, second: Stage) -> Pair | None:
    total, exponential = _total_in(first, second), _defined(second.element, math.ExpOp)
    distance = _defined(exponential.operands[0], arith.SubfOp) if exponential is not None else None
    if distance is None or total is None or distance.operands[1] is not total or not total.has_one_use():
        return None
    combiners = isinstance(first.combiner, arith.MaximumfOp) and isinstance(second.combiner, arith.AddfOp)
    if not combiners or not _is_element(plan, first, second, distance.operands[0]):
        return None
    return Pair(first, second, total, _running_maximum, _rescaled, _where_finite, _EXPONENTIALS)


def _running_maximum(w: BlockWriter, before: Totals, largest: SSAValue, piece: Piece) -> SSAValue:
    """The maximum so far, or 0 where it is -inf: the exponentials are then 0, not NaN."""
    new = w.add(arith.MaximumfOp(before[0], largest))
    nothing = w.add(CompareOp.of("oeq", new, _number(w, -numbers.inf, new)))
    return w.add(SelectOp.of(nothing, w.zero(new.type), new))


def _rescaled(w: BlockWriter, before: Totals, of_piece: Totals, centre: SSAValue, piece: Piece) -> list[SSAValue]:
    factor = w.add(math.ExpOp(w.add(arith.SubfOp(before[0], centre))))
    total = w.add(arith.AddfOp(w.add(arith.MulfOp(before[1], factor)), of_piece[1]))
    return [w.add(arith.MaximumfOp(before[0], of_piece[0])), total]


def _where_finite(w: BlockWriter, totals: Totals) -> SSAValue:
    """The total, or NaN where the maximum is infinite, because x - maximum is NaN there."""
    return w.add(arith.AddfOp(totals[1], w.add(arith.SubfOp(totals[0], totals[0]))))


def _lowest(x: SSAValue) -> list[float]:
    """A maximum below all finite numbers, so that no step subtracts infinities, and no exponentials."""
    return [-(numbers.ldexp(1 - 2.0**-24, 128) if element_of(x.type) == f32 else sys.float_info.max), 0.0]


def _exponential(
    w: BlockWriter, totals: Totals, x: SSAValue, before: Callable[[], SSAValue], shift: SSAValue | None
) -> list[SSAValue]:
    """One exponential a step: of the old total where ``x`` is larger than the maximum so far, else of ``x``."""
    distance = w.add(arith.SubfOp(x, totals[0]))
    factor = w.add(math.ExpOp(w.add(arith.NegfOp(w.add(math.AbsFOp(distance))))))
    larger = w.add(CompareOp.of("ogt", x, totals[0]))
    one = _number(w, 1.0, x)
    rescaled = w.add(arith.AddfOp(w.add(arith.MulfOp(totals[1], factor)), one))
    total = w.add(SelectOp.of(larger, rescaled, w.add(arith.AddfOp(totals[1], factor))))
    return [w.add(arith.MaximumfOp(totals[0], x)), total]


def _joined_exponentials(w: BlockWriter, totals: Totals, counts: Callable[[], SSAValue], count: int) -> list[SSAValue]:
    """The totals of all lanes. The maximum is -inf where no exponential counts."""
    largest = w.add(ReduceOp.of("max", totals[0], [0]))
    factor = w.add(math.ExpOp(w.add(arith.SubfOp(totals[0], _block(w, largest)))))
    total = w.add(ReduceOp.of("add", w.add(arith.MulfOp(totals[1], factor)), [0]))
    nothing = w.add(CompareOp.of("oeq", total, _number(w, 0.0, total)))
    return [w.add(SelectOp.of(nothing, _number(w, -numbers.inf, total), largest)), total]


_EXPONENTIALS = LaneTotals(_lowest, _exponential, _joined_exponentials)


# the sum of (x - sum / n) ** 2


def _squares(plan: LoopPlan, first: Stage, second: Stage) -> Pair | None:
    total, square = _total_in(first, second), _defined(second.element, arith.MulfOp)
    if square is None or total is None or square.operands[0] is not square.operands[1] or not total.has_one_use():
        return None
    distance = _defined(square.operands[0], arith.SubfOp)
    mean = _defined(distance.operands[1], arith.DivfOp) if distance is not None else None
    if distance is None or mean is None or mean.operands[0] is not total or not mean.results[0].has_one_use():
        return None
    count = _defined(mean.operands[1], arith.ConstantOp)
    size = plan.sizes[plan.nests[0].loops[0]] if plan.nests[0].loops else 0
    whole = count is not None and isinstance(count.value, FloatAttr) and count.value.value.data == _count(first)  # type: ignore[attr-defined]
    sums = all(isinstance(stage.combiner, arith.AddfOp) for stage in (first, second))
    if not size or not whole or not sums or not _is_element(plan, first, second, distance.operands[0]):
        return None
    return Pair(first, second, mean.results[0], _mean_of_piece, _merged_squares, lambda w, totals: totals[1], _SQUARES)


def _count(stage: Stage) -> int:
    return numbers.prod(fixed(size) for loop, size in stage.sizes.items() if loop not in stage.kept)


def _mean_of_piece(w: BlockWriter, before: Totals, total: SSAValue, piece: Piece) -> SSAValue:
    return w.add(arith.DivfOp(total, _number(w, piece.length, total)))


def _merged_squares(w: BlockWriter, before: Totals, of_piece: Totals, mean: SSAValue, piece: Piece) -> list[SSAValue]:
    """The merged totals: the squares of both, plus the squared distance of the means times n * m / (n + m)."""
    here = _number(w, piece.length, mean)
    there = w.add(CastOp.of("sitofp", w.add(arith.IndexCastOp(piece.first, i64)), mean.type))
    some = w.add(arith.MaximumfOp(there, _number(w, 1.0, mean)))
    distance = w.add(arith.SubfOp(mean, w.add(arith.DivfOp(before[0], some))))
    share = w.add(arith.DivfOp(there, w.add(arith.AddfOp(there, here))))
    weight = w.add(arith.MulfOp(share, here))
    between = w.add(arith.MulfOp(w.add(arith.MulfOp(distance, distance)), weight))
    squares = w.add(arith.AddfOp(w.add(arith.AddfOp(before[1], of_piece[1])), between))
    return [w.add(arith.AddfOp(before[0], of_piece[0])), squares]


def _square(
    w: BlockWriter, totals: Totals, x: SSAValue, before: Callable[[], SSAValue], shift: SSAValue | None
) -> list[SSAValue]:
    """The sum, that of the shifted elements, and their squares: the distance from the mean of n counts n / (n + 1)."""
    assert shift is not None
    count = before()
    one = _number(w, 1.0, count)
    some = w.add(arith.DivfOp(one, w.add(arith.MaximumfOp(count, one))))
    share = w.add(arith.DivfOp(count, w.add(arith.AddfOp(count, one))))
    shifted = w.add(arith.SubfOp(x, _block(w, shift)))
    distance = w.add(arith.SubfOp(shifted, w.add(arith.MulfOp(totals[1], _block(w, some)))))
    square = w.add(arith.MulfOp(w.add(arith.MulfOp(distance, distance)), _block(w, share)))
    added = zip(totals, (x, shifted, square), strict=True)
    return [w.add(arith.AddfOp(total, more)) for total, more in added]


def _joined_squares(w: BlockWriter, totals: Totals, counts: Callable[[], SSAValue], count: int) -> list[SSAValue]:
    total, shifted = (w.add(ReduceOp.of("add", each, [0])) for each in totals[:2])
    mean = w.add(arith.DivfOp(shifted, _number(w, count, shifted)))
    own = counts()
    distance = w.add(arith.DivfOp(totals[1], w.add(arith.MaximumfOp(own, _number(w, 1.0, own)))))
    distance = w.add(arith.SubfOp(distance, _block(w, mean)))
    between = w.add(arith.MulfOp(w.add(arith.MulfOp(distance, distance)), own))
    return [total, w.add(ReduceOp.of("add", w.add(arith.AddfOp(totals[2], between)), [0]))]


_SQUARES = LaneTotals(lambda x: [0.0, 0.0, 0.0], _square, _joined_squares, shifted=True)


def _block(w: BlockWriter, number: SSAValue) -> SSAValue:
    return w.block(Value(number, w.depth)).ssa


def _number(w: BlockWriter, number: float, like: SSAValue) -> SSAValue:
    """A constant of the type of ``like``."""
    if shape_of(like.type):
        return w.block(w.constant(arith.ConstantOp(FloatAttr(float(number), element_of(like.type))))).ssa  # type: ignore[arg-type]
    return w.constant(arith.ConstantOp(FloatAttr(float(number), like.type))).ssa  # type: ignore[arg-type]
