"""Online reductions: one pass over a row for a reduction and a second one that is centred by its result.

The row is processed in pieces. The first reduction of a piece is complete before the second starts on it; the second total so
far is corrected by a formula for the new centre.
"""

from __future__ import annotations

import math as numbers
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import AnyFloat, FloatAttr, i64
from xdsl.ir import Operation, SSAValue

from fxc.dialects.tile import CastOp, CompareOp, SelectOp
from fxc.passes.kernels.tiling.dynamic import fixed
from fxc.passes.kernels.tiling.loop_nests import Plan
from fxc.passes.kernels.tiling.repeats import Expressions
from fxc.passes.kernels.tiling.stages import Stage
from fxc.passes.kernels.tiling.writer import Writer

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
    piece, from those before, those of the piece, and the centre. ``final`` returns the second total of the row.
    """

    first: Stage
    second: Stage
    centre: SSAValue
    centred: Callable[[Writer, Totals, SSAValue, Piece], SSAValue]
    merged: Callable[[Writer, Totals, Totals, SSAValue, Piece], list[SSAValue]]
    final: Callable[[Writer, Totals], SSAValue]


def pair_of(plan: Plan, number: int) -> Pair | None:
    """The pair of nest ``number`` of ``plan`` and the next one, else None."""
    nests = plan.nests[number : number + 2]
    if len(nests) < 2 or any(len(nest.stages) != 1 or not nest.reductions for nest in nests):
        return None
    [[first], [second]] = [nest.stages for nest in nests]
    same = nests[0].loops == nests[1].loops and len(nests[0].loops) == 1 and isinstance(plan.sizes[nests[0].loops[0]], int)
    if not same or first.result.type != second.result.type or not isinstance(_type(first), AnyFloat):
        return None
    return _exponentials(plan, first, second) or _squares(plan, first, second)


def _type(stage: Stage) -> object:
    return stage.op.body.block.args[-1].type


def _total_in(first: Stage, second: Stage) -> SSAValue | None:
    """The argument of ``second`` that reads the total of ``first``."""
    read = [argument for argument, source, _ in second.reads() if source is first.result]
    return read[0] if len(read) == 1 else None


def _defined(value: SSAValue, cls: type[Operation]) -> Operation | None:
    return value.owner if isinstance(value.owner, cls) else None


def _is_element(plan: Plan, first: Stage, second: Stage, value: SSAValue) -> bool:
    """Whether ``value`` in ``second`` is equal to the element that ``first`` combines."""
    keys = Expressions(plan).keys
    return keys[second, value] == keys[first, first.element]


# the sum of exp(x - maximum)


def _exponentials(plan: Plan, first: Stage, second: Stage) -> Pair | None:
    total, exponential = _total_in(first, second), _defined(second.element, math.ExpOp)
    distance = _defined(exponential.operands[0], arith.SubfOp) if exponential is not None else None
    if distance is None or total is None or distance.operands[1] is not total or not total.has_one_use():
        return None
    combiners = isinstance(first.combiner, arith.MaximumfOp) and isinstance(second.combiner, arith.AddfOp)
    if not combiners or not _is_element(plan, first, second, distance.operands[0]):
        return None
    return Pair(first, second, total, _running_maximum, _rescaled, _where_finite)


def _running_maximum(w: Writer, before: Totals, largest: SSAValue, piece: Piece) -> SSAValue:
    """The maximum so far, or 0 where it is -inf: the exponentials are then 0, not NaN."""
    new = w.add(arith.MaximumfOp(before[0], largest))
    nothing = w.add(CompareOp.of("oeq", new, _number(w, -numbers.inf, new)))
    return w.add(SelectOp.of(nothing, w.zero(new.type), new))


def _rescaled(w: Writer, before: Totals, of_piece: Totals, centre: SSAValue, piece: Piece) -> list[SSAValue]:
    factor = w.add(math.ExpOp(w.add(arith.SubfOp(before[0], centre))))
    total = w.add(arith.AddfOp(w.add(arith.MulfOp(before[1], factor)), of_piece[1]))
    return [w.add(arith.MaximumfOp(before[0], of_piece[0])), total]


def _where_finite(w: Writer, totals: Totals) -> SSAValue:
    """The total, or NaN where the maximum is infinite, because x - maximum is NaN there."""
    return w.add(arith.AddfOp(totals[1], w.add(arith.SubfOp(totals[0], totals[0]))))


# the sum of (x - sum / n) ** 2


def _squares(plan: Plan, first: Stage, second: Stage) -> Pair | None:
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
    return Pair(first, second, mean.results[0], _mean_of_piece, _merged_squares, lambda w, totals: totals[1])


def _count(stage: Stage) -> int:
    return numbers.prod(fixed(size) for loop, size in stage.sizes.items() if loop not in stage.kept)


def _mean_of_piece(w: Writer, before: Totals, total: SSAValue, piece: Piece) -> SSAValue:
    return w.add(arith.DivfOp(total, _number(w, piece.length, total)))


def _merged_squares(w: Writer, before: Totals, of_piece: Totals, mean: SSAValue, piece: Piece) -> list[SSAValue]:
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


def _number(w: Writer, number: float, like: SSAValue) -> SSAValue:
    return w.constant(arith.ConstantOp(FloatAttr(float(number), like.type))).ssa  # type: ignore[arg-type]
