"""Range analysis of the ``index`` values of a kernel: most kernels need only 32 bits, which are faster than 64."""

from __future__ import annotations

from typing import NamedTuple

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import DYNAMIC_INDEX, IndexType, IntegerType
from xdsl.ir import Operation, SSAValue

from fxc.codegen.triton.spelling import constant_value
from fxc.dialects.tile import KernelOp, LoadOp, MaskOp, ProgramIdOp, SelectOp, StoreOp
from fxc.dialects.tile.kernel import SIZE
from fxc.dialects.tile.types import element_of, shape_of

_WIDEST = 1 << 63
_MOST_PROGRAMS = (1 << 31) - 1
_LARGEST_SIZE = 1 << 48
"""The assumed maximum number of elements of a tensor."""
_ADDRESSED = frozenset([LoadOp, StoreOp, MaskOp])
_UNSIGNED = frozenset([arith.DivUIOp, arith.CeilDivUIOp, arith.RemUIOp, arith.MinUIOp, arith.MaxUIOp])


class Range(NamedTuple):
    """All integers from ``low`` to ``high``, both included."""

    low: int
    high: int

    def is_within(self, bits: int) -> bool:
        return -(1 << bits - 1) <= self.low and self.high < 1 << bits - 1

    def __add__(self, other: Range) -> Range:  # type: ignore[override]
        return Range(self.low + other.low, self.high + other.high)

    def __sub__(self, other: Range) -> Range:
        return Range(self.low - other.high, self.high - other.low)

    def __mul__(self, other: Range) -> Range:  # type: ignore[override]
        return _hull([a * b for a in self for b in other])


ANY = Range(-_WIDEST, _WIDEST - 1)


class IndexRanges:
    """The ranges of the index values of ``kernel``. Results of unsupported ops have an unlimited range."""

    def __init__(self, kernel: KernelOp) -> None:
        self.kernel = kernel
        self.ranges = dict[int, Range]()  # values by identity, as hashing one is a Python call
        self.bits = 32 if all(self._fits(op) for op in kernel.walk()) else 64

    def of(self, value: SSAValue) -> Range:
        known = self.ranges.get(id(value))
        if known is None:
            known = self.ranges[id(value)] = self._compute(value)
        return known

    def is_natural(self, *values: SSAValue) -> bool:
        """Whether all ``values`` are index values that are never negative."""
        return all(isinstance(value.type, IndexType) and self.of(value).low >= 0 for value in values)

    def _fits(self, op: Operation) -> bool:
        """Whether the index results of ``op`` and the offsets of all its lanes fit in 32 bits."""
        values: list[SSAValue] = [*op.results]
        if op.regions:
            values += [argument for region in op.regions for block in region.blocks for argument in block.args]
        ranges = [self.of(value) for value in values if type(element_of(value.type)) is IndexType]
        if not ranges and type(op) not in _ADDRESSED:
            return True
        if isinstance(op, (LoadOp, StoreOp)):
            ranges.append(self._offsets(op))
        if isinstance(op, MaskOp):
            ranges.append(self.of(op.start) + Range(0, max(shape_of(op.result.type))))
        return all(found.is_within(32) for found in ranges)

    def _offsets(self, op: LoadOp | StoreOp) -> Range:
        """The range of the offsets of the lanes from the base."""
        total = Range(0, 0)
        block = op.result if isinstance(op, LoadOp) else op.value
        for size, stride in zip(shape_of(block.type), op.strides(), strict=True):
            step = Range(stride, stride) if isinstance(stride, int) else self.of(stride)
            total = total + step * Range(0, size - 1)
        return total

    def _compute(self, value: SSAValue) -> Range:
        op = value.owner
        if not isinstance(value.type, IndexType):  # a block of index values
            return ANY
        if not isinstance(op, Operation):
            return self._of_argument(value)
        operands = [self.of(operand) for operand in op.operands if isinstance(operand.type, IndexType)]
        if type(op) in _UNSIGNED and any(operand.low < 0 for operand in operands):
            return ANY
        match op:
            case arith.ConstantOp():
                number = int(constant_value(op.value))
                return Range(number, number)
            case ProgramIdOp():
                programs = self.kernel.programs[op.axis.value.data]
                return Range(0, _MOST_PROGRAMS if programs == DYNAMIC_INDEX else max(programs - 1, 0))
            case arith.AddiOp():
                return operands[0] + operands[1]
            case arith.SubiOp():
                return operands[0] - operands[1]
            case arith.MuliOp():
                return operands[0] * operands[1]
            case arith.DivSIOp() | arith.DivUIOp() | arith.FloorDivSIOp():
                return _quotient(*operands)
            case arith.CeilDivSIOp() | arith.CeilDivUIOp():
                return _quotient(*operands, up=True)
            case arith.RemSIOp() | arith.RemUIOp():
                return _remainder(*operands)
            case arith.MinSIOp() | arith.MinUIOp():
                return Range(min(a.low for a in operands), min(a.high for a in operands))
            case arith.MaxSIOp() | arith.MaxUIOp():
                return Range(max(a.low for a in operands), max(a.high for a in operands))
            case arith.SelectOp() | SelectOp():
                return _hull([bound for operand in operands for bound in operand])
            case arith.IndexCastOp():
                return _of_type(op.input)
            case _:
                return ANY

    def _of_argument(self, value: SSAValue) -> Range:
        known = self.kernel.is_dynamic
        if value in [each for each in self.kernel.indices() if known or SIZE in self.kernel.argument_attributes(each)]:
            return Range(0, _LARGEST_SIZE)
        loop = value.owner.parent_op()
        if not isinstance(loop, scf.ForOp) or value is not loop.body.block.args[0]:
            return ANY
        start, end = self.of(loop.lb), self.of(loop.ub)
        step = self.of(loop.step)
        return Range(start.low, max(start.low, end.high + step.high)) if step.low > 0 else ANY


def _of_type(value: SSAValue) -> Range:
    if isinstance(value.owner, arith.ConstantOp):
        number = int(constant_value(value.owner.value))
        return Range(number, number)
    type = value.type
    if isinstance(type, IntegerType) and type.bitwidth < 64:
        limit = 1 << type.bitwidth - 1
        return Range(-limit, limit - 1)
    return ANY


def _quotient(dividend: Range, divisor: Range, *, up: bool = False) -> Range:
    """The range of a quotient. Its magnitude is at most that of the dividend, plus one for rounding in floor or ceil division.

    ``up``: the quotient is rounded up, else down or towards zero.
    """
    if divisor.low == divisor.high and divisor.low > 0:
        highest = -(-dividend.high // divisor.low)
        return Range(dividend.low // divisor.low, highest if up else max(dividend.high // divisor.low, min(highest, 0)))
    size = max(abs(dividend.low), abs(dividend.high)) + 1
    return Range(0 if dividend.low >= 0 < divisor.low else -size, size)


def _remainder(dividend: Range, divisor: Range) -> Range:
    size = max(abs(divisor.low), abs(divisor.high)) - 1
    if dividend.low >= 0:
        return Range(0, min(size, dividend.high))
    return Range(-size, size)


def _hull(numbers: list[int]) -> Range:
    return Range(min(numbers), max(numbers))
