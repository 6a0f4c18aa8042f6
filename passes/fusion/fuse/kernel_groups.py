"""Grouping of ops into kernels: pointwise ops, reductions, and views between them."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, TypeAlias

from xdsl.dialects.builtin import FixedBitwidthType, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, OpResult, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.traits import IsTerminator
from xdsl.utils.exceptions import VerifyException

from fxc.dialects.attributes.size_polynomials import names_in
from fxc.dialects.attributes.types import IntType, is_tensor, overlaps, strides, tensor_of
from fxc.dialects.base.effects import aliases
from fxc.dialects.fusion import YieldOp
from fxc.dialects.torch_ops.base import TorchOp
from fxc.passes.analysis.constants import is_scalar_constant
from fxc.passes.analysis.requires_grad import needs_gradient
from fxc.passes.analysis.size_values import HintedSizes
from fxc.passes.analysis.structural_key import Structures
from fxc.passes.analysis.written_arguments import new_values
from fxc.passes.fusion.fuse.candidates import VALUES, Border, Groups, is_chunk
from fxc.passes.fusion.fuse.cost import (
    CODE,
    LENGTH,
    MOST_COPIES,
    MOST_OPERATIONS,
    ROOM,
    WORK,
    CostModel,
    Extent,
    assumed,
    updates_of,
    updates_shape,
)
from fxc.passes.library.layouts import is_turned
from fxc.passes.operators.assembling import MOST_PARTS
from fxc.passes.operators.generics import NOTHING, Generics
from fxc.passes.operators.record import Role
from fxc.passes.operators.reductions import dimensions
from fxc.passes.operators.rules import Conversion, Pointwise, Reduction
from fxc.passes.operators.scalars import Uncovered
from fxc.passes.operators.table import has_formula, operator_of, role_of
from fxc.passes.rewriting.broadcasting import broadcasts
from fxc.passes.rewriting.functions import copy_op

VIEW = "view: an op outside reads it, and a group returns no views"

GATHER = "gather: a tensor that is indexed by another is computed before, not once for each index"
UPDATES = "updates: a result is read after all updates of it"
PARTS = f"parts: an element of a concatenation is chosen among at most {MOST_PARTS} tensors"

MOST_READERS = 16
"""The largest number of users of a view for which it is copied for each."""

MOST_KINDS = 4
"""The largest number of incompatible slices with which a reader of the same tensor is compared."""


class Coverage:
    """The calls that kernels can compute, determined by one conversion for each kind of call."""

    def __init__(self, least: Mapping[str, int] = NOTHING) -> None:
        """``least``: size name -> its lower bound."""
        self._known, self._structures, self._least = dict[Hashable, bool](), Structures(), least

    def __contains__(self, op: Operation) -> bool:
        if not isinstance(op, TorchOp) or not has_formula(op):
            return False
        key = self._structures.key(op)
        if key not in self._known:
            self._known[key] = _is_covered(op, self._least)
        return self._known[key]


def _is_covered(op: TorchOp, least: Mapping[str, int]) -> bool:
    is_new = not any(aliases(op))
    if is_new and any(is_tensor(result.type) and overlaps(result.type) for result in op.results):
        return False  # only PyTorch's implementation determines which of overlapping elements is stored last in new memory
    body, copies, names = Block(), dict[SSAValue, SSAValue](), list[str]()
    for value in dict.fromkeys(op.operands):
        if is_scalar_constant(value):
            assert isinstance(value.owner, Operation)
            body.add_op(copy_op(value.owner, copies))
        else:
            copies[value] = Block(arg_types=[value.type]).args[0]
    copy = copy_op(op, copies)
    body.add_ops([copy, YieldOp.of(copy.results)])
    for type in (value.type for value in (*op.operands, *op.results)):
        names += names_in(type) if is_tensor(type) else ()
    said = Block(arg_types=[IntType(StringAttr(name)) for name in dict.fromkeys(names)]).args
    try:
        Generics(body, said, least).convert().verify()
    except (Uncovered, VerifyException):
        return False
    return True


def is_reduction(op: Operation) -> bool:
    return isinstance(operator_of(op).formula, Reduction)


Place: TypeAlias = tuple[int, int]
"""A stage, and the number of an access path from its elements to those of a value; 0 where their positions are equal."""


class KernelGroups(Groups):
    """Groups that become kernels; values that only the group reads are not stored in memory.

    Slices grow as in ``Groups``, where ``model`` finds that it pays. Then slices that read the same large tensor are merged.
    """

    def __init__(self, ops: Sequence[Operation], model: CostModel, coverage: Coverage) -> None:
        self.model, self.coverage = model, coverage
        self.places = dict[int, frozenset[Place]]()
        """Op of a slice -> the positions at which stages need its results.

        Stages are reductions and ops with outside users; a stage has the position (itself, 0).
        """
        self._ways = dict[Hashable, int]()
        self._structures = Structures()
        function = ops[0].parent_op() if ops else None
        self.updates = set(new_values(function)) if isinstance(function, FuncOp) else set()
        self._aliasing, self._elements = dict[Operation, bool](), dict[Operation, int]()
        super().__init__(ops)

    def is_member(self, op: Operation) -> bool:
        if role_of(op) is Role.SPLIT or needs_gradient(op) or all(result.first_use is None for result in op.results):
            return False
        is_elementwise = isinstance(op, TorchOp) and broadcasts(op)
        return (len(op.results) == 1 or is_elementwise) and op in self.coverage and self.exclusion(op) is None

    def exclusion(self, op: Operation) -> str | None:
        updates = updates_of(op)
        return None if updates is None else self.model.objection_of_updates(updates)

    def is_root(self, op: Operation) -> bool:
        return not self.may_alias(op)

    def _is_single_view(self, i: int) -> bool:
        """Whether the slice of op ``i`` is a single view."""
        return self.may_alias(self.ops[i]) and len(self.graph.members(i)) == 1

    def may_alias(self, op: Operation) -> bool:
        """Whether a result of ``op`` may share memory with an operand: a view, which must stay inside a group."""
        if op not in self._aliasing:
            self._aliasing[op] = any(aliases(op))
        return self._aliasing[op]

    def is_group(self, members: Sequence[Operation]) -> bool:
        computed = [op for op in members if not self.may_alias(op)]
        return len(computed) > 1 or any(self._is_worth_it(op) for op in computed)

    def _is_worth_it(self, op: Operation) -> bool:
        """Whether ``op`` alone is worth a kernel."""
        updates, cost = updates_of(op), operator_of(op).cost
        if cost > 1 or (updates is not None and updates.sorted) or _has_other_memory_order(op):
            return True
        if self.model.splits and operator_of(op).is_lone and is_reduction(op) and _is_static(op) and _reduces_columns(op):
            return True
        return self.model.lone and (operator_of(op).is_lone or any(result in self.updates for result in op.results))

    def joins(self, op: Operation) -> bool:
        return False

    def cuts(self, op: Operation) -> bool:
        return is_chunk(op) and op in self.coverage

    def widen(self) -> None:
        for value, readers in self._readers().items():
            kinds = list[int]()
            for i in readers:
                if _extent_of(self.ops[i]).elements > math.prod(_shape(value)):
                    continue  # it is broadcast: merging saves almost no traffic
                if not any(self._are_one(j, i) or self._meet(j, i) for j in kinds[:MOST_KINDS]):
                    kinds.append(i)

    def _meet(self, i: int, j: int) -> bool:
        """Merge the slices of two ops that do not read each other; cheap checks come first."""
        a, b = self.border(i), self.border(j)
        assert a.extent is not None and b.extent is not None
        full = VALUES if a.is_full() or b.is_full() else None
        if (rule := full or self.model.objection_of_siblings(a.extent, b.extent)) is None:
            return self._merge(i, j)
        self.refused[i, j] = rule
        return False

    def _readers(self) -> dict[SSAValue, list[int]]:
        """Tensor -> the ops of slices that read it from outside, where there are several."""
        found = dict[SSAValue, list[int]]()
        for i in sorted(self.taken):
            for value in dict.fromkeys(self.ops[i].operands):
                made = self.index.get(value.owner) if isinstance(value.owner, Operation) else None
                if is_tensor(value.type) and (made is None or not self._are_one(made, i)):
                    found.setdefault(value, []).append(i)
        return {value: readers for value, readers in found.items() if len(readers) > 1}

    def new_border(self, i: int) -> Border:
        border, op = super().new_border(i), self.ops[i]
        border.extent = replace(_extent_of(op), operations=operator_of(op).cost)
        border.concatenations, border.gathered = 0, frozenset(_gathered(op))
        return border

    def joined_border(self, producer: int, consumer: int) -> Border:
        joined, op = super().joined_border(producer, consumer), self.ops[producer]
        before, after = self.border(producer).extent, self.border(consumer).extent
        assert before is not None and after is not None
        if self._is_single_view(producer):
            through = [op.operands[0]] if joined.gathered.intersection(op.results) else []
            joined.extent, joined.gathered = after, joined.gathered.union(through)
            joined.places = {producer: places} if (places := self._places_of_readers(producer, consumer)) else {}
            return joined
        joined.extent = before.joined(after)
        if self._reads_again(producer, consumer, joined):
            joined.places = self._places([*self.graph.members(producer), *self.graph.members(consumer)], joined)
            joined.extent = replace(joined.extent, **self._repeated(joined.places))
        elif (places := self._places_of_readers(producer, consumer)) and not is_reduction(op):
            joined.places = {producer: self._computed_at(producer, places, joined)}
            more = self._repeated(joined.places)
            repeated, copies = joined.extent.repeated + more["repeated"], joined.extent.copies + more["copies"]
            joined.extent = replace(joined.extent, repeated=repeated, copies=copies)
        return joined

    def _reads_again(self, producer: int, consumer: int, joined: Border) -> bool:
        """Whether a stored value of one of two slices would be recomputed by each stage that reads it, once they are merged."""
        alone = len(self.graph.members(producer)) == 1
        stored = [value for each in ((consumer,) if alone else (producer, consumer)) for value in self.border(each).outputs]
        makers = [value.owner for value in stored if value not in joined.outputs]
        return any(isinstance(op, Operation) and not is_reduction(op) for op in makers)

    def _places(self, members: Sequence[int], border: Border) -> dict[int, frozenset[Place]]:
        """The positions at which each non-reduction of ``members`` is computed in a slice with this border.

        The walk stops when the kernel is known to be too long.
        """
        inside, found, copies = set(members), dict[int, frozenset[Place]](), 0
        for i in sorted(members, reverse=True):
            if is_reduction(self.ops[i]):
                continue
            if requested := self._requested(i, inside.__contains__, found):
                found[i] = self._computed_at(i, requested, border)
                copies += 0 if self.may_alias(self.ops[i]) else len(found[i]) - 1
            if copies > MOST_COPIES:
                break
        return found

    def _requested(self, i: int, is_inside: Callable[[int], bool], known: Mapping[int, frozenset[Place]]) -> frozenset[Place]:
        """The positions at which users of op ``i`` need its results."""
        found = set[Place]()
        for result in self.ops[i].results:
            for use in result.uses:
                j = self.index.get(use.operation)
                if j is not None and is_inside(j):
                    found.update(self._read_at(j, use.index, known.get(j, frozenset([(j, 0)]))))
        return frozenset(found)

    def _read_at(self, reader: int, operand: int, places: frozenset[Place]) -> Iterable[Place]:
        """The positions at which an operand is read for the elements of ``reader`` at ``places``."""
        op = self.ops[reader]
        if isinstance(operator_of(op).formula, (Pointwise, Conversion, Reduction)):
            return places
        key, ways, results = self._structures.key(op), self._ways, range(len(op.results))
        return [
            (stage, ways.setdefault((key, operand, number, way), len(ways) + 1)) for stage, way in places for number in results
        ]

    def _computed_at(self, i: int, requested: frozenset[Place], border: Border) -> frozenset[Place]:
        """The positions at which op ``i`` is computed. Readers of a stored result at the same position do not recompute it."""
        return (
            frozenset([(i, 0), *(place for place in requested if place[1])]) if self._stores(border, self.ops[i]) else requested
        )

    def _repeated(self, places: Mapping[int, frozenset[Place]]) -> dict[str, Any]:
        """The recomputed work, and the number of extra operations for it."""
        repeated, copies = 0, 0
        for i, several in places.items():
            op = self.ops[i]
            if not self.may_alias(op):
                stages = {stage for stage, _ in several}
                repeated += operator_of(op).cost * max(sum(self._loops(self.ops[j]) for j in stages) - self._loops(op), 0)
                copies += len(several) - 1
        return {"repeated": repeated, "copies": copies}

    @cached_property
    def _sizes(self) -> HintedSizes:
        return HintedSizes(self.ops[0])

    def _bytes(self, *values: SSAValue) -> int:
        return sum(self._sizes.distinct_bytes(value.type) for value in values)

    def _loops(self, op: Operation) -> int:
        """The number of elements that a stage ending in ``op`` computes."""
        if op not in self._elements:
            reads = (value for value in op.operands if is_tensor(value.type))
            value = next(reads) if is_reduction(op) else op.results[0]
            updates = updates_shape(op)
            self._elements[op] = self._sizes.elements(value.type) if updates is None else math.prod(updates)
        return self._elements[op]

    def objection(self, producer: int, consumer: int, joined: Border) -> str | None:
        before, after, both = self.border(producer).extent, self.border(consumer).extent, joined.extent
        assert before is not None and after is not None and both is not None
        if rule := self._objection_of_reads(producer, consumer, joined):
            return rule
        if len(joined.inputs) + len(joined.outputs) > self.model.values:
            return ROOM
        if both.copies > MOST_COPIES:
            return LENGTH
        if both.operations > MOST_OPERATIONS:
            return CODE
        stored = self._stores(joined, self.ops[producer])
        if self._is_single_view(producer):
            return VIEW if stored else None
        if not self._places_of_readers(producer, consumer):
            return self.model.objection_of_siblings(before, after)
        if (rule := self.model.objection(before, after, stored=stored)) is not None:
            return rule
        traffic = max(self._bytes(*joined.inputs, *joined.outputs), 2 * self._bytes(*self.ops[producer].results))
        return WORK if self.model.is_too_much_work(both, traffic) else None

    def _objection_of_reads(self, producer: int, consumer: int, joined: Border) -> str | None:
        """The rule that rejects how one slice reads results of the other (gathers, updates, long concatenations), else None."""
        made = [*self.border(producer).outputs, *self.border(consumer).outputs]
        if any(value in joined.gathered and not self.may_alias(value.op) for value in made if isinstance(value, OpResult)):
            return GATHER
        a, b = self.border(producer), self.border(consumer)
        for made, read in ((a, b), (b, a)):
            if any(value in read.inputs and updates_shape(value.owner) is not None for value in made.outputs):
                return UPDATES
        op = self.ops[producer]
        is_chosen = (
            role_of(op) is Role.CONCATENATION and len(op.operands) > MOST_PARTS and self._places_of_readers(producer, consumer)
        )
        return PARTS if is_chosen else None

    def _merge(self, producer: int, consumer: int) -> bool:
        if not super()._merge(producer, consumer):
            return False
        self.places |= self.border(consumer).places
        return True

    def _places_of_readers(self, producer: int, consumer: int) -> frozenset[Place]:
        """The positions at which the slice of ``consumer`` needs results of op ``producer``; none where it reads none."""
        return self._requested(producer, lambda reader: self._are_one(reader, consumer), self.places)

    def _are_one(self, i: int, j: int) -> bool:
        return self.graph.find(i) == self.graph.find(j)

    def _stores(self, border: Border, op: Operation) -> bool:
        return any(result in border.outputs for result in op.results)


def _has_other_memory_order(op: Operation) -> bool:
    """Whether tensors of ``op`` lie in different memory orders: PyTorch's loops read one of them by single elements."""
    types = [type for type in (*op.result_types, *op.operand_types) if is_tensor(type)]
    return len({is_turned(type) for type in types if type.get_shape() == types[0].get_shape()}) > 1


