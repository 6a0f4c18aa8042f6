"""The ops of a kernel, written into nested scopes: each op in the outermost one in which its operands are known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from xdsl.dialects import arith
from xdsl.dialects.builtin import FloatAttr, IndexType, IntegerAttr, IntegerType, VectorType, i64
from xdsl.ir import Attribute, Block, Operation, SSAValue

from fxc.dialects.tile import CastOp, CompareOp, GatherOp, IotaOp, LoadOp, ScatterOp, SelectOp, SplatOp, StoreOp
from fxc.dialects.tile.blocks import CASTS
from fxc.dialects.tile.types import PtrType
from fxc.passes.lowering._tile.forms import Form, Quotient


@dataclass
class Scope:
    """A place for ops: the loops known in it, what was computed in it, and which lanes count."""

    block: Block
    loops: dict[int, SSAValue] = field(default_factory=dict)
    known: dict[Any, Value] = field(default_factory=dict)
    mask: SSAValue | None = None


@dataclass(frozen=True)
class Value:
    """A number or a block of ``lanes`` numbers, and the scope that it was computed in."""

    ssa: SSAValue
    depth: int

    @property
    def is_block(self) -> bool:
        return isinstance(self.ssa.type, VectorType)


class Writer:
    """Writes ops with ``lanes`` numbers a block along the loop ``lane``."""

    def __init__(self, block: Block, lanes: int, lane: int | None) -> None:
        self.lanes, self.lane = lanes, lane
        self.scopes = [Scope(block)]

    @property
    def depth(self) -> int:
        return len(self.scopes) - 1

    def add(self, op: Operation, depth: int | None = None) -> SSAValue:
        self.scopes[self.depth if depth is None else depth].block.add_op(op)
        return op.results[0] if op.results else None  # type: ignore[return-value]

    def find(self, key: Any) -> Value | None:
        """What was computed for ``key`` in a scope around."""
        for scope in reversed(self.scopes):
            if key in scope.known:
                return scope.known[key]
        return None

    def keep(self, key: Any, value: Value) -> Value:
        self.scopes[value.depth].known[key] = value
        return value

    def index(self, number: int) -> SSAValue:
        """A constant, once a kernel."""
        key = ("index", number)
        found = self.find(key)
        if found is None:
            op = arith.ConstantOp(IntegerAttr(number, IndexType()))
            first = self.scopes[0].block.first_op
            if first is None:
                self.scopes[0].block.add_op(op)
            else:
                self.scopes[0].block.insert_op_before(op, first)
            found = self.keep(key, Value(op.result, 0))
        return found.ssa

    def apply(self, op: Operation, operands: Sequence[Value]) -> Value:
        """The op of a body on scalars ``op`` for these operands, which may be blocks."""
        if isinstance(op, arith.BitcastOp) and _is_byte(op.input.type) and _is_byte(op.result.type):
            return operands[0]
        key = (op.name, tuple(value.ssa for value in operands), tuple(op.properties.items()), op.results[0].type)
        if (found := self.find(key)) is not None:
            return found
        depth = max((value.depth for value in operands), default=0)
        if any(value.is_block for value in operands):
            operands = [self.block(value) for value in operands]
            new = _on_blocks(op, [value.ssa for value in operands], self.lanes)
        else:
            new = op.clone(dict(zip(op.operands, [value.ssa for value in operands], strict=True)))
        new.results[0].name_hint = op.results[0].name_hint
        return self.keep(key, Value(self.add(new, depth), depth))

    def block(self, value: Value) -> Value:
        """``value`` in every lane."""
        if value.is_block:
            return value
        key = ("splat", value.ssa)
        found = self.find(key)
        return found or self.keep(key, Value(self.add(SplatOp.of(value.ssa, [self.lanes]), value.depth), value.depth))

    def constant(self, op: arith.ConstantOp) -> Value:
        """The number of ``op``, once a kernel."""
        return self.apply(op, [])

    def zero(self, element: Attribute) -> SSAValue:
        """What lanes that do not count are."""
        attribute = IntegerAttr(0, element) if isinstance(element, IntegerType) else FloatAttr(0.0, element)  # type: ignore[arg-type]
        return self.constant(arith.ConstantOp(attribute)).ssa

    # addresses

    def offset(self, form: Form) -> Value:
        """The value of ``form``, added up from the outermost scope to the innermost that it depends on."""
        total: Value | None = None
        for depth in range(len(self.scopes)):
            mine = [(atom, f) for atom, f in form.terms if self._depth(atom) == depth]
            for atom, factor in mine:
                term = self._times(self._atom(atom, depth), factor, depth)
                total = Value(term if total is None else self._op(arith.AddiOp, total.ssa, term, depth), depth)
        if total is None:
            return Value(self.index(form.constant), 0)
        if form.constant:
            return Value(self._op(arith.AddiOp, total.ssa, self.index(form.constant), total.depth), total.depth)
        return total

    def _depth(self, atom: int | Quotient) -> int:
        """The scope in which ``atom`` is known."""
        loops = {atom} if isinstance(atom, int) else atom.form.loops()
        return max((depth for depth, scope in enumerate(self.scopes) if loops & scope.loops.keys()), default=0)

    def _atom(self, atom: int | Quotient, depth: int) -> SSAValue:
        if isinstance(atom, int):
            return self.scopes[depth].loops[atom]
        return self._op(arith.DivUIOp, self.offset(atom.form).ssa, self.index(atom.divisor), depth)

    def _times(self, value: SSAValue, factor: int, depth: int) -> SSAValue:
        return value if factor == 1 else self._op(arith.MuliOp, value, self.index(factor), depth)

    def _op(self, cls: type[Operation], left: SSAValue, right: SSAValue, depth: int) -> SSAValue:
        key = (cls, left, right)
        found = self.find(key)
        return (found or self.keep(key, Value(self.add(cls(left, right), depth), depth))).ssa  # type: ignore[call-arg]

    def number(self, form: Form) -> Value:
        """The value of ``form`` as a number of 64 bits, or one in each lane."""
        if self.lane in form.loops():
            return Value(self.offsets(form), self.depth)
        offset = self.offset(form)
        return Value(self.add(arith.IndexCastOp(offset.ssa, i64), offset.depth), offset.depth)

    def offsets(self, form: Form) -> SSAValue:
        """The value of ``form`` in each lane, where the lane loop is divided: its first lane, and what follows."""
        lanes = [self._lane_number()]
        total = self._whole(form.constant)
        for atom, factor in form.terms:
            if isinstance(atom, Quotient) and self.lane in atom.form.loops():
                part = self.add(arith.DivSIOp(self.offsets(atom.form), self._whole(atom.divisor)))
            elif atom == self.lane:
                part = lanes[0]
            else:
                depth = self._depth(atom)
                number = self.add(arith.IndexCastOp(self._atom(atom, depth), i64), depth)
                part = self.add(SplatOp.of(number, [self.lanes]), depth)
            scaled = part if factor == 1 else self.add(arith.MuliOp(part, self._whole(factor)))
            total = self.add(arith.AddiOp(total, scaled))
        return total

    def _lane_number(self) -> SSAValue:
        assert self.lane is not None
        key = "lane numbers"
        if (found := self.scopes[-1].known.get(key)) is None:
            first = self.scopes[self._depth(self.lane)].loops[self.lane]
            start = self.add(SplatOp.of(self.add(arith.IndexCastOp(first, i64)), [self.lanes]))
            number = self.add(arith.AddiOp(start, self.add(IotaOp.of([self.lanes], 0))))
            found = self.keep(key, Value(number, self.depth))
        return found.ssa

    def _whole(self, number: int) -> SSAValue:
        return self.block(self.constant(arith.ConstantOp(IntegerAttr(number, i64)))).ssa

    # memory

    def load(self, pointer: SSAValue, form: Form) -> Value:
        """The elements at ``form``: a block where it depends on the lane loop, else a number."""
        key = ("load", pointer, form)
        if (found := self.find(key)) is not None:
            return found
        assert isinstance(pointer.type, PtrType)
        element = pointer.type.value_type
        if self.lane not in form.loops():
            base = self.offset(form)
            return self.keep(key, Value(self.add(LoadOp.of(pointer, base.ssa, [], element), base.depth), base.depth))
        divided = self.lane in form.divided_loops()
        depth = self.depth if divided else max(self._depth(loop) for loop in form.loops())
        type, mask = VectorType(element, [self.lanes]), self.scopes[depth].mask  # type: ignore[arg-type]
        other = None if mask is None else self.zero(element)
        if divided:
            op = GatherOp.of(pointer, self.offsets(form), type, mask, other)
        else:
            op = LoadOp.of(pointer, self.offset(form).ssa, [form.factor(self._lane())], type, mask, other)
        return self.keep(key, Value(self.add(op, depth), depth))

    def store(self, value: Value, pointer: SSAValue, form: Form, *, in_lanes: bool) -> None:
        """Store at ``form``: a block where the scope runs in lanes."""
        if not in_lanes:
            self.add(StoreOp.of(value.ssa, pointer, self.offset(form).ssa, []))
            return
        block, mask = self.block(value).ssa, self.scopes[-1].mask
        if self.lane in form.divided_loops():
            self.add(ScatterOp.of(block, pointer, self.offsets(form), mask))
        else:
            self.add(StoreOp.of(block, pointer, self.offset(form).ssa, [form.factor(self._lane())], mask))

    def _lane(self) -> int:
        assert self.lane is not None
        return self.lane


def _is_byte(type: Attribute) -> bool:
    return isinstance(type, IntegerType) and type.width.data == 8


def _on_blocks(op: Operation, operands: Sequence[SSAValue], lanes: int) -> Operation:
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
    type = VectorType(op.results[0].type, [lanes])  # type: ignore[arg-type]
    return op.__class__.create(operands=operands, properties=op.properties, result_types=[type])
