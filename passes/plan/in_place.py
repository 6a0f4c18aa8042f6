"""Check whether a kernel may write a tensor over one that it reads."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from functools import cached_property

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, DictionaryAttr, IntegerAttr, UnitAttr
from xdsl.ir import Block, BlockArgument, Operation, SSAValue, Use

from fxc.dialects.plan import IN_PLACE
from fxc.dialects.tile import KernelOp, LastProgramOp, LoadOp, MaskOp, ProgramIdOp, ScheduleAttr, StoreOp
from fxc.dialects.tile.types import shape_of

SCHEDULE = "schedule"


def writes_over(kernel: KernelOp, read: BlockArgument, written: BlockArgument) -> bool:
    """Whether ``kernel`` computes the same result if ``read`` and ``written`` point to the same tensor.

    No program may load an element that this or another program has already stored. An elementwise kernel stores each element
    once: each load of ``read`` must precede a store to ``written`` at the same address in the same block. A program of an
    inner kernel accesses a separate row, of which it must not load elements after storing them. The last program may read
    ``written`` after all stores.
    """
    schedule = kernel.attributes.get(SCHEDULE)
    if not isinstance(schedule, ScheduleAttr) or kernel.access(written) != "write":
        return False
    loads = [use.operation for use in read.uses]
    uses = [use for use in written.uses if not isinstance(use.operation, LastProgramOp)]
    stores = [use.operation for use in uses]
    if not all(isinstance(op, LoadOp) for op in loads) or not all(map(_is_store, uses)):
        return False
    if schedule.kind.data == "elementwise":
        return len(uses) == written.uses.get_length() and _meet_at_once(loads, stores)
    if schedule.kind.data != "inner" or not isinstance(kernel.grid, DenseArrayBase) or len(kernel.grid.get_values()) > 1:
        return False
    return _stay_in_their_rows([*map(_Access, loads)], [*map(_Access, stores)])


def _is_store(use: Use) -> bool:
    return isinstance(use.operation, StoreOp) and use.operation.pointer is use.operation.operands[use.index]


def _meet_at_once(loads: list[Operation], stores: list[Operation]) -> bool:
    places = {_address(store): store for store in stores}
    if len(places) != len(stores):
        return False
    return all((store := places.get(_address(load))) is not None and load.is_before_in_block(store) for load in loads)


def _address(op: Operation) -> tuple[Block | None, Hashable]:
    """The block and the address of a load or store. Ops of equal address access the same elements in each execution."""
    assert isinstance(op, (LoadOp, StoreOp))
    block = op.result.type if isinstance(op, LoadOp) else op.value.type
    return op.parent, (op.base, tuple(op.strides()), op.mask, block)


def _stay_in_their_rows(loads: list[_Access], stores: list[_Access]) -> bool:
    """Whether all accesses are in the program's row, and no load may read an element that a store has written."""
    rows = {access.row for access in (*loads, *stores)}
    if len(rows) != 1 or None in rows or not all(access.is_inside for access in (*loads, *stores)):
        return False
    return not any(load.may_follow(store) for load in loads for store in stores)


