"""Remove operations whose results are unused.

Assumes  verified IR.
Ensures  every remaining operation, also in nested regions, has an effect, writes memory from outside or memory that a
         live operation may read, or computes an operand of such an operation; unused results of ``scf.if``, ``cond``
         and ``fusion.group`` are removed with the operations that compute them. Idempotent.
Leaves   asserts, prints, collectives, calls of unknown functions; random operators, whose removal would change later
         ones; the last result of a ``cond``; unused arguments, declarations, and carried values of loops.
Cost     three walks, for writes, for liveness, and backwards to erase. Where there are writes an alias analysis, and
         all again until nothing is removed: without the removed operations fewer values may share memory.

Before:
    func.func @main(%x: tensor<4xf32>) {
      %y = torch.aten.exp.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
      %c = torch.aten.clone.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
      %w = torch.aten.relu_.default(%c) : (tensor<4xf32>) -> tensor<4xf32>
      %d = torch.aten.clone.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
      %v = torch.aten.relu_.default(%d) : (tensor<4xf32>) -> tensor<4xf32>
      fx.output(%d) : (tensor<4xf32>) -> ()
    }
After:
    func.func @main(%x: tensor<4xf32>) {
      %d = torch.aten.clone.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
      %v = torch.aten.relu_.default(%d) : (tensor<4xf32>) -> tensor<4xf32>
      fx.output(%d) : (tensor<4xf32>) -> ()
    }
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.scf import IfOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.traits import IsTerminator, RecursiveMemoryEffect

from fxc.dialects.attributes.values import Tree
from fxc.dialects.base.effects import has_side_effect
from fxc.dialects.fusion import GroupOp
from fxc.dialects.fx import OutputOp
from fxc.dialects.text.syntax import copy_names
from fxc.dialects.torch_ops.operators import HigherOrderOp
from fxc.passes.analysis.memory import Memory, Set, is_isolated, scopes, writes_anything
from fxc.passes.analysis.statistics import count


@dataclass(frozen=True)
class DcePass(ModulePass):
    name = "dce"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for scope in scopes(op):
            while _removes(scope):
                pass


def _removes(scope: Operation) -> bool:
    """Remove what is dead. Returns whether more may be: without the removed ops fewer values may share memory."""
    live = _Live(scope)
    live.mark_effects(scope.regions)
    live.propagate()
    return _sweep(scope.regions, live) and live.memory is not None


class _Live:
    """Marks live operations, starting from effects and terminators."""

    def __init__(self, scope: Operation) -> None:
        self.scope = scope
        self.memory = Memory(scope) if writes_anything(scope) else None
        self.ops, self.values = set[Operation](), set[SSAValue]()
        self.sets = set[Set]()
        self.pending = list[SSAValue]()
        self.writers = dict[Set, list[Operation]]()

    def mark_effects(self, regions: Iterable[Region], *, top: bool = True) -> None:
        for region in regions:
            for block in region.blocks:
                for op in block.ops:
                    if op.regions and not is_isolated(op):
                        self.mark_effects(op.regions, top=False)
                        if not op.has_trait(RecursiveMemoryEffect):
                            self.mark(op)
                    elif op.has_trait(IsTerminator):
                        if top or op.successors:
                            self.mark(op)
                    elif has_side_effect(op) or self.writes_outside(op):
                        self.mark(op)

    def writes_outside(self, op: Operation) -> bool:
        """Record the writes of ``op``. Returns whether it writes memory that outlives the scope."""
        if self.memory is None:
            return False
        written = self.memory.writes_of(op)
        for memory in written:
            self.writers.setdefault(memory, []).append(op)
        return any(self.memory.outlives_set(memory) for memory in written)

    def mark(self, op: Operation) -> None:
        """Mark ``op``, its operands and the ops around it as live.

        Terminators in its regions are live, too, with their operands; for an ``scf.if`` or a group, those that are used.
        """
        if op in self.ops:
            return
        self.ops.add(op)
        self.pending += op._operands
        if op.regions and not is_isolated(op):
            for region in op.regions:
                for block in region.blocks:
                    if (last := block.last_op) is not None and last.has_trait(IsTerminator):
                        self.ops.add(last)
                        if not isinstance(op, IfOp | GroupOp):
                            self.pending += last._operands
        around = op.parent_op()
        if around is not None and around is not self.scope:
            self.mark(around)

    def propagate(self) -> None:
        while self.pending:
            value = self.pending.pop()
            if value in self.values:
                continue
            self.values.add(value)
            owner = value.owner
            if not isinstance(owner, Block):
                self.mark(owner)
                if isinstance(owner, IfOp | GroupOp):
                    self.pending += [b.last_op.operands[value.index] for r in owner.regions for b in r.blocks if b.last_op]  # type: ignore[attr-defined]
            elif (around := owner.parent_op()) is not None and around is not self.scope:
                self.mark(around)
            if self.memory is not None:
                self.mark_writers(self.memory.set_of(value))

    def mark_writers(self, memory: Set) -> None:
        if memory not in self.sets:
            self.sets.add(memory)
            for writer in self.writers.get(memory, ()):
                self.mark(writer)


def _sweep(regions: Iterable[Region], live: _Live) -> bool:
    """Erase the ops and results that are not live. Returns whether there were any."""
    removed = False
    for region in regions:
        for block in reversed(list(region.blocks)):
            op = block.last_op
            while op is not None:
                before = op.prev_op
                if op not in live.ops:
                    Rewriter.erase_op(op)
                    count("ops removed")
                    removed = True
                else:
                    removed |= _sweep_inside(op, live)
                op = before
    return removed


def _sweep_inside(op: Operation, live: _Live) -> bool:
    """Sweep the regions of a live op whose users, which come after it, are already swept."""
    unread = {result.index for result in op.results if result.first_use is None} if op.regions else set[int]()
    removed = False
    if isinstance(op, HigherOrderOp):
        unread = _droppable(op, unread)
    if unread and isinstance(op, IfOp | GroupOp | HigherOrderOp):
        op, removed = drop_results(op, unread), True
        count("results removed", len(unread))
    if op.regions and not is_isolated(op):
        removed |= _sweep(op.regions, live)
    return removed


def _droppable(op: HigherOrderOp, unread: set[int]) -> set[int]:
    """Those of ``unread`` that a ``cond`` can lose: all but one result."""
    if op.operator != "higher_order.cond" or any(returned_tree(region, len(op.results)) is None for region in op.regions):
        return set()
    return unread if len(unread) < len(op.results) else unread - {0}


# removal of unused results of ops with regions, with the values that the regions return for them


def returned_tree(region: Region, length: int) -> list[Tree] | tuple[Tree, ...] | None:
    """The flat tuple or list of ``length`` elements that ``region`` returns by ``fx.output``, else None."""
    last = region.last_block.last_op if region.last_block is not None else None
    if not isinstance(last, OutputOp) or region.first_block is not region.last_block:
        return None
    args, kwargs = last.trees()
    if len(args) != 1 or kwargs or type(args[0]) not in (list, tuple) or len(args[0]) != length:
        return None
    return args[0]


def drop_results(op: IfOp | GroupOp | HigherOrderOp, unread: Collection[int]) -> Operation:
    """Replace ``op`` by one without the unused results at these positions, and return the new op."""
    for region in op.regions:
        for block in region.blocks:
            if isinstance(block.last_op, OutputOp):
                _drop_returned(block.last_op, unread)
            elif block.last_op is not None:
                block.last_op.operands = [v for i, v in enumerate(block.last_op.operands) if i not in unread]
    kept = [result for result in op.results if result.index not in unread]
    shorter = type(op).create(
        operands=op.operands,
        result_types=[result.type for result in kept],
        properties=op.properties,
        attributes=op.attributes,
        regions=[op.detach_region(region) for region in list(op.regions)],
        location=op.location,
    )
    copy_names(kept, shorter.results)
    Rewriter.insert_op(shorter, InsertPoint.before(op))
    for old, new in zip(kept, shorter.results, strict=True):
        old.replace_all_uses_with(new)
    Rewriter.erase_op(op)
    return shorter


def _drop_returned(output: OutputOp, unread: Collection[int]) -> None:
    (returned,), _ = output.trees()
    shorter = output.with_trees([type(returned)(tree for i, tree in enumerate(returned) if i not in unread)], {})
    Rewriter.insert_op(shorter, InsertPoint.before(output))
    Rewriter.erase_op(output)
