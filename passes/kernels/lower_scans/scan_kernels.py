"""Kernels of cumulative operators: each element of a row is combined with those before it.

Lanes run along the row where its elements are adjacent: a vector is scanned, and the total of the elements before it is
combined with each lane. Otherwise lanes run across rows, and each step of a loop combines one more element of each row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import FloatAttr, IndexType, IntegerAttr, IntegerType, VectorType, i64
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from fxc.dialects.attributes.values import isa
from fxc.dialects.tile import (
    CastOp,
    CompareOp,
    IotaOp,
    KernelOp,
    LoadOp,
    MaskOp,
    ProgramIdOp,
    PtrType,
    ReduceOp,
    ReturnOp,
    ScanOp,
    SelectOp,
    SplatOp,
    StoreOp,
)
from fxc.dialects.tile.kernel import SOURCE
from fxc.dialects.tile.types import with_element
from fxc.passes.operators.scalars import FLOATS, HALVES, machine_type


@dataclass(frozen=True)
class Kind:
    """The operator that combines elements.

    ``name`` is that of tile.scan, ``neutral`` the neutral float, ``neutral_integer`` the neutral integer of a number of bits.
    For extremes, ``floats`` is the predicate by which an earlier element stays: of equal elements the later counts, including
    the sign of a zero.
    """

    name: str
    floats: type[Operation] | str
    integers: type[Operation]
    neutral: float
    neutral_integer: Callable[[int], int]


ADD = Kind("add", arith.AddfOp, arith.AddiOp, 0.0, lambda bits: 0)
MULTIPLY = Kind("mul", arith.MulfOp, arith.MuliOp, 1.0, lambda bits: 1)
MAXIMUM = Kind("max", "ogt", arith.MaxSIOp, -math.inf, lambda bits: -(1 << bits - 1))
MINIMUM = Kind("min", "olt", arith.MinSIOp, math.inf, lambda bits: (1 << bits - 1) - 1)


@dataclass(frozen=True)
class ScanLayout:
    """A scan over ``size`` elements of each row, which are ``steps`` apart in memory.

    ``others``: the other dimensions, each with its size and steps. Steps are those in the operand and in the results.
    ``dtypes``: of the operand, of the combined elements, and of the first result. A second result has the indices of the
    extremes.
    """

    size: int
    steps: tuple[int, int]
    others: tuple[tuple[int, tuple[int, int]], ...]
    dtypes: tuple[str, str, str]

    @property
    def side(self) -> int | None:
        """The other dimension along which elements of the operand are closer than along the row; None where there is none."""
        found = [i for i, (size, steps) in enumerate(self.others) if size > 1 and 0 < steps[0] < self.steps[0]]
        return min(found, key=lambda i: self.others[i][1][0], default=None)


class ScanKernel:
    """Writes the kernel of ``kind`` over ``layout``, with vectors of ``lanes``.

    ``rows``: rows of a program where lanes run along them. ``indexed``: there is a second result.
    """

    def __init__(self, kind: Kind, layout: ScanLayout, lanes: int, rows: int, *, indexed: bool) -> None:
        self.kind, self.layout, self.lanes, self.rows, self.indexed = kind, layout, lanes, rows, indexed
        self.element = machine_type(layout.dtypes[1])

    def kernel(
        self, name: str, elements: Sequence[Attribute], arguments: Sequence[dict[str, Attribute]], source: Attribute
    ) -> KernelOp:
        """``elements`` and ``arguments``: the element type in memory and the attributes of each pointer."""
        self.block = Block(arg_types=[PtrType(element) for element in elements])
        for argument, hint in zip(self.block.args, ("x", "values", "indices"), strict=False):
            argument.name_hint = hint
        self.scopes, self.constants = [self.block], dict[int, SSAValue]()
        count = self._along() if self.layout.side is None else self._across(self.layout.side)
        self.block.add_op(ReturnOp.create())
        return KernelOp.of(name, [count], Region(self.block), arguments, {SOURCE: source})

    # lanes along a row

    def _along(self) -> int:
        others = self.layout.others
        total = math.prod(size for size, _ in others)
        program = self._add(ProgramIdOp.of(0))
        if self.rows == 1:
            self._row(program, others)
            return total
        first = self._index_op(arith.MuliOp, program, self.rows)
        stop = self._add(arith.MinUIOp(self._index_op(arith.AddiOp, first, self.rows), self._index(total)))
        self._for(first, stop, 1, [], lambda row, carried: self._row(row, others))
        return math.ceil(total / self.rows)

    def _row(self, row: SSAValue, others: Sequence[tuple[int, tuple[int, int]]]) -> list[SSAValue]:
        bases = self._bases(row, others)
        start = [self._number(self._neutral(), self.element)]
        if self.indexed:
            start.append(self._number(0, i64))
        self._for(self._index(0), self._index(self.layout.size), self.lanes, start, lambda at, old: self._strip(at, old, bases))
        return []

    def _strip(self, at: SSAValue, carried: list[SSAValue], bases: Sequence[SSAValue]) -> list[SSAValue]:
        """Scan one vector of a row, starting from the totals of the vectors before it. Returns the new totals."""
        mask = None
        if self.layout.size % self.lanes:
            mask = self._add(MaskOp.of(at, self._index(self.layout.size), [self.lanes]))
        x = self._loaded(self._moved(bases[0], at, self.layout.steps[0]), self.layout.steps[0], mask)
        before, of_vector = self._splat(carried[0]), self._add(ScanOp.of(self.kind.name, x, 0))
        scanned = self._combined(before, of_vector)
        total = self._combined(carried[0], self._total(x, of_vector))
        target, step = self._moved(bases[1], at, self.layout.steps[1]), self.layout.steps[1]
        self._stored(scanned, self.layout.dtypes[2], target, step, mask)
        if not self.indexed:
            return [total]
        first = self._splat(self._add(arith.IndexCastOp(at, i64)))
        place = self._add(arith.AddiOp(first, self._add(IotaOp.of([self.lanes], 0))))
        found = self._add(SelectOp.of(self._is_extreme(x, scanned), place, self._splat(self._number(0, i64))))
        places = self._add(arith.MaxSIOp(self._splat(carried[1]), self._add(ScanOp.of("max", found, 0))))
        last = self._add(arith.MaxSIOp(carried[1], self._add(ReduceOp.of("max", found, [0]))))
        self._add(StoreOp.of(places, self.block.args[2], target, [step], mask))
        return [total, last]

    # lanes across rows

    def _across(self, side: int) -> int:
        size, steps = self.layout.others[side]
        rest = [dimension for i, dimension in enumerate(self.layout.others) if i != side]
        chunks = math.ceil(size / self.lanes)
        program = self._add(ProgramIdOp.of(0))
        bases = self._bases(self._index_op(arith.DivUIOp, program, chunks), rest)
        first = self._index_op(arith.MuliOp, self._index_op(arith.RemUIOp, program, chunks), self.lanes)
        mask = self._add(MaskOp.of(first, self._index(size), [self.lanes])) if size % self.lanes else None
        bases = [self._moved(base, first, step) for base, step in zip(bases, steps, strict=True)]
        start = [self._splat(self._number(self._neutral(), self.element))]
        if self.indexed:
            start.append(self._splat(self._number(0, i64)))

        def step(at: SSAValue, carried: list[SSAValue]) -> list[SSAValue]:
            source, target = (self._moved(base, at, s) for base, s in zip(bases, self.layout.steps, strict=True))
            x = self._loaded(source, steps[0], mask)
            total = self._combined(carried[0], x)
            self._stored(total, self.layout.dtypes[2], target, steps[1], mask)
            if not self.indexed:
                return [total]
            place = self._splat(self._add(arith.IndexCastOp(at, i64)))
            places = self._add(SelectOp.of(self._is_extreme(x, total), place, carried[1]))
            self._add(StoreOp.of(places, self.block.args[2], target, [steps[1]], mask))
            return [total, places]

        self._for(self._index(0), self._index(self.layout.size), 1, start, step)
        return math.prod(size for size, _ in rest) * chunks

    # values

    def _is_extreme(self, x: SSAValue, total: SSAValue) -> SSAValue:
        """Whether an element is equal to the scan up to it. The last such element counts, and the last NaN."""
        if self.layout.dtypes[1] not in FLOATS:
            return self._add(CompareOp.of("eq", x, total))
        return self._add(arith.OrIOp(self._add(CompareOp.of("oeq", x, total)), self._add(CompareOp.of("uno", x, x))))

    def _total(self, x: SSAValue, scanned: SSAValue) -> SSAValue:
        """The combination of all lanes of ``x``, which is the last lane of ``scanned``.

        A reduction may return either of two equal zeros, so for extremes of floats the bits of that lane are taken.
        """
        if not self._chooses:
            return self._add(ReduceOp.of(self.kind.name, x, [0]))
        integer: IntegerType = IntegerType(self.element.bitwidth)  # type: ignore[attr-defined]
        bits = self._add(arith.BitcastOp(scanned, with_element(scanned.type, integer)))
        last = self._add(
            CompareOp.of("eq", self._add(IotaOp.of([self.lanes], 0)), self._splat(self._number(self.lanes - 1, i64)))
        )
        chosen = self._add(SelectOp.of(last, bits, self._splat(self._number(0, integer))))
        return self._add(arith.BitcastOp(self._add(ReduceOp.of("or", chosen, [0])), self.element))

    @property
    def _chooses(self) -> bool:
        return self.layout.dtypes[1] in FLOATS and isinstance(self.kind.floats, str)

    def _combined(self, left: SSAValue, right: SSAValue) -> SSAValue:
        kind = self.kind.floats if self.layout.dtypes[1] in FLOATS else self.kind.integers
        if not isinstance(kind, str):
            return self._add(kind(left, right))  # type: ignore[call-arg]
        right = self._add(SelectOp.of(self._add(CompareOp.of("uno", left, left)), left, right))
        return self._add(SelectOp.of(self._add(CompareOp.of(kind, left, right)), left, right))

    def _neutral(self) -> int | float:
        if isa(self.element, IntegerType):
            return self.kind.neutral_integer(self.element.width.data)
        return self.kind.neutral

    def _loaded(self, base: SSAValue, step: int, mask: SSAValue | None) -> SSAValue:
        pointer = self.block.args[0]
        assert isinstance(pointer.type, PtrType)
        element = pointer.type.value_type
        other = None if mask is None else self._number(0, element)
        value = self._add(LoadOp.of(pointer, base, [step], VectorType(element, [self.lanes]), mask, other))
        return self._converted(value, self.layout.dtypes[0], self.layout.dtypes[1])

    def _stored(self, value: SSAValue, dtype: str, base: SSAValue, step: int, mask: SSAValue | None) -> None:
        value = self._converted(value, self.layout.dtypes[1], dtype)
        self._add(StoreOp.of(value, self.block.args[1], base, [step], mask))

    def _converted(self, value: SSAValue, old: str, new: str) -> SSAValue:
        """A block converted to another dtype."""
        if old == new:
            return value
        element = machine_type(new)
        if new == "bool":
            return self._add(CompareOp.of("ne", value, self._splat(self._number(0, machine_type(old)))))
        if old in FLOATS | HALVES:
            cls = arith.ExtFOp if _bits(old) < _bits(new) else arith.TruncFOp
            return self._add(cls.create(operands=[value], result_types=[with_element(value.type, element)]))
        unsigned = old in ("bool", "uint8")
        if new in FLOATS | HALVES:
            return self._add(CastOp.of("uitofp" if unsigned else "sitofp", value, element))
        if _bits(old) == _bits(new):
            return value
        return self._add(CastOp.of("trunci" if _bits(old) > _bits(new) else "extui" if unsigned else "extsi", value, element))

    # ops

    def _add(self, op: Operation) -> SSAValue:
        self.scopes[-1].add_op(op)
        return op.results[0] if op.results else None  # type: ignore[return-value]

    def _splat(self, value: SSAValue) -> SSAValue:
        return self._add(SplatOp.of(value, [self.lanes]))

    def _number(self, number: int | float, element: Attribute) -> SSAValue:
        if isa(element, IntegerType):
            return self._add(arith.ConstantOp(IntegerAttr(int(number), element)))
        return self._add(arith.ConstantOp(FloatAttr(float(number), element)))  # type: ignore[arg-type]

    def _index(self, number: int) -> SSAValue:
        """An index constant, created once per kernel."""
        if number not in self.constants:
            op = arith.ConstantOp(IntegerAttr(number, IndexType()))
            if (first := self.block.first_op) is None:
                self.block.add_op(op)
            else:
                self.block.insert_op_before(op, first)
            self.constants[number] = op.result
        return self.constants[number]

    def _index_op(self, cls: Callable[[SSAValue, SSAValue], Operation], value: SSAValue, number: int) -> SSAValue:
        return self._add(cls(value, self._index(number)))

    def _moved(self, base: SSAValue, at: SSAValue, step: int) -> SSAValue:
        """``base + at * step``."""
        way = at if step == 1 else self._index_op(arith.MuliOp, at, step)
        return way if base is self.constants.get(0) else self._add(arith.AddiOp(base, way))

    def _bases(self, row: SSAValue, dimensions: Sequence[tuple[int, tuple[int, int]]]) -> list[SSAValue]:
        """The offset of the first element of a row, in the operand and in the results."""
        bases = [self._index(0), self._index(0)]
        real = [(size, steps) for size, steps in dimensions if size > 1]
        for i, (size, steps) in reversed(list(enumerate(real))):
            at = self._index_op(arith.RemUIOp, row, size) if i else row
            row = self._index_op(arith.DivUIOp, row, size) if i else row
            bases = [self._moved(base, at, step) for base, step in zip(bases, steps, strict=True)]
        return bases

    def _for(
        self,
        start: SSAValue,
        stop: SSAValue,
        step: int,
        carried: Sequence[SSAValue],
        body: Callable[[SSAValue, list[SSAValue]], Sequence[SSAValue]],
    ) -> None:
        block = Block(arg_types=[IndexType(), *(value.type for value in carried)])
        self.scopes.append(block)
        self._add(scf.YieldOp(*body(block.args[0], list(block.args[1:]))))
        self.scopes.pop()
        self._add(scf.ForOp(start, stop, self._index(step), carried, block))


def _bits(dtype: str) -> int:
    return machine_type(dtype).bitwidth  # type: ignore[attr-defined]
