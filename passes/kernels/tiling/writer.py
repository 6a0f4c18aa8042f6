"""The ops of a kernel, written into nested scopes: each op in the outermost one in which its operands are defined."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

from xdsl.dialects import arith
from xdsl.dialects.builtin import FloatAttr, IndexType, IntegerAttr, IntegerType, VectorType, i64
from xdsl.ir import Attribute, Block, Operation, SSAValue

from fxc.dialects.attributes.size_polynomials import Steps
from fxc.dialects.attributes.values import isa
from fxc.dialects.tile import (
    CastOp,
    CompareOp,
    GatherOp,
    IotaOp,
    LoadOp,
    MaskOp,
    RandomOp,
    ScatterOp,
    SelectOp,
    SplatOp,
    StoreOp,
    TransposeOp,
)
from fxc.dialects.tile.blocks import CASTS
from fxc.dialects.tile.memory import ATOMICS
from fxc.dialects.tile.types import PtrType
from fxc.passes.analysis.index.forms import Atom, Form, Quotient, Symbol


@dataclass(frozen=True)
class Axis:
    """A dimension of blocks: ``lanes`` steps of ``loop``."""

    loop: int
    lanes: int


@dataclass
class Scope:
    """A position for ops, with its loops, known values, and active lanes.

    ``bounds``: loop -> the number of the first lane, and the end below which lanes are active. Without bounds all are active.
    ``may_be_skipped``: whether the kernel may run without running ``block``, such as a loop of an unknown number of steps.
    """

    block: Block
    loops: dict[int, SSAValue] = field(default_factory=lambda: {})
    known: dict[Any, Value] = field(default_factory=lambda: {})
    bounds: Mapping[int, tuple[SSAValue, SSAValue]] = field(default_factory=lambda: {})
    may_be_skipped: bool = False


@dataclass(frozen=True)
class Value:
    """A number or a block of numbers, with the depth of the scope that computes it."""

    ssa: SSAValue
    depth: int

    @property
    def is_block(self) -> bool:
        return isinstance(self.ssa.type, VectorType)


class BlockWriter:
    """Writes ops on blocks along ``axes``, or on numbers where there are none.

    ``may_be_empty``: pointers to tensors that may have no elements. Their loads stay in loops that run only if there are some.
    """

    def __init__(
        self, block: Block, symbols: Mapping[str, SSAValue] | None = None, may_be_empty: Set[SSAValue] = frozenset()
    ) -> None:
        self.may_be_empty = may_be_empty
        self.axes: tuple[Axis, ...] = ()
        self.scopes = [Scope(block)]
        self.symbols = dict(symbols or {})
        """Symbolic size -> the kernel's argument for it."""

    @property
    def shape(self) -> list[int]:
        """The shape of blocks."""
        return [axis.lanes for axis in self.axes]

    @property
    def depth(self) -> int:
        return len(self.scopes) - 1

    def add(self, op: Operation, depth: int | None = None) -> SSAValue:
        self.scopes[self.depth if depth is None else depth].block.add_op(op)
        return op.results[0] if op.results else None  # type: ignore[return-value]

    def find(self, key: Any) -> Value | None:
        """The value recorded for ``key`` in an enclosing scope, else None."""
        for scope in reversed(self.scopes):
            if key in scope.known:
                return scope.known[key]
        return None

    def save(self, key: Any, value: Value) -> Value:
        self.scopes[value.depth].known[key] = value
        return value

    def index(self, number: int) -> SSAValue:
        """An index constant, created once per kernel."""
        key = ("index", number)
        found = self.find(key)
        if found is None:
            op = arith.ConstantOp(IntegerAttr(number, IndexType()))
            first = self.scopes[0].block.first_op
            if first is None:
                self.scopes[0].block.add_op(op)
            else:
                self.scopes[0].block.insert_op_before(op, first)
            found = self.save(key, Value(op.result, 0))
        return found.ssa

    def size(self, size: Steps) -> SSAValue:
        """A number of steps, computed once per kernel."""
        if isinstance(size, int):
            return self.index(size)
        total: SSAValue | None = None
        for names, factor in size.terms:
            term: SSAValue | None = None
            for name in names:
                term = self.symbols[name] if term is None else self._op(arith.MuliOp, term, self.symbols[name], 0)
            term = self.index(factor) if term is None else self._times(term, factor, 0)
            total = term if total is None else self._op(arith.AddiOp, total, term, 0)
        assert total is not None
        return total

    def shares(self, size: Steps, length: int) -> SSAValue:
        """``size`` divided by ``length``, rounded up, computed once per kernel."""
        whole = self.size(size) if length == 1 else self._op(arith.AddiOp, self.size(size), self.index(length - 1), 0)
        return whole if length == 1 else self._op(arith.DivUIOp, whole, self.index(length), 0)

    def plus(self, left: SSAValue, right: SSAValue) -> SSAValue:
        """The sum of two numbers that are defined in the whole kernel."""
        return self._op(arith.AddiOp, left, right, 0)

    def times(self, left: SSAValue, right: SSAValue) -> SSAValue:
        """The product of two numbers that are defined in the whole kernel."""
        return self._op(arith.MuliOp, left, right, 0)

    def apply(self, op: Operation, operands: Sequence[Value]) -> Value:
        """The scalar op ``op`` of a body, applied to these operands, which may be blocks."""
        if isinstance(op, arith.BitcastOp) and _is_byte(op.input.type) and _is_byte(op.result.type):
            return operands[0]
        if (narrow := _before_widening(op, operands[0].ssa if operands else None)) is not None:
            return Value(narrow, operands[0].depth)
        key = (op.name, tuple(value.ssa for value in operands), tuple(op.properties.items()), op.results[0].type)
        if (found := self.find(key)) is not None:
            return found
        depth = max((value.depth for value in operands), default=0)
        if any(value.is_block for value in operands):
            first = 1 if isinstance(op, RandomOp) else 0  # the seed is the same for all lanes
            operands = [*operands[:first], *(self.block(value) for value in operands[first:])]
            new = _on_blocks(op, [value.ssa for value in operands], self.shape)
        else:
            new = op.clone(dict(zip(op.operands, [value.ssa for value in operands], strict=True)))
        new.results[0].name_hint = op.results[0].name_hint
        return self.save(key, Value(self.add(new, depth), depth))

    def block(self, value: Value) -> Value:
        """``value`` broadcast to all lanes."""
        if value.is_block:
            return value
        key = ("splat", value.ssa, *self.shape)
        found = self.find(key)
        return found or self.save(key, Value(self.add(SplatOp.of(value.ssa, self.shape), value.depth), value.depth))

    def constant(self, op: arith.ConstantOp) -> Value:
        """The constant of ``op``, created once per kernel."""
        return self.apply(op, [])

    def zero(self, element: Attribute) -> SSAValue:
        """The value of inactive lanes."""
        attribute = IntegerAttr(0, element) if isa(element, IntegerType) else FloatAttr(0.0, element)  # type: ignore[arg-type]
        return self.constant(arith.ConstantOp(attribute)).ssa

    # addresses

    def offset(self, form: Form) -> Value:
        """The value of ``form``, with each term computed in the outermost scope that defines it."""
        total: Value | None = None
        for depth in range(len(self.scopes)):
            mine = [(atom, f) for atom, f in form.terms if self._depth(atom) == depth]
            for atom, factor in mine:
                term = self._times(self._atom(atom, depth), factor, depth)
                total = Value(term if total is None else self._op(arith.AddiOp, total.ssa, term, depth), depth)
        if total is None:
            return Value(self.size(form.constant), 0)
        if form.constant:
            return Value(self._op(arith.AddiOp, total.ssa, self.size(form.constant), total.depth), total.depth)
        return total

    def _depth(self, atom: Atom) -> int:
        """The depth of the scope in which ``atom`` is defined."""
        assert not isinstance(atom, Symbol)  # reads at computed positions substitute symbols first
        loops = {atom} if isinstance(atom, int) else atom.form.loops()
        return max((depth for depth, scope in enumerate(self.scopes) if loops & scope.loops.keys()), default=0)

    def _atom(self, atom: Atom, depth: int) -> SSAValue:
        assert not isinstance(atom, Symbol)
        if isinstance(atom, int):
            return self.scopes[depth].loops[atom]
        divide = arith.DivUIOp if atom.is_natural else arith.FloorDivSIOp
        return self._op(divide, self.offset(atom.form).ssa, self.size(atom.divisor), depth)

    def _times(self, value: SSAValue, factor: Steps, depth: int) -> SSAValue:
        return value if factor == 1 else self._op(arith.MuliOp, value, self.size(factor), depth)

    def _stride(self, factor: Steps) -> int | SSAValue:
        return factor if isinstance(factor, int) else self.size(factor)

    def strides(self, form: Form, axes: Sequence[Axis]) -> list[int | SSAValue]:
        """The distances of lanes in memory along ``axes``."""
        return [self._stride(form.factor(axis.loop)) for axis in axes]

    def _op(self, cls: type[Operation], left: SSAValue, right: SSAValue, depth: int) -> SSAValue:
        key = (cls, left, right)
        found = self.find(key)
        return (found or self.save(key, Value(self.add(cls(left, right), depth), depth))).ssa  # type: ignore[call-arg]

    def number(self, form: Form) -> Value:
        """The value of ``form`` as a 64-bit number, or a block with one in each lane."""
        if self._lane_loops() & form.loops():
            return Value(self.offsets(form), self.depth)
        if not form.terms and isinstance(form.constant, int):
            return self.constant(arith.ConstantOp(IntegerAttr(form.constant, i64)))
        offset = self.offset(form)
        return Value(self.add(arith.IndexCastOp(offset.ssa, i64), offset.depth), offset.depth)

    def offsets(self, form: Form) -> SSAValue:
        """The value of ``form`` in each lane, for forms that divide a loop of lanes."""
        total, loops = self._whole(form.constant), self._lane_loops()
        for atom, factor in form.terms:
            if isinstance(atom, Quotient) and loops & atom.form.loops():
                part = self.add(division(atom)(self.offsets(atom.form), self._whole(atom.divisor)))
            elif atom in loops:
                part = self._lane_numbers(atom)
            else:
                depth = self._depth(atom)
                number = self.add(arith.IndexCastOp(self._atom(atom, depth), i64), depth)
                part = self.add(SplatOp.of(number, self.shape), depth)
            scaled = part if factor == 1 else self.add(arith.MuliOp(part, self._whole(factor)))
            total = self.add(arith.AddiOp(total, scaled))
        return total

    def _lane_loops(self) -> set[Atom]:
        return {axis.loop for axis in self.axes}

    def _lane_numbers(self, loop: Atom) -> SSAValue:
        """The step of ``loop`` in each lane."""
        key = ("lane numbers", loop)
        if (found := self.scopes[-1].known.get(key)) is None:
            dim = next(dim for dim, axis in enumerate(self.axes) if axis.loop == loop)
            first = self.scopes[self._depth(loop)].loops[self.axes[dim].loop]
            start = self.add(SplatOp.of(self.add(arith.IndexCastOp(first, i64)), self.shape))
            number = self.add(arith.AddiOp(start, self.add(IotaOp.of(self.shape, dim))))
            found = self.save(key, Value(number, self.depth))
        return found.ssa

    def _whole(self, number: Steps) -> SSAValue:
        return self.block(self.number(Form(number))).ssa

    # active lanes

    def mask(self, depth: int, axes: Sequence[Axis]) -> SSAValue | None:
        """The mask of the active lanes of a block along ``axes`` in the scope ``depth``; None where all are active."""
        depth = self.bounded(depth)
        bounds = self.scopes[depth].bounds
        key = ("mask", *axes)
        if (found := self.scopes[depth].known.get(key)) is not None:
            return found.ssa
        shape, total = [axis.lanes for axis in axes], None
        for dim, axis in enumerate(axes):
            if axis.loop in bounds:
                part = self.add(MaskOp.of(*bounds[axis.loop], shape, dim), depth)
                part.name_hint = "mask"
                total = part if total is None else self.add(arith.AndIOp(total, part), depth)
        return None if total is None else self.save(key, Value(total, depth)).ssa

    def bounded(self, depth: int) -> int:
        """The outermost scope around ``depth`` that has its active lanes."""
        while depth and self.scopes[depth - 1].bounds == self.scopes[depth].bounds:
            depth -= 1
        return depth

    # memory

    def load(self, pointer: SSAValue, form: Form) -> Value:
        """The elements at ``form``: a block where it depends on a loop of lanes, else a number."""
        key = ("load", pointer, form)
        if (found := self.find(key)) is not None:
            return found
        assert isinstance(pointer.type, PtrType)
        element = pointer.type.value_type
        if not self._lane_loops() & form.loops():
            base = self.offset(form)
            depth = max(base.depth, self._least_depth(pointer))
            return self.save(key, self._named(LoadOp.of(pointer, base.ssa, [], element), depth, pointer))
        divided = self._lane_loops() & form.divided_loops()
        depth = self.depth if divided else max(self._least_depth(pointer), *(self._depth(loop) for loop in form.loops()))
        axes = self.axes if divided else self._order(form)
        type, mask = VectorType(element, [axis.lanes for axis in axes]), self.mask(depth, axes)
        other = None if mask is None else self.zero(element)
        if divided:
            op = GatherOp.of(pointer, self.offsets(form), type, mask, other)
        else:
            op = LoadOp.of(pointer, self.offset(form).ssa, self.strides(form, axes), type, mask, other)
        loaded = self._named(op, depth, pointer)
        return self.save(key, loaded if axes == self.axes else Value(self._turned(loaded.ssa, depth), depth))

    def _least_depth(self, pointer: SSAValue) -> int:
        """The outermost scope to which a load may move: one that is not skipped where ``pointer`` has no elements."""
        skipped = [depth for depth, scope in enumerate(self.scopes) if scope.may_be_skipped]
        return max(skipped, default=0) if pointer in self.may_be_empty else 0

    def store(self, value: Value, pointer: SSAValue, form: Form) -> None:
        """Store ``value`` at ``form``, as a block where the scope has lanes."""
        if not self.axes:
            self.add(StoreOp.of(value.ssa, pointer, self.offset(form).ssa, []))
            return
        block = self.block(value).ssa
        if self._lane_loops() & form.divided_loops():
            self.add(ScatterOp.of(block, pointer, self.offsets(form), self.mask(self.depth, self.axes)))
            return
        axes = self._order(form)
        block = block if axes == self.axes else self._turned(block, self.depth)
        steps = self.strides(form, axes)
        self.add(StoreOp.of(block, pointer, self.offset(form).ssa, steps, self.mask(self.depth, axes)))

    def accumulate(self, kind: str, value: Value, place: Value, pointer: SSAValue) -> None:
        """Combine ``value`` with the element at offset ``place``, in each lane where that is not negative."""
        updates, places = (self.block(each).ssa if self.axes else each.ssa for each in (value, place))
        zero = self.constant(arith.ConstantOp(IntegerAttr(0, i64)))
        some = self.add(CompareOp.of("sge", places, self.block(zero).ssa if self.axes else zero.ssa))
        mask = self.mask(self.depth, self.axes)
        some = some if mask is None else self.add(arith.AndIOp(some, mask))
        self.add(ATOMICS[kind].of(updates, pointer, places, some))

    def _order(self, form: Form) -> tuple[Axis, ...]:
        """The axes, swapped where elements are contiguous along the first and not along the last."""
        factors = [form.factor(axis.loop) for axis in self.axes]
        return self.axes[::-1] if len(factors) == 2 and factors[0] == 1 and factors[1] not in (0, 1) else self.axes

    def _turned(self, block: SSAValue, depth: int) -> SSAValue:
        turned = self.add(TransposeOp.of(block, [1, 0]), depth)
        turned.name_hint = block.name_hint
        return turned

    def _named(self, op: LoadOp | GatherOp, depth: int, pointer: SSAValue) -> Value:
        """The value that ``op`` loads, named after the tensor."""
        loaded = self.add(op, depth)
        loaded.name_hint = pointer.name_hint
        return Value(loaded, depth)


