"""Loops of a kernel: nested loops, and strips of a loop that lanes run along."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IndexType
from xdsl.ir import Block, SSAValue

from fxc.dialects.attributes.size_polynomials import Steps
from fxc.passes.kernels.tiling.writer import Axis, BlockWriter, Scope

Carried: TypeAlias = list[SSAValue]
Step: TypeAlias = Callable[[Carried], Carried]
"""One step of a loop: carried values -> their new values."""

MANY, UNKNOWN = 128, 1 << 16
"""Steps from which a loop that adds floats is split into blocks, and the elements to expect where their number is unknown."""


@dataclass(frozen=True)
class Span:
    """``length`` steps of a loop from ``first``; from 0 where that is None."""

    first: SSAValue | None
    length: int | SSAValue


Along: TypeAlias = Callable[[Span, Carried], Carried]
"""Several steps of a loop, given as a span."""

Join: TypeAlias = Callable[[Carried, Carried], Carried]
"""Combines two sets of totals."""

Abreast: TypeAlias = Callable[[Sequence[Scope]], None]
"""Writes code for several vectors at once, each of which has a scope."""


def loop(
    w: BlockWriter,
    start: SSAValue,
    stop: SSAValue,
    step: int,
    carried: Carried,
    body: Callable[[SSAValue, Carried], Carried | None],
) -> Carried:
    """A loop with a new scope."""
    block = Block(arg_types=[IndexType(), *(value.type for value in carried)])
    is_known = all(isinstance(end.owner, arith.ConstantOp) for end in (start, stop))
    w.scopes.append(Scope(block, bounds=w.scopes[-1].bounds, may_be_skipped=not is_known))
    last = body(block.args[0], list(block.args[1:])) or []
    w.add(scf.YieldOp(*last))
    w.scopes.pop()
    op = scf.ForOp(start, stop, w.index(step), carried, block)
    w.add(op)
    return list(op.results)


def nested(w: BlockWriter, spans: Sequence[tuple[int, Span]], carried: Carried, body: Step, short: int = 0) -> Carried:
    """Nested loops, each with its number and span. An innermost loop of at most ``short`` steps is unrolled."""
    if not spans:
        return body(carried)
    number, span = spans[0]
    if len(spans) == 1 and span.first is None and isinstance(span.length, int) and span.length <= short:
        return _written_out(w, number, span.length, carried, body)
    first, stop = ends(w, span)

    def step(value: SSAValue, carried: Carried) -> Carried:
        w.scopes[-1].loops[number] = value
        return nested(w, spans[1:], carried, body, short)

    return loop(w, first, stop, 1, carried, step)


def _written_out(w: BlockWriter, number: int, length: int, carried: Carried, body: Step) -> Carried:
    for place in range(length):
        w.scopes.append(Scope(w.scopes[-1].block, {number: w.index(place)}, bounds=w.scopes[-1].bounds))
        carried = body(carried)
        w.scopes.pop()
    return carried


def ends(w: BlockWriter, span: Span) -> tuple[SSAValue, SSAValue]:
    """The first number of ``span``, and its end."""
    length = as_value(w, span.length)
    if span.first is None:
        return w.index(0), length
    return span.first, w.add(arith.AddiOp(span.first, length))


def as_value(w: BlockWriter, number: int | SSAValue) -> SSAValue:
    return w.index(number) if isinstance(number, int) else number


def share(w: BlockWriter, part: SSAValue | None, length: int, size: Steps) -> Span:
    """Share number ``part`` of ``size`` steps, or all steps where ``part`` is None.

    A share has ``length`` steps; the last may be shorter.
    """
    if part is None:
        return Span(None, size if isinstance(size, int) else w.size(size))
    first = w.add(arith.MuliOp(part, w.index(length)))
    if length == 1 or (isinstance(size, int) and size % length == 0):
        return Span(first, length)
    smaller = arith.MinUIOp if isinstance(size, int) else arith.MinSIOp  # GPUs lack the unsigned one without a range
    return Span(first, w.add(smaller(w.add(arith.SubiOp(w.size(size), first)), w.index(length))))


def block_at(w: BlockWriter, axis: Axis, first: SSAValue | None, size: Steps, body: Abreast) -> None:
    """One block from ``first``, masked where the loop of ``size`` steps may end in it."""
    place = w.index(0) if first is None else first
    scope = Scope(w.scopes[-1].block, {axis.loop: place}, bounds=w.scopes[-1].bounds)
    if not isinstance(size, int) or size % axis.lanes or size < axis.lanes:
        scope.bounds = {**scope.bounds, axis.loop: (place, w.size(size))}
    w.scopes.append(scope)
    body([scope])
    w.scopes.pop()


def strips(w: BlockWriter, axis: Axis, unroll: int, span: Span, carried: Carried, body: Step) -> Carried:
    """The steps of ``span`` in vectors: ``unroll`` at once, then one by one, then the masked rest.

    Each carried value has ``unroll`` parts, of which a single vector uses the first.
    """
    lanes, length = axis.lanes, span.length
    wide = lanes * unroll
    full = [_floor(w, length, wide), _floor(w, length, lanes)]

    def at(value: SSAValue, part: Carried, copies: Sequence[int], stop: SSAValue | None = None) -> Carried:
        start = value if span.first is None else w.add(arith.AddiOp(span.first, value))
        result = list(part)
        for copy in copies:
            place = start if copy == 0 else w.add(arith.AddiOp(start, w.index(copy * lanes)))
            scope = Scope(w.scopes[-1].block, {axis.loop: place}, bounds=w.scopes[-1].bounds)
            if stop is not None:
                scope.bounds = {**scope.bounds, axis.loop: (value, stop)}
            w.scopes.append(scope)
            result[copy::unroll] = body(part[copy::unroll])
            w.scopes.pop()
        return result

    def run(start: int | SSAValue, stop: int | SSAValue, step: int, carried: Carried, *, masked: bool) -> Carried:
        if isinstance(start, int) and isinstance(stop, int) and start >= stop:
            return carried
        begin, end = as_value(w, start), as_value(w, stop)
        limit, copies = end if masked else None, range(step // lanes)
        if isinstance(start, int) and isinstance(stop, int) and start + step >= stop:
            return at(begin, carried, copies, limit)
        return loop(w, begin, end, step, carried, lambda value, part: at(value, part, copies, limit))

    if unroll > 1:
        carried = run(0, full[0], wide, carried, masked=False)
    carried = run(full[0] if unroll > 1 else 0, full[1], lanes, carried, masked=False)
    return run(full[1], length, lanes, carried, masked=True)


def side_by_side(w: BlockWriter, axis: Axis, unroll: int, span: Span, body: Abreast) -> None:
    """The steps of ``span`` in vectors: ``body`` writes ``unroll`` of them at once, then the rest.

    The scope of the first vector is that of the writer. Where the number of steps is unknown, several vectors at once are
    written in one loop, all with masks.
    """
    lanes, length = axis.lanes, span.length
    wide = lanes * unroll
    full = _floor(w, length, wide)

    def at(value: SSAValue, copies: int, stop: SSAValue | None = None, masked: Sequence[int] = ()) -> None:
        start = value if span.first is None else w.add(arith.AddiOp(span.first, value))
        scopes = list[Scope]()
        for copy in range(copies):
            place = start if copy == 0 else w.add(arith.AddiOp(start, w.index(copy * lanes)))
            scope = Scope(w.scopes[-1].block, {axis.loop: place}, bounds=w.scopes[-1].bounds)
            if stop is not None and copy in masked:
                begin = place if start is value else value if copy == 0 else w.add(arith.AddiOp(value, w.index(copy * lanes)))
                scope.bounds = {**scope.bounds, axis.loop: (begin, stop)}
            scopes.append(scope)
        w.scopes.append(scopes[0])
        body(scopes)
        w.scopes.pop()

    if not isinstance(length, int) or not isinstance(full, int):
        begin, end = as_value(w, full), as_value(w, length)
        if unroll == 1:
            loop(w, w.index(0), begin, wide, [], lambda value, _: at(value, 1))
        start = begin if unroll == 1 else w.index(0)
        loop(w, start, end, wide, [], lambda value, _: at(value, unroll, end, range(unroll)))
        return
    if full == wide:
        at(w.index(0), unroll)
    elif full:
        loop(w, w.index(0), w.index(full), wide, [], lambda value, _: at(value, unroll))
    if full < length:
        copies = math.ceil((length - full) / lanes)
        at(w.index(full), copies, w.index(length), [copies - 1] if length % lanes else [])


def abreast(w: BlockWriter, vectors: Sequence[Scope], depth: int, carried: Carried, body: Step) -> Carried:
    """Run ``body`` for each of ``vectors``, the first of which is the scope ``depth``, in the loops opened inside of it.

    Each carried value has one part for each vector. Values that are the same for all vectors are computed once.
    """
    if len(vectors) == 1:
        return body(carried)
    result, scopes, bounds = list(carried), w.scopes, w.scopes[depth - 1].bounds
    loops = [replace(scope, bounds=bounds) for scope in scopes[depth + 1 :]]
    between = [Scope(vectors[0].block, bounds=bounds), *loops] if loops else []
    for number, vector in enumerate(vectors):
        w.scopes = [*scopes[:depth], vector]
        w.mask(depth, w.axes)
        if loops:
            own = Scope(loops[-1].block, vector.loops, dict(vector.known), vector.bounds)
            w.scopes = [*scopes[:depth], *between, own]
        result[number :: len(vectors)] = body(carried[number :: len(vectors)])
    w.scopes = scopes
    return result


def in_blocks(
    w: BlockWriter,
    span: Span,
    step: int,
    starts: Carried,
    carried: Carried,
    join: Join,
    body: Along,
    most: int | None = None,
) -> Carried:
    """Run ``body`` on the steps of ``span``, in blocks, and these in blocks again, if they are many.

    A block starts from ``starts``, and its totals are joined to the carried ones: of n added numbers none is rounded n times.
    ``most``: the largest number of steps of ``span``, where the body must be written once; the last block may then be shorter.
    """
    if most is not None or not isinstance(span.length, int):
        return _blocks(w, span, step, UNKNOWN if most is None else most, starts, carried, join, body)
    if (steps := span.length // step) < MANY:
        return body(span, carried)
    block = step * _block(steps)
    whole = span.length // block * block

    def add(first: SSAValue, length: int, carried: Carried) -> Carried:
        first = first if span.first is None else w.add(arith.AddiOp(span.first, first))
        return join(carried, in_blocks(w, Span(first, length), step, starts, starts, join, body))

    carried = loop(w, w.index(0), w.index(whole), block, carried, lambda value, carried: add(value, block, carried))
    return carried if whole == span.length else add(w.index(whole), span.length - whole, carried)


def _block(steps: int) -> int:
    """Steps of a block of ``steps``: the square root of few; of more, a thirty-second."""
    bits = steps.bit_length()
    return 1 << max(bits // 2, bits - 5)


def _blocks(
    w: BlockWriter, span: Span, step: int, most: int, starts: Carried, carried: Carried, join: Join, body: Along
) -> Carried:
    if most // step < MANY:
        return body(span, carried)
    block, stop = step * _block(most // step), as_value(w, span.length)
    even = isinstance(span.length, int) and span.length % block == 0
    smaller = arith.MinUIOp if isinstance(span.length, int) else arith.MinSIOp  # as in ``share``

    def one(value: SSAValue, carried: Carried) -> Carried:
        first = value if span.first is None else w.add(arith.AddiOp(span.first, value))
        length = block if even else w.add(smaller(w.add(arith.SubiOp(stop, value)), w.index(block)))
        return join(carried, _blocks(w, Span(first, length), step, block, starts, starts, join, body))

    return loop(w, w.index(0), stop, block, carried, one)


def _floor(w: BlockWriter, length: int | SSAValue, step: int) -> int | SSAValue:
    """The largest multiple of ``step`` that is not above ``length``."""
    if isinstance(length, int):
        return length // step * step
    if step == 1:
        return length
    number = w.index(step)
    return w.add(arith.MuliOp(w.add(arith.DivUIOp(length, number)), number))
