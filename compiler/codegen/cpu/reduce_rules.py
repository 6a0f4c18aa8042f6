"""Lower reductions, scans, dot products and random numbers: ops of ``tile`` that combine lanes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial, reduce
from math import gcd
from types import MappingProxyType

import numpy as np

from fxc.codegen.cpu.arith_rules import Rule, extreme, later_extreme
from fxc.codegen.cpu.builder import Builder, constant, i64, vector_constant
from fxc.codegen.cpu.conversions import extend, in_float
from fxc.codegen.cpu.lanes import numbers, pick
from fxc.codegen.cpu.types import I1, Type, Value
from fxc.dialects.tile import DotOp, RandomOp, ReduceOp, ScanOp
from fxc.dialects.tile.types import shape_of

_SUM = "reassoc contract"  # only here may LLVM reorder float operations
_FLOAT: Mapping[str, Callable[[Builder, Value, Value], Value]] = MappingProxyType(
    {
        "add": lambda b, x, y: b.binary(f"fadd {_SUM}", x, y),
        "mul": lambda b, x, y: b.binary(f"fmul {_SUM}", x, y),
        "max": lambda b, x, y: extreme(b, "max", x, y),
        "min": lambda b, x, y: extreme(b, "min", x, y),
    }
)
_INTEGER: Mapping[str, Callable[[Builder, Value, Value], Value]] = MappingProxyType(
    {
        **{kind: lambda b, x, y, kind=kind: b.binary(kind, x, y) for kind in ("add", "mul", "and", "or", "xor")},
        "max": lambda b, x, y: b.intrinsic("llvm.smax", x, y),
        "min": lambda b, x, y: b.intrinsic("llvm.smin", x, y),
    }
)
_ALL_LANES = {"max": "smax", "min": "smin"}


def _combine(b: Builder, kind: str, left: Value, right: Value) -> Value:
    return (_FLOAT if left.type.is_float else _INTEGER)[kind](b, left, right)


def _combine_later(b: Builder, kind: str, before: Value, value: Value) -> Value:
    """Like ``_combine``, but the max and min of equal floats is the later one."""
    if value.type.is_float and kind in ("max", "min"):
        return later_extreme(b, kind, before, value)
    return _combine(b, kind, before, value)


def _reduce(b: Builder, op: ReduceOp, value: Value) -> Value:
    return in_float(b, partial(_reduced, b, op), value)


def _reduced(b: Builder, op: ReduceOp, value: Value) -> Value:
    kind, dims = op.kind.data, [int(dim) for dim in op.dims.get_values()]
    shape = shape_of(op.value.type)
    if len(dims) == len(shape):
        return _all_lanes(b, kind, value)
    for dim in dims:
        value = _halved(b, kind, value, shape, dim)
        shape = (*shape[:dim], 1, *shape[dim + 1 :])
    return value


def _all_lanes(b: Builder, kind: str, value: Value) -> Value:
    scalar, suffix = value.type.with_lanes(None), value.type.suffix
    if not value.type.is_float:
        return b.call(f"llvm.vector.reduce.{_ALL_LANES.get(kind, kind)}.{suffix}", scalar, value)
    if kind in ("max", "min"):
        return b.call(f"llvm.vector.reduce.f{kind}imum.{suffix}", scalar, value)
    neutral = constant(scalar, -0.0 if kind == "add" else 1.0)
    return b.call(f"llvm.vector.reduce.f{kind}.{suffix}", scalar, neutral, value, flags=_SUM)


def any_lane(b: Builder, mask: Value) -> Value:
    """Whether any lane of ``mask`` is set."""
    return mask if mask.type.lanes is None else _all_lanes(b, "or", mask)


def _halved(b: Builder, kind: str, value: Value, shape: Sequence[int], dim: int) -> Value:
    """Reduce a block of ``shape`` along ``dim``: combine the first half with the second until size 1 is left."""
    shape = list(shape)
    while (size := shape[dim]) > 1:
        half = size // 2
        parts = np.split(numbers(shape), [half, 2 * half], axis=dim)
        first, second, last = (pick(b, value, part) if part.size else None for part in parts)
        assert first is not None and second is not None
        value = _combine(b, kind, first, second)
        shape[dim] = half
        if last is not None:
            table = numbers(shape)
            both = np.concatenate([table, table.size + numbers([*shape[:dim], 1, *shape[dim + 1 :]])], axis=dim)
            n, m = value.type.lanes or 1, last.type.lanes or 1
            wide = b.shuffle(last, [*range(m), *[-1] * (n - m)])
            value = b.shuffle(value, [int(lane) for lane in both.ravel()], wide)
            shape[dim] = half + 1
    return value


def _scan(b: Builder, op: ScanOp, value: Value) -> Value:
    return in_float(b, partial(_scanned, b, op), value)


def _scanned(b: Builder, op: ScanOp, value: Value) -> Value:
    """Combine each lane with the lane 1, 2, 4, ... positions before it, in a logarithmic number of steps."""
    shape, dim = shape_of(op.value.type), op.dim.value.data
    table = numbers(shape)
    behind = table.size // shape[dim] // int(np.prod(shape[:dim], dtype=int))
    place, step = table // behind % shape[dim], 1
    while step < shape[dim]:
        there = place >= step
        before = b.shuffle(value, [int(lane) for lane in np.where(there, table - step * behind, -1).ravel()])
        mask = vector_constant(I1, ["true" if yes else "false" for yes in there.ravel()])
        value = b.select(mask, _combine_later(b, op.kind.data, before, value), value)
        step *= 2
    return value


_MULTIPLIERS, _WEYL = (0xD2511F53, 0xCD9E8D57), (0x9E3779B9, 0xBB67AE85)


def _random(b: Builder, op: RandomOp, seed: Value, offsets: Value) -> Value:
    """Random numbers by Philox 4x32-10."""
    wide, lanes = offsets.type, offsets.type.lanes
    word, counter = b.cast("trunc", offsets, "i32"), b.binary("lshr", offsets, constant(wide, 2))
    type = word.type
    zero = constant(type, 0)
    c = [b.cast("trunc", counter, "i32"), b.cast("trunc", b.binary("lshr", counter, constant(wide, 32)), "i32"), zero, zero]
    high = b.binary("lshr", seed, constant(seed.type, 32))
    keys = [b.splat(b.cast("trunc", half, "i32"), lanes) for half in (seed, high)]
    for step in range(10):
        first, second = (_product(b, c[2 * i], _MULTIPLIERS[i], wide) for i in range(2))
        k = [b.add(key, constant(type, step * weyl & 0xFFFFFFFF)) for key, weyl in zip(keys, _WEYL, strict=True)]
        c = [
            b.binary("xor", b.binary("xor", second[0], c[1]), k[0]),
            second[1],
            b.binary("xor", b.binary("xor", first[0], c[3]), k[1]),
            first[1],
        ]
    result, word = c[0], b.binary("and", word, constant(type, 3))
    for i in (1, 2, 3):
        result = b.select(b.compare("eq", word, constant(type, i)), c[i], result)
    return result


def _product(b: Builder, value: Value, factor: int, wide: Type) -> tuple[Value, Value]:
    """The high and the low word of ``value`` times ``factor``."""
    product = b.mul(b.cast("zext", value, "i64"), constant(wide, factor))
    return b.cast("trunc", b.binary("lshr", product, constant(wide, 32)), "i32"), b.cast("trunc", product, "i32")


def dot(b: Builder, op: DotOp, left: Value, right: Value, start: Value, *, turned: bool = False) -> Value:
    """Matrix product in memory: registers hold a block of the result, and add columns of the left times rows of the right.

    ``turned``: ``left`` is the transposed factor; its elements are read one by one, so either order is as fast.
    """
    [rows, inner], [_, columns] = shape_of(op.left.type), shape_of(op.right.type)
    element = start.type.with_lanes(None)
    first, second = (b.stack(extend(b, value, element.element)) for value in (left, right))
    total = b.stack(start)
    lanes = max(b.module.features.vector_bits // element.bits, 1)
    strip = gcd(columns, 2 * lanes)
    height = gcd(rows, (16 if b.module.features.vector_bits >= 512 else 8) // max(strip // lanes, 1))
    down, along = (1, rows) if turned else (inner, 1)
    type, bytes = element.with_lanes(strip), element.bits // 8

    def load(type: Type, pointer: Value, *terms: tuple[Value, int]) -> Value:
        return b.emit(type, f"load {type}, {at(pointer, *terms)}, align {bytes}")

    def at(pointer: Value, *terms: tuple[Value, int]) -> Value:
        return b.address(pointer, element, reduce(b.add, [b.mul(index, i64(step)) for index, step in terms]))

    def block(row: Value, column: Value) -> None:
        places = [[(b.add(row, i64(i)), columns), (column, 1)] for i in range(height)]

        def step(place: Value, sums: list[Value]) -> list[Value]:
            line = load(type, second, (place, columns), (column, 1))
            factors = [load(element, first, (b.add(row, i64(i)), down), (place, along)) for i in range(height)]
            return [b.fma(b.splat(factor, strip), line, sum) for factor, sum in zip(factors, sums, strict=True)]

        for sum, place in zip(b.count(inner, 1, [load(type, total, *each) for each in places], step), places, strict=True):
            b.line(f"store {sum}, {at(total, *place)}, align {bytes}")

    def strips(row: Value, _: list[Value]) -> list[Value]:
        return b.count(columns, strip, [], lambda column, _: block(row, column) or [])

    b.count(rows, height, [], strips)
    return b.emit(start.type, f"load {start.type}, {total}, align 64")


RULES: Mapping[str, Rule] = MappingProxyType(
    {"tile.reduce": _reduce, "tile.scan": _scan, "tile.dot": dot, "tile.random": _random}
)
"""Op name -> rule."""
