"""Simulate the memory of operations of the torch or the plan level in their order, and of the functions that they call.

A tensor that an operation makes has a storage, which its views share. It is live from that operation to the last use of any of
them. Of what an operator allocates and releases inside of a call, what its record says is known.
Constants, and arguments that the caller holds, take no memory of the call. An arena on the CPU is cached, so it stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from xdsl.dialects.builtin import ModuleOp, TupleType
from xdsl.dialects.func import CallOp, FuncOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.traits import IsTerminator, SymbolTable

from fxc.dialects.attributes.discardable import ONCE
from fxc.dialects.attributes.types import is_tensor
from fxc.dialects.attributes.values import leaves
from fxc.dialects.autodiff import TANGENT
from fxc.dialects.base.effects import aliases
from fxc.dialects.entry import ArgumentFacts, argument_attributes, find_entry
from fxc.dialects.fusion import GroupOp
from fxc.dialects.fx import CallFunctionOp, OutputOp
from fxc.dialects.plan import AllocOp, ArenaOp, ArenaType, BringOp, FreeOp, ViewOp, released
from fxc.dialects.torch_ops.base import TorchOp
from fxc.dialects.torch_ops.operators import HigherOrderOp
from fxc.passes.analysis.size_values import HintedSizes
from fxc.passes.analysis.slices import reads
from fxc.passes.analysis.tuples import selected_index
from fxc.passes.operators.table import operator_of


@dataclass(frozen=True)
class MemoryUse:
    """``live``: bytes during each operation, operands and results included; ``end``: bytes that remain after the last."""

    live: Sequence[int]
    end: int

    @property
    def peak(self) -> int:
        return max((*self.live, self.end))


@dataclass(frozen=True)
class TrainingStep:
    """A training step: ``forward`` returns its ``results``, which the caller holds, then saved tensors, then saved numbers.

    ``backward`` takes numbers, tensors, and tangents, and releases each after its last use, except tangents, which the caller
    may hold.
    """

    forward: FuncOp
    backward: FuncOp
    results: int

    @classmethod
    def of(cls, module: ModuleOp) -> TrainingStep | None:
        """The step whose parts are nested modules of ``module``, as after ``split-joint``."""
        parts = {part.sym_name.data: part for part in module.ops if isinstance(part, ModuleOp) and part.sym_name is not None}
        forward, backward = (find_entry(parts[name]) if name in parts else None for name in ("forward", "backward"))
        if forward is None or backward is None:
            return None
        return cls(forward, backward, len(returned_by(forward.body.block)) - len(_saved(backward)))

    def memory(self) -> MemoryUse:
        """The memory of both parts, and of what lives between."""
        simulation = self.before_backward()
        simulation.run(operations_of(self.backward.body.block))
        return simulation.result(self.lasting())

    def before_backward(self) -> Simulation:
        """The simulation after the forward, for operations of the backward."""
        simulation = Simulation(HintedSizes(self.forward))
        simulation.run(operations_of(self.forward.body.block))
        saved = returned_by(self.forward.body.block)[self.results :]
        tensors = [value for value in saved if _is_tensor(value)]
        numbers = [value for value in saved if not _is_tensor(value)]
        simulation.rename(dict(zip(self.saved(), [*numbers, *tensors], strict=True)))
        simulation.own(self._tangents())
        return simulation

    def saved(self) -> list[SSAValue]:
        """The arguments of the backward that it takes from the forward: numbers, then tensors."""
        return _saved(self.backward)

    def _tangents(self) -> list[SSAValue]:
        marks = zip(self.backward.args, argument_attributes(self.backward), strict=True)
        return [argument for argument, mark in marks if TANGENT in mark.data]

    def lasting(self) -> Sequence[SSAValue | Attribute]:
        """The values that are live after the step: results, gradients, and tangents."""
        results = returned_by(self.forward.body.block)[: self.results]
        return [*results, *returned_by(self.backward.body.block), *self._tangents()]


@dataclass
class Simulation:
    """The storages of operations, of several blocks that run one after the other."""

    sizes: HintedSizes
    _of: dict[SSAValue, tuple[int, ...]] = field(default_factory=dict[SSAValue, tuple[int, ...]])
    """Value -> the numbers of the storages that it may share."""
    _bytes: list[int] = field(default_factory=list[int])
    _first: list[int] = field(default_factory=list[int])
    _last: list[int] = field(default_factory=list[int])
    _inside: list[int] = field(default_factory=list[int])
    """For each operation, the bytes that its regions take beside its results."""
    _cached: set[SSAValue] = field(default_factory=set[SSAValue])
    """Arenas that stay after the call."""
    _open: list[FuncOp] = field(default_factory=list[FuncOp])
    """The functions that are called at this moment."""

    def copy(self) -> Simulation:
        """One that runs what follows in another order."""
        storages = self._bytes[:], self._first[:], self._last[:]
        return Simulation(self.sizes, dict(self._of), *storages, self._inside[:], set(self._cached), self._open[:])

    def own(self, values: Iterable[SSAValue]) -> None:
        """From here on, ``values`` have memory that the call releases."""
        for value in values:
            self._make(value, len(self._inside))

    def rename(self, names: Mapping[SSAValue, SSAValue | Attribute]) -> None:
        """Values of the next block -> those of blocks before it that they are."""
        self._of.update((value, self._of.get(other, ())) for value, other in names.items() if isinstance(other, SSAValue))

    def run(self, ops: Sequence[Operation]) -> None:
        """Add ``ops``, which run in this order; for a call, the operations of its function."""
        for op in ops:
            if isinstance(op, FreeOp):  # after the last uses
                continue
            step = len(self._inside)
            for value in reads(op) if op.regions else op.operands:
                self._touch(value, step)
            if (callee := self._callee(op)) is not None:
                self._call(op, callee)
            else:
                self._add(op, step)
                self._inside.append(self._needed_inside(op))
        for op in ops:
            if isinstance(op, ArenaOp):
                self._touch(op.arena, len(self._inside) - 1)

    def storages(self, values: Iterable[SSAValue | Attribute]) -> frozenset[int]:
        """The numbers of the storages that ``values`` may share."""
        return frozenset(storage for value in values if isinstance(value, SSAValue) for storage in self._of.get(value, ()))

    def bytes_of(self, storage: int) -> int:
        return self._bytes[storage]

    def result(self, live_at_end: Iterable[SSAValue | Attribute]) -> MemoryUse:
        """The memory of all operations. ``live_at_end``: values that are not released."""
        length = len(self._inside)
        for value in (*live_at_end, *self._cached):
            self._touch(value, length)
        changes = [0] * (length + 2)
        for size, first, last in zip(self._bytes, self._first, self._last, strict=True):
            changes[first] += size
            changes[last + 1] -= size
        *live, end = list(accumulate(changes))[:-1]
        return MemoryUse([beside + inside for beside, inside in zip(live, self._inside, strict=True)], end)

    def _callee(self, op: Operation) -> FuncOp | None:
        """The function of one block that ``op`` calls, unless a call of it is open."""
        callee = SymbolTable.lookup_symbol(op, op.callee) if isinstance(op, CallOp) and ONCE not in op.attributes else None
        is_known = isinstance(callee, FuncOp) and len(callee.body.blocks) == 1 and callee not in self._open
        return callee if is_known and isinstance(callee, FuncOp) else None

    def _call(self, op: Operation, callee: FuncOp) -> None:
        block = callee.body.block
        self.rename(dict(zip(block.args, op.operands, strict=True)))
        self._open.append(callee)
        self.run(operations_of(block))
        self._open.pop()
        freed = {value for each in block.ops for value in released(each)}
        held = (argument for argument in block.args if argument not in freed)
        for value in (*held, *(results := returned_by(block))):
            self._touch(value, len(self._inside) - 1)
        self.rename(dict(zip(op.results, results, strict=False)))

    def _add(self, op: Operation, step: int) -> None:
        """Record the storages of the results of ``op``."""
        shared = dict[int, tuple[int, ...]]()
        if isinstance(op, CallFunctionOp):
            self._select(op)
        if isinstance(op, (TorchOp, GroupOp, ViewOp)):
            for index, operand in aliases(op):
                shared[index] = (*shared.get(index, ()), *self._of.get(operand, ()))
        is_cached = isinstance(op, ArenaOp) and op.arena.type.device.data == "cpu"
        is_made = isinstance(op, _MAKERS) and ONCE not in op.attributes
        for index, result in enumerate(op.results):
            if index in shared:
                self._of[result] = tuple(dict.fromkeys(shared[index]))
            elif is_made and not (is_cached and result in self._cached) and not (isinstance(op, AllocOp) and op.arena):
                self._make(result, step)
        if is_cached:
            self._cached.update(op.results)

    def _make(self, value: SSAValue, step: int) -> None:
        """Add a storage for ``value``; for a tuple, one for each element."""
        types = value.type.types.data if isinstance(value.type, TupleType) else [value.type]
        self._of[value] = tuple(range(len(self._bytes), len(self._bytes) + len(types)))
        self._bytes += [type.bytes.data if isinstance(type, ArenaType) else self.sizes.bytes(type) for type in types]
        self._first += [step] * len(types)
        self._last += [step] * len(types)

    def _select(self, op: CallFunctionOp) -> None:
        """Record that ``op`` selects an element of a tuple, if it does."""
        index = selected_index(op)
        if index is None or not isinstance(source := op.operands[0].type, TupleType):
            return
        storages = self._of.get(op.operands[0], ())
        is_new = len(storages) == len(source.types.data)  # not a tuple of views
        self._of[op.results[0]] = storages[index : index + 1] if is_new and isinstance(index, int) else storages

    def _touch(self, value: SSAValue | Attribute, step: int) -> None:
        for storage in self._of.get(value, ()) if isinstance(value, SSAValue) else ():
            self._last[storage] = max(self._last[storage], step)

    def _needed_inside(self, op: Operation) -> int:
        if isinstance(op, TorchOp) and (memory := operator_of(op).memory) is not None:
            return memory(op, self.sizes)
        blocks = [block for region in op.regions for block in region.blocks] if isinstance(op, HigherOrderOp) else []
        uses = list[int]()
        for block in blocks:
            inner = Simulation(self.sizes)
            inner.run(operations_of(block))
            use = inner.result(returned_by(block))
            uses.append(use.peak - use.end)
        return max(uses, default=0)


_MAKERS = (TorchOp, HigherOrderOp, GroupOp, CallOp, AllocOp, ArenaOp, BringOp)
"""Operations whose results are in new memory, unless these are views."""


def operations_of(block: Block) -> list[Operation]:
    """The operations of ``block`` without the terminator."""
    return [op for op in block.ops if not op.has_trait(IsTerminator)]


def returned_by(block: Block) -> list[SSAValue | Attribute]:
    """What the terminator of ``block`` returns, in order, constants included."""
    last = block.last_op
    if not isinstance(last, OutputOp):
        return list(last.operands) if last is not None and last.has_trait(IsTerminator) else []
    return list(leaves(last.trees()[0]))


def _saved(backward: FuncOp) -> list[SSAValue]:
    """The arguments of ``backward`` that it takes from the forward: the others are gradients, and tensors of the program."""
    marks = zip(backward.args, argument_attributes(backward), strict=True)
    return [argument for argument, mark in marks if TANGENT not in mark.data and not ArgumentFacts.of(mark).is_state]


def _is_tensor(value: SSAValue | Attribute) -> bool:
    return isinstance(value, SSAValue) and is_tensor(value.type)
