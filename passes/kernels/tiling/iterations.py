"""Loops of as many steps as elements say, in blocks: while a lane of the block goes on."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.dialects import arith
from xdsl.ir import Block, Operation, SSAValue

from fxc.dialects.tile import IterateOp, NextOp
from fxc.dialects.tile.iteration import structure
from fxc.passes.kernels.tiling.writer import Scope, Value, Writer

Values = Mapping[SSAValue, Value]


def write(w: Writer, op: Operation, values: Values) -> list[Value]:
    """The results of an op of a body on scalars: one op in every lane, or a loop while any lane goes on."""
    if isinstance(op, arith.ConstantOp):
        return [w.constant(op)]
    if isinstance(op, IterateOp):
        return _iterate(w, op, values)
    return [w.apply(op, [values[operand] for operand in op.operands])]


def _iterate(w: Writer, op: IterateOp, values: Values) -> list[Value]:
    """``op`` in the outermost scope in which all that it takes is known."""
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
    return [w.keep((*key, place), Value(result, depth)) for place, result in enumerate(new.results)]


def _written(w: Writer, op: IterateOp, values: Values, *, lanes: bool) -> IterateOp:
    """The loop in the innermost scope. Lanes that do not count do not go on."""
    going, *carried = [w.block(values[operand]) if lanes else values[operand] for operand in op.operands]
    if lanes and (mask := w.mask(w.depth, w.axes)) is not None:
        going = Value(w.add(arith.AndIOp(going.ssa, mask)), w.depth)
    body = Block(arg_types=[value.ssa.type for value in carried])
    w.scopes.append(Scope(body, bounds=w.scopes[-1].bounds))
    inside = dict(values)
    for argument, made in zip(op.body.block.args, body.args, strict=True):
        made.name_hint = argument.name_hint
        inside[argument] = Value(made, w.depth)
    last = op.body.block.last_op
    assert isinstance(last, NextOp)
    for each in op.body.block.ops:
        if each is not last:
            inside.update(zip(each.results, write(w, each, inside), strict=True))
    more, *new = [w.block(inside[value]) if lanes else inside[value] for value in last.operands]
    w.add(NextOp.of(more.ssa, [value.ssa for value in new]))
    w.scopes.pop()
    made = IterateOp.of(going.ssa, [value.ssa for value in carried], body)
    w.add(made)
    return made