@dataclass(frozen=True, eq=False)
class _Access:
    """A load or store whose base is the sum of the start of a row, ``program * length``, and a position in the row."""

    op: Operation

    @cached_property
    def row(self) -> SSAValue | None:
        starts = [value for value in _terms(self._base) if _row_length(value)]
        return starts[0] if len(starts) == 1 else None

    @cached_property
    def place(self) -> tuple[tuple[SSAValue, ...], int]:
        """The position in the row: loop counters, and the constant that is added to them."""
        return _place([value for value in _terms(self._base) if value is not self.row])

    @cached_property
    def size(self) -> int | None:
        """The number of elements if they are contiguous, else None."""
        assert isinstance(self.op, (LoadOp, StoreOp))
        shape = shape_of(self.op.result.type if isinstance(self.op, LoadOp) else self.op.value.type)
        return (shape[0] if shape else 1) if self.op.strides() in ([], [1]) else None

    @cached_property
    def span(self) -> tuple[int, int] | None:
        """The first and last position in the row over all counter values; None if they are not known."""
        counters, number = self.place
        ranges = [_range(counter) for counter in counters]
        if self.size is None or any(found is None for found in ranges):
            return None
        first, last = (number + sum(found[i] for found in ranges if found) for i in (0, 1))
        end = self._end
        return first, (last + self.size if end is None else end) - 1

    @property
    def is_inside(self) -> bool:
        return self.span is not None and self.row is not None and self.span[0] >= 0 and self.span[1] < _row_length(self.row)

    def may_follow(self, store: _Access) -> bool:
        """Whether this load may read an element that ``store`` in the same row has already written."""
        assert self.span is not None and store.span is not None and self.row is not None
        if self.span[1] < store.span[0] or store.span[1] < self.span[0]:
            return False
        block = self.row.owner.parent if isinstance(self.row.owner, Operation) else None
        above = [None if block is None else block.find_ancestor_op_in_block(access.op) for access in (self, store)]
        if above[0] is None or above[1] is None:
            return True
        if above[0] is not above[1]:
            return not above[0].is_before_in_block(above[1])
        (counters, mine), (others, theirs) = self.place, store.place
        if self.op.parent is not store.op.parent or counters != others or len(counters) > 1:
            return True
        assert self.size is not None and store.size is not None
        reach = abs(mine - theirs) + max(self.size, store.size)
        if any((found := _range(counter)) is None or found[2] < reach for counter in counters):
            return True  # accesses of one iteration overlap those of the next
        if mine == theirs and self.size == store.size:
            return not self.op.is_before_in_block(store.op)
        return abs(mine - theirs) < max(self.size, store.size)

    @property
    def _base(self) -> SSAValue:
        assert isinstance(self.op, (LoadOp, StoreOp))
        return self.op.base

    @property
    def _end(self) -> int | None:
        """The position in the row at which the mask ends the access; None if there is no such mask or it is not constant."""
        assert isinstance(self.op, (LoadOp, StoreOp))
        mask = None if self.op.mask is None else self.op.mask.owner
        if not isinstance(mask, MaskOp) or _place([*_terms(mask.start)]) != self.place:
            return None
        return _number(mask.stop)


def _terms(value: SSAValue) -> Iterator[SSAValue]:
    """The terms of the sum that ``value`` is."""
    if isinstance(value.owner, arith.AddiOp):
        for operand in value.owner.operands:
            yield from _terms(operand)
    else:
        yield value


def _place(terms: list[SSAValue]) -> tuple[tuple[SSAValue, ...], int]:
    numbers = [(term, _number(term)) for term in terms]
    return tuple(term for term, number in numbers if number is None), sum(number or 0 for _, number in numbers)


def _number(value: SSAValue) -> int | None:
    owner = value.owner
    return owner.value.value.data if isinstance(owner, arith.ConstantOp) and isinstance(owner.value, IntegerAttr) else None


def _row_length(value: SSAValue) -> int:
    """``length`` if ``value`` is ``row * length`` with a row that only this program accesses, once; else 0."""
    owner = value.owner
    if not isinstance(owner, arith.MuliOp) or not (isinstance(owner.lhs.owner, ProgramIdOp) or _is_row_of_several(owner.lhs)):
        return 0
    return _number(owner.rhs) or 0


def _is_row_of_several(row: SSAValue) -> bool:
    """Whether ``row`` is a loop counter that starts at ``program * rows``, has step 1 and at most ``rows`` iterations."""
    loop = row.owner.parent_op() if isinstance(row, BlockArgument) else None
    if not isinstance(loop, scf.ForOp) or loop.body.block.args[0] is not row or _number(loop.step) != 1:
        return False
    first, end = loop.lb.owner, loop.ub.owner
    if not isinstance(first, arith.MuliOp) or not isinstance(first.lhs.owner, ProgramIdOp):
        return False
    if not isinstance(end, arith.AddiOp) or end.lhs is not loop.lb:
        return False
    some = end.rhs.owner.operands if isinstance(end.rhs.owner, arith.MinUIOp) else (end.rhs,)
    return any(value is first.rhs or (_number(value) or -1) == _number(first.rhs) for value in some)


def _range(counter: SSAValue) -> tuple[int, int, int] | None:
    """The first and last value of a loop counter, and its step; None if these are not known."""
    loop = counter.owner.parent_op() if isinstance(counter, BlockArgument) else None
    if not isinstance(loop, scf.ForOp) or loop.body.block.args[0] is not counter:
        return None
    first, end, step = map(_number, (loop.lb, loop.ub, loop.step))
    if first is None or end is None or not step or end <= first:
        return None
    return first, first + (end - 1 - first) // step * step, step


def allow(kernel: KernelOp, *arguments: BlockArgument) -> None:
    """Mark the pointers ``arguments`` of ``kernel``: they may be equal."""
    attributes = [dict(kernel.argument_attributes(argument)) for argument in kernel.body.block.args]
    for argument in arguments:
        attributes[argument.index][IN_PLACE] = UnitAttr()
    kernel.properties["arg_attrs"] = ArrayAttr([DictionaryAttr(each) for each in attributes])