def division(quotient: Quotient) -> type[arith.DivSIOp | arith.FloorDivSIOp]:
    """The op for signed division: rounding towards zero is rounding down where the numerator is not negative."""
    return arith.DivSIOp if quotient.is_natural else arith.FloorDivSIOp


def _is_byte(type: Attribute) -> bool:
    return isa(type, IntegerType) and type.width.data == 8


def _before_widening(op: Operation, operand: SSAValue | None) -> SSAValue | None:
    """The operand of the widening conversion that ``op``, a narrowing one, would undo, else None."""
    if not isinstance(op, arith.TruncFOp) or operand is None or not isinstance(operand.owner, arith.ExtFOp):
        return None
    narrow = operand.owner.input
    element = narrow.type.element_type if isa(narrow.type, VectorType) else narrow.type
    return narrow if element == op.result.type else None


def _on_blocks(op: Operation, operands: Sequence[SSAValue], shape: Sequence[int]) -> Operation:
    """The op that does in every lane what ``op`` does with numbers."""
    kind = op.name.removeprefix("arith.")
    if kind in CASTS:
        return CastOp.of(kind, operands[0], op.results[0].type)
    if isinstance(op, arith.SelectOp):
        return SelectOp.of(*operands)
    if isinstance(op, arith.CmpiOp):
        return CompareOp.of(arith.CMPI_COMPARISON_OPERATIONS[op.predicate.value.data], *operands)
    if isinstance(op, arith.CmpfOp):
        return CompareOp.of(arith.CMPF_COMPARISON_OPERATIONS[op.predicate.value.data], *operands)
    type = VectorType(op.results[0].type, shape)
    return op.__class__.create(operands=operands, properties=op.properties, result_types=[type])
