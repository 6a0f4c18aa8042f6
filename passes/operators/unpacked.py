"""Products of few rows with a matrix that kernels compute from fewer bytes, such as int8 weights times scales."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

from xdsl.ir import SSAValue

from fxc.dialects.attributes.types import contiguous_strides, device, element_bytes, is_tensor, strides
from fxc.dialects.attributes.values import int_attr
from fxc.dialects.torch_ops.base import TorchOp
from fxc.passes.analysis.matching import dtype, integer, is_floating
from fxc.passes.analysis.size_values import HintedSizes
from fxc.passes.operators.record import Role
from fxc.passes.operators.table import has_formula, operator_of, role_of
from fxc.passes.rewriting.matrix_products import matrix_shape, static_sizes

_MOST_ROWS = {"float32": 16, "bfloat16": 4}
"""The number of rows, by dtype, up to which it is faster to compute the matrix for each row than to write it to memory."""
_SLOW = 8
"""How much more it costs to compute a matrix from float8 than from int8, or from joined halves whose scales are of groups."""
_COLUMNS = 2
"""How much more a sum of columns costs than one of rows."""
_MOST_PACKED = 8
"""The most numbers that are packed in one."""


@dataclass(frozen=True)
class Unpacked:
    """The operands of a product with a matrix that ``parts`` compute from fewer bytes, and which nothing else reads.

    ``is_linear``: the product transposes the matrix. ``is_turned``: the numbers for one output are adjacent in memory.
    ``pieces``: slices (start, end, step) of them that are computed alike, of each number of a byte or of each half.
    ``count``: the number of rows, by the hints where it is free.
    """

    is_linear: bool
    rows: SSAValue
    matrix: SSAValue
    bias: Sequence[SSAValue]
    count: int
    is_turned: bool
    pieces: Sequence[tuple[int, int, int]]
    parts: Sequence[TorchOp]


def unpacked_product(op: TorchOp) -> Unpacked | None:
    """The operands of ``op`` where it is faster to compute the matrix for each of its rows than to write it to memory."""
    factors, type = operator_of(op).factors, op.results[0].type if op.results else None
    if factors is None or not is_tensor(type) or device(type) != "cpu" or not {"alpha", "beta"}.isdisjoint(op.bound()):
        return None
    name, (rows, matrix) = dtype(type) or "", (_operand(op, each) for each in (factors.left, factors.right))
    if rows is None or matrix is None or not is_tensor(matrix.type) or name not in _MOST_ROWS or strides(type) is not None:
        return None
    *counts, length = HintedSizes(op).shape(rows.type) or [0]
    parts, shape = list(_unpacking(matrix)), matrix_shape(matrix.type)
    if not prod(counts) or not length or not shape or 0 in shape or not any(map(_widens, parts)):
        return None
    is_turned = ((strides(matrix.type) or contiguous_strides(shape))[1] != 1) != factors.is_turned
    pieces = _pieces(parts, length) if is_turned else [(0, length, 1)]
    if not pieces or not (is_turned or static_sizes(rows.type)):
        return None
    is_slow = any(_is_float8(value) for each in parts for value in each.operands)
    if len(pieces) > 1 and pieces[0][2] == 1:
        is_slow |= any(len(static_sizes(each.results[0].type)) > 2 for each in parts)
    cost = _SLOW if is_slow else len(pieces)
    if prod(counts) > max(_MOST_ROWS[name] // (cost if is_turned else cost * _COLUMNS), 1):
        return None
    bias = _operand(op, factors.added)
    added = [] if bias is None else [bias]
    return Unpacked(factors.is_turned, rows, matrix, added, prod(counts), is_turned, pieces, parts)


def _operand(op: TorchOp, name: str) -> SSAValue | None:
    value = op.bound().get(name)
    return next((operand for operand in op.operands if operand is value), None)


def _pieces(parts: Sequence[TorchOp], length: int) -> Sequence[tuple[int, int, int]]:
    """Slices of equal length of the ``length`` columns; none where parts of several lengths are concatenated."""
    packed, joined = max([1, *map(_last_size, parts)]), [each for each in parts if _joins_columns(each, length)]
    if not joined:
        return [(first, length, packed) for first in range(packed)] if length % packed == 0 else []
    ends = {static_sizes(value.type)[1] for each in joined for value in each.operands}
    if len(joined) > 1 or packed > 1 or len(ends) > 1:
        return []
    [step] = ends
    return [(start, start + step, 1) for start in range(0, length, step)]


def _joins_columns(op: TorchOp, length: int) -> bool:
    """Whether ``op`` concatenates the ``length`` columns of a matrix."""
    dim = integer(op.bound().get("dim", int_attr(0)))
    return role_of(op) is Role.CONCATENATION and dim in (-1, 1) and static_sizes(op.results[0].type)[1:] == (length,)


def _unpacking(value: SSAValue) -> Iterator[TorchOp]:
    """The ops by which kernels compute ``value`` from about as many numbers, and whose results nothing else reads."""
    op = value.owner
    if isinstance(op, TorchOp) and has_formula(op) and len(list(value.uses)) == 1:
        yield op
        for operand in _large(op):
            yield from _unpacking(operand)


def _large(op: TorchOp) -> list[SSAValue]:
    size = prod(static_sizes(op.results[0].type))
    return [operand for operand in op.operands if _MOST_PACKED * prod(static_sizes(operand.type)) >= size]


def _widens(op: TorchOp) -> bool:
    return any(0 < _bytes(operand) < _bytes(op.results[0]) for operand in _large(op))


def _is_float8(value: SSAValue) -> bool:
    return is_floating(value.type) and _bytes(value) == 1


def _bytes(value: SSAValue) -> int:
    return (element_bytes(value.type.element_type) or 0) if is_tensor(value.type) else 0


def _last_size(op: TorchOp) -> int:
    """The last size, where it may be the number of numbers that are unpacked from one, else 1."""
    sizes = static_sizes(op.results[0].type)
    return sizes[-1] if len(sizes) > 2 and sizes[-1] <= _MOST_PACKED else 1