def _reduces_columns(op: Operation) -> bool:
    """Whether ``op`` reduces other dimensions than the last one of a contiguous operand."""
    type = op.operands[0].type
    is_contiguous = is_tensor(type) and strides(type) is None
    return isinstance(op, TorchOp) and is_contiguous and len(_reduced(op)) - 1 not in dimensions(op)


def _is_static(op: Operation) -> bool:
    return not any(names_in(value.type) for value in (*op.operands, *op.results) if is_tensor(value.type))


def _extent_of(op: Operation) -> Extent:
    if (updates := updates_shape(op)) is not None:
        return Extent(_real(updates))
    if not is_reduction(op):
        return Extent(_real(max((_shape(result) for result in op.results), key=math.prod)))
    assert isinstance(op, TorchOp)
    source = _reduced(op)
    kept = tuple(dim for dim in range(len(source)) if dim not in dimensions(op))
    return Extent(_real(source), source, kept, is_static=_is_static(op))


def _gathered(op: Operation) -> list[SSAValue]:
    """The operand that ``op`` reads at computed positions, if any."""
    value = op.bound().get(operator_of(op).gathered) if isinstance(op, TorchOp) else None
    return [value] if isinstance(value, SSAValue) else []


def _reduced(op: Operation) -> tuple[int, ...]:
    return next(_shape(value) for value in op.operands if is_tensor(value.type))


