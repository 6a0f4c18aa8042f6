"""Slice, join, broadcast and transpose blocks, which are flat vectors in row-major order."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from fxc.codegen.cpu.builder import Builder
from fxc.codegen.cpu.types import Value


def numbers(shape: Sequence[int]) -> np.ndarray:
    """The lane number of each element of a block."""
    return np.arange(prod(shape)).reshape(tuple(shape))


def pick(b: Builder, value: Value, lanes: np.ndarray) -> Value:
    """The lanes with the numbers in ``lanes``, flattened."""
    return b.shuffle(value, [int(lane) for lane in lanes.ravel()])


def pieces(b: Builder, value: Value, count: int) -> list[Value]:
    """``value`` split into ``count`` equal vectors, in order."""
    return [pick(b, value, part) for part in np.split(numbers([value.type.lanes or 1]), count)]


def join(b: Builder, values: Sequence[Value]) -> Value:
    """The concatenation of ``values``."""
    joined: list[Value] = list(values)
    while len(joined) > 1:
        pairs = [joined[i : i + 2] for i in range(0, len(joined), 2)]
        joined = [_join_two(b, *pair) if len(pair) == 2 else pair[0] for pair in pairs]
    return joined[0]


def _join_two(b: Builder, left: Value, right: Value) -> Value:
    n, m = left.type.lanes or 1, right.type.lanes or 1
    if n == m:
        return b.shuffle(left, range(n + m), right)
    wide = b.shuffle(right, [*range(m), *[-1] * (n - m)])
    return b.shuffle(left, range(n + m), wide)


def stretch(b: Builder, value: Value, old: Sequence[int], new: Sequence[int]) -> Value:
    """Broadcast a block from shape ``old`` to shape ``new``."""
    return pick(b, value, np.broadcast_to(numbers(old), tuple(new)))


def permute(b: Builder, value: Value, shape: Sequence[int], order: Sequence[int]) -> Value:
    """Dimension i of the result is dimension ``order[i]`` of ``value``, a block of ``shape``."""
    kept = [dim for dim in order if shape[dim] != 1]
    ascending = sorted(kept)
    if kept == ascending:
        return value
    first = ascending.index(kept[0])
    if kept == [*ascending[first:], *ascending[:first]]:  # a matrix transpose
        return _transpose(b, value, prod(shape[dim] for dim in ascending[:first]))
    return pick(b, value, numbers(shape).transpose(tuple(order)))


def _transpose(b: Builder, value: Value, rows: int) -> Value:
    """Transpose a matrix with ``rows`` rows.

    Squares whose size is a power of two use a network of shuffles of two rows each, one round per bit of the row number. Each
    shuffle is one instruction on a CPU with arbitrary two-operand permutes.
    """
    count = value.type.lanes or 1
    columns = count // rows
    small, large = sorted((rows, columns))
    if small & (small - 1) or large % small or small < 4:
        return pick(b, value, numbers((rows, columns)).T)
    lines = pieces(b, value, rows)
    if rows == columns:
        return join(b, _transposed_square(b, lines))
    if columns > rows:  # adjacent squares, each of which becomes consecutive rows of the result
        cut = [pieces(b, line, columns // rows) for line in lines]
        return join(b, [row for square in zip(*cut, strict=True) for row in _transposed_square(b, list(square))])
    squares = [_transposed_square(b, lines[i : i + columns]) for i in range(0, rows, columns)]
    return join(b, [part for row in zip(*squares, strict=True) for part in row])


def _transposed_square(b: Builder, lines: list[Value]) -> list[Value]:
    size, bit = len(lines), 1
    while bit < size:
        upper = [lane if not lane & bit else size + lane - bit for lane in range(size)]
        lower = [lane + bit if not lane & bit else size + lane for lane in range(size)]
        swapped = list(lines)
        for i in range(size):
            if not i & bit:
                swapped[i] = b.shuffle(lines[i], upper, lines[i | bit])
                swapped[i | bit] = b.shuffle(lines[i], lower, lines[i | bit])
        lines, bit = swapped, 2 * bit
    return lines
