"""Alias analysis of one scope: which values may share memory, and which ops may write it.

A scope is a function, or an op whose regions are isolated from above. Values that may share memory are in one set (union-find).
Values from outside (arguments, attributes of the user's model) are in one set, because a caller may pass one tensor twice. Sets
have no order: a pass that must know whether a write lies between two ops counts writes as it walks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias, TypeVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.traits import IsolatedFromAbove, IsTerminator

from fxc.dialects.attributes.types import is_mutable
from fxc.dialects.base.effects import aliases, is_view, writes
from fxc.dialects.fx import GetAttrOp
from fxc.dialects.torch_ops.base import TorchOp, counts_in_storage, leaves_memory_alone
from fxc.dialects.torch_ops.constant import ConstantOp
from fxc.dialects.torch_ops.effects import LAZY, RESOLVING
from fxc.passes.analysis.matching import is_complex
from fxc.passes.analysis.tuples import selected_index


def may_be_lazy(value: SSAValue, *, given: bool) -> bool:
    """Whether ``value`` may have PyTorch's conjugate or negative bit, which readers resolve.

    ``given``: whether tensors that a caller passes to the program may have it; a host program is never called with such
    tensors.
    """
    owner = value.owner
    if isinstance(owner, Block):
        function = owner.parent_op()
        return given or (isinstance(function, FuncOp) and function.sym_visibility is not None)
    if not isinstance(owner, TorchOp):
        return is_complex(value.type)
    if owner.operator in RESOLVING:
        return False
    if owner.operator in LAZY or ("c" in owner.FLAGS and any(is_complex(operand.type) for operand in owner.operands)):
        return True
    return any(may_be_lazy(source, given=given) for index, source in aliases(owner) if owner.results[index] is value)


Set: TypeAlias = "SSAValue | str"
"""The representative of a set of values that may share memory."""

_OUTSIDE = "outside"


def is_isolated(op: Operation) -> bool:
    """Whether the regions of ``op`` are separate scopes."""
    return bool(op.regions) and op.has_trait(IsolatedFromAbove)


def scopes(root: Operation) -> Iterator[Operation]:
    """The scopes in ``root``, outer ones first. Nested scopes that are erased during the iteration are not visited."""
    for region in root.regions:
        for block in region.blocks:
            for op in block.ops:
                if not op.regions:
                    continue
                if is_isolated(op) and not isinstance(op, ModuleOp):
                    yield op
                yield from scopes(op)


def writes_anything(scope: Operation) -> bool:
    """Whether any op of ``scope`` may write.

    Where none may, many queries do not need ``Memory``, which is more expensive.
    """
    return any(
        writes_anything(op) if op.regions and not is_isolated(op) else not op.has_trait(IsTerminator) and writes(op) != []
        for block in _blocks(scope)
        for op in block.ops
        if not leaves_memory_alone(type(op))
    )


def writes_between(first: Operation, last: Operation) -> bool:
    """Whether an op between ``first`` and ``last``, which is later in the same block, may write."""
    op = first.next_op
    while op is not None and op is not last:
        if writes(op) != []:
            return True
        op = op.next_op
    return False


class Memory:
    """The alias sets of ``scope`` when this was made, updated by ``add`` and ``replaced``.

    ``pairs``: the results and operands of an op that may share memory, for callers with more facts than the schemas.
    """

    def __init__(self, scope: Operation, pairs: Callable[[Operation], Iterable[tuple[int, SSAValue]]] = aliases) -> None:
        self._pairs = pairs
        self._parent = dict[Set, Set]()
        self._writes = dict[Operation, set[Set]]()
        self._written, self._output, self._lasting = set[Set](), set[Set](), set[Set]([_OUTSIDE])
        self._returned, self._placed = set[SSAValue](), set[Set]()
        unknown = list[Operation]()
        for block in _blocks(scope):
            self._parent.update(dict.fromkeys(block.args, _OUTSIDE))
        for block in _blocks(scope):
            self._walk(block, unknown, top=True)
        self._settle(unknown)
        self._writes[scope] = self._written

    def outlives(self, value: SSAValue) -> bool:
        """Whether the memory of ``value`` may exist before the scope runs: that of an argument, an attribute or a constant."""
        return self.outlives_set(self.set_of(value))

    def outlives_set(self, memory: Set) -> bool:
        return memory in self._lasting

    def is_written(self, value: SSAValue) -> bool:
        """Whether any op of the scope may write the memory of ``value``."""
        return self.set_of(value) in self._written

    def reaches_output(self, value: SSAValue) -> bool:
        """Whether the scope may return the memory of ``value``, directly or as a view."""
        return self.set_of(value) in self._output

    def is_returned(self, value: SSAValue) -> bool:
        """Whether the scope returns ``value`` itself."""
        return value in self._returned

    def writes_of(self, op: Operation) -> set[Set]:
        """The sets that ``op``, or an op in its regions, may write."""
        return {self.set_of(s) for s in self._writes[op]} if op in self._writes else set()

    def set_of(self, value: Set) -> Set:
        return representative(self._parent, value)

    def can_replace(self, old: SSAValue, new: SSAValue, *, same_memory: bool) -> bool:
        """Whether users of ``old`` may use ``new``, which initially holds the same elements in the same layout.

        ``same_memory``: ``old`` is ``new`` or a view of it. Otherwise ``old`` may be a copy. A caller that can access both
        could tell a copy from the original, and so could an op that reads the storage offset of ``old``.
        """
        if self.is_written(old) or self.is_written(new):
            return False
        if same_memory:
            return not (self.is_returned(old) and (self.is_returned(new) or _is_source(new)))
        if self.set_of(old) in self._placed:
            return False
        return not (self.reaches_output(old) and (self.reaches_output(new) or self.outlives(new)))

    def replaced(self, old: SSAValue, new: SSAValue) -> None:
        """Record that users of ``old`` now use ``new``."""
        if not is_mutable(new.type):
            return
        self._union(old, new)
        if old in self._returned:
            self._returned.add(new)

    def add(self, op: Operation) -> None:
        """Record a new op, which must not write."""
        self._tie(op)

    def _walk(self, block: Block, unknown: list[Operation], *, top: bool) -> set[Set]:
        """Add the ops of ``block``. Returns the values that they write; ops with unknown effects go to ``unknown``."""
        written = set[Set]()
        for op in block.ops:
            if leaves_memory_alone(type(op)):
                continue
            if op.regions and not is_isolated(op):
                written |= self._walk_regions(op, unknown)
                continue
            if op.next_op is None and op.has_trait(IsTerminator):
                self._tie(op)
                if top:
                    self._returned.update(op.operands)
                continue
            if isinstance(op, TorchOp) and counts_in_storage(op):
                self._placed.update(op.operands)
            written_here = writes(op)
            if written_here is None:
                self._writes[op] = set()
                unknown.append(op)
                written.add(_OUTSIDE)
                continue
            self._tie(op)
            if written_here:
                self._writes[op] = set(written_here)
                written |= self._writes[op]
        return written

    def _walk_regions(self, op: Operation, unknown: list[Operation]) -> set[Set]:
        """Put the operands, results, arguments and yielded values of an op whose regions see enclosing values into one set."""
        tied: list[SSAValue] = [*op.operands, *op.results]
        written = set[Set]()
        for block in _blocks(op):
            written |= self._walk(block, unknown, top=False)
            tied += block.args
            if block.last_op is not None:
                tied += block.last_op.operands
        memory = [value for value in tied if is_mutable(value.type)]
        for value in memory[1:]:
            self._union(memory[0], value)
        if written:
            self._writes[op] = written
        return written

    def _tie(self, op: Operation) -> None:
        if isinstance(op, ConstantOp):
            self._lasting.add(op.result)
            return
        if isinstance(op, GetAttrOp) or op.successors:
            self._outside([*op.results, *op.operands])
            return
        for index, operand in self._pairs(op):
            result = op.results[index]
            if is_mutable(result.type) and is_mutable(operand.type):
                self._union(result, operand)

    def _outside(self, values: list[SSAValue]) -> None:
        for value in values:
            if self._parent.get(value) is not _OUTSIDE and is_mutable(value.type):
                self._union(value, _OUTSIDE)

    def _settle(self, unknown: list[Operation]) -> None:
        """Assume that an op with unknown effects writes its operands, those of all other such ops, and memory from outside."""
        for op in unknown:
            self._outside([*op.operands, *op.results])
        for op in unknown:
            self._writes[op].add(_OUTSIDE)
        self._written = {self.set_of(s) for written in self._writes.values() for s in written}
        self._placed = {self.set_of(value) for value in self._placed}
        self._output = {self.set_of(value) for value in self._returned if is_mutable(value.type)}

    def _union(self, a: Set, b: Set) -> None:
        a, b = self.set_of(a), self.set_of(b)
        if a == b:
            return
        self._parent[a] = b
        for members in (self._written, self._output, self._lasting, self._placed):
            if a in members:
                members.add(b)


def is_same_memory(op: Operation) -> bool:
    """Whether the results of ``op`` are certainly views of its argument, so that repeating ``op`` has no effect."""
    return is_view(op) or selected_index(op) is not None


def _is_source(value: SSAValue) -> bool:
    return isinstance(value.owner, (Block, GetAttrOp, ConstantOp))


def _blocks(op: Operation) -> Iterator[Block]:
    for region in op.regions:
        yield from region.blocks


_T = TypeVar("_T")


def representative(above: dict[_T, _T], member: _T) -> _T:
    """The representative of the set of ``member``; paths to it are halved.

    ``above`` is a union-find forest (Galler and Fischer 1964): member -> a member nearer to the representative of its set.
    """
    while (parent := above.get(member)) is not None:
        if (top := above.get(parent)) is not None:
            above[member] = top
        member = parent
    return member


def unite(above: dict[_T, _T], one: _T, other: _T) -> None:
    """Make one set of two; its representative is that of ``other``."""
    if (first := representative(above, one)) != (second := representative(above, other)):
        above[first] = second