def _shape(value: SSAValue) -> tuple[int, ...]:
    return assumed(tensor_of(value).get_shape())


def _real(shape: Sequence[int]) -> tuple[int, ...]:
    return tuple(size for size in shape if size != 1)


def _bytes(value: SSAValue) -> int:
    if not is_tensor(value.type):
        return 0
    element = value.type.element_type
    return math.prod(_shape(value)) * (element.size if isinstance(element, FixedBitwidthType) else 1)


def _widens(op: Operation) -> bool:
    """Whether ``op`` converts the elements of a tensor to a dtype that takes more memory."""
    rule = operator_of(op).formula
    if not isinstance(rule, Conversion) or needs_gradient(op):
        return False
    return sum(_bytes(value) for value in op.operands) < _bytes(op.results[0])


def _returns(user: Operation, value: SSAValue) -> bool:
    """Whether the memory of ``value`` is returned by ``user``, or by a user of its views."""
    if user.has_trait(IsTerminator):
        return True
    views = [user.results[i] for i, source in aliases(user) if source is value]
    return any(_returns(use.operation, view) for view in views for use in view.uses)


class Copies:
    """A copy of each view and each conversion to a wider dtype for each user.

    A group can then contain one that other ops read, too; reading the narrow elements again takes less traffic than reading
    wide ones. Values that are returned, directly or as views, are not copied.
    """

    def __init__(self, ops: Sequence[Operation], coverage: Coverage) -> None:
        self.made = dict[Operation, list[Operation]]()
        """Op -> its copies, in the order of the block."""
        for op in reversed(ops):
            if len(op.results) == 1 and (any(aliases(op)) or _widens(op)) and op in coverage:
                self._copy(op)

    def _copy(self, op: Operation) -> None:
        users = dict.fromkeys(use.operation for use in op.results[0].uses)
        near = [user for user in users if user.parent is op.parent and isinstance(user, TorchOp)]
        near = [user for user in near if any(aliases(op)) or not _returns(user, op.results[0])]
        others = near if len(near) < len(users) else near[1:]
        if not others or len(users) > MOST_READERS:
            return
        self.made[op] = [copy_op(op, {}) for _ in others]
        Rewriter.insert_op(self.made[op], InsertPoint.after(op))
        for user, copy in zip(others, self.made[op], strict=True):
            for index, operand in enumerate(user.operands):
                if operand is op.results[0]:
                    user.operands[index] = copy.results[0]

    def rejoin(self, block: Block) -> None:
        """Merge the copies of each op that remain in ``block`` itself."""
        for op, copies in self.made.items():
            first, *others = [copy for copy in (op, *copies) if copy.parent is block] or [op]
            for copy in others:
                copy.results[0].replace_all_uses_with(first.results[0])
                Rewriter.erase_op(copy)
