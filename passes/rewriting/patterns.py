"""Local rewrites: patterns are dispatched by op name and applied until none matches.

A pattern states an equation. It calls ``rewriter.forward`` or ``rewriter.replace`` where the equation holds; the rewriter
rejects a replacement that aliasing or writes make illegal. Results keep their type, layout and device: a pattern whose
replacement has another type does not match.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from fxc.dialects.attributes.values import map_tree
from fxc.dialects.autodiff import SAVED
from fxc.dialects.base.effects import is_pure
from fxc.dialects.fusion import YieldOp
from fxc.dialects.text.call import CallOp
from fxc.passes.analysis.matching import is_complex
from fxc.passes.analysis.memory import Memory, is_isolated, scopes
from fxc.passes.analysis.statistics import count


class Pattern(ABC):
    """One equation. ``ROOTS`` are the names of the ops that it rewrites, without ``torch.``: ``aten.neg.default``."""

    ROOTS: ClassVar[tuple[str, ...]]
    IS_FOR_DEAD: ClassVar[bool] = False
    """Whether the pattern also rewrites ops with unused results. Other patterns leave them to dce."""

    @property
    def label(self) -> str:
        """Its name in statistics."""
        return type(self).__name__

    @abstractmethod
    def rewrite(self, op: Any, rewriter: PatternRewriter) -> None:
        """Rewrite ``op``, one of ``ROOTS``, where the equation holds. Guards come first."""


Dispatch = Mapping[str, Sequence[Pattern]]


def dispatch_table(patterns: Iterable[Pattern]) -> dict[str, list[Pattern]]:
    """Op name -> its patterns, in the given order."""
    table = dict[str, list[Pattern]]()
    for pattern in patterns:
        for root in pattern.ROOTS:
            table.setdefault(f"torch.{root}", []).append(pattern)
    return table


def apply_patterns(module: ModuleOp, dispatch: Dispatch) -> bool:
    """Apply patterns in every scope of ``module`` until none matches. Returns whether any matched."""
    changed = False
    for scope in scopes(module):
        rewriter = PatternRewriter(scope, dispatch)
        rewriter.run()
        changed |= rewriter.changed
    return changed


class PatternRewriter:
    """The rewrites that patterns may do, and the worklist of ops."""

    def __init__(self, scope: Operation, dispatch: Dispatch) -> None:
        self.scope, self.dispatch, self.changed = scope, dispatch, False
        self._rewrites = 0
        self._pending = deque[Operation]()
        self._queued = set[Operation]()

    @cached_property
    def memory(self) -> Memory:
        """The alias sets, computed on first use and then updated."""
        return Memory(self.scope)

    def run(self) -> None:
        self._collect(self.scope)
        while self._pending:
            op = self._pending.popleft()
            self._queued.discard(op)
            for pattern in self.dispatch[op.name]:
                if op.parent is None:
                    break
                if not (pattern.IS_FOR_DEAD or any(result.first_use for result in op.results)):
                    continue
                before = self._rewrites
                pattern.rewrite(op, self)
                count(pattern.label, self._rewrites - before)

    def forward(self, op: Operation, *values: SSAValue, same_memory: bool = False) -> None:
        """Replace the results of ``op`` by ``values``, which are equal to them.

        ``same_memory``: the results are ``values`` or views of them, not copies. An op with ``autodiff.saved`` remains.
        """
        if SAVED in op.attributes:
            return
        for result, value in zip(op.results, values, strict=True):
            if value.type != result.type or (not same_memory and is_complex(value.type)):
                return  # a complex tensor may be lazily conjugated, which a copy resolves
            if not self.memory.can_replace(result, value, same_memory=same_memory) or not _may_yield(result, value):
                return
        self._substitute(op, values)

    def replace(self, op: Operation, *new: Operation) -> None:
        """Replace ``op`` by ``new``, the last of which computes the same and shares memory with the same values.

        They have the attributes of ``op``. The operands of ``new`` must not be written, because they may be computed earlier
        than those of ``op``.
        """
        [result], [value] = op.results, new[-1].results
        if value.type != result.type or any(self.memory.is_written(operand) for each in new for operand in each.operands):
            for each in reversed(new):
                each.erase()
            return
        value._name = result._name
        for each in new:
            marks = op.attributes if each is new[-1] or SAVED not in op.attributes else {}
            each.attributes = {**marks, **each.attributes}
            Rewriter.insert_op(each, InsertPoint.before(op))
            self.memory.add(each)
        self._push(new)
        self._substitute(op, [value])

    def replace_match(self, ops: Sequence[Operation], outputs: Sequence[SSAValue], values: Sequence[SSAValue]) -> None:
        """Replace ``outputs``, results of ``ops``, by ``values``, and erase ``ops`` whatever their effects.

        The caller guarantees that no write makes this illegal. Ops that were visited before are not visited again.
        """
        for output, value in zip(outputs, values, strict=True):
            _let_use(output, value)
        for op in reversed(ops):
            Rewriter.erase_op(op)
        self.__dict__.pop("memory", None)
        self._note()

    def fold_operand(self, op: CallOp, value: SSAValue, constant: Attribute) -> None:
        """Pass ``constant`` instead of ``value`` to ``op``, which keeps its results."""
        folded = op.with_trees(*map_tree(op.trees(), lambda leaf: constant if leaf is value else leaf))
        op.operands = folded.operands
        op.properties = folded.properties
        folded.drop_all_references()
        self._push([op])
        self._note()

    def _substitute(self, op: Operation, values: Sequence[SSAValue]) -> None:
        for result, value in zip(op.results, values, strict=True):
            self._push(use.operation for use in result.uses)
            _let_use(result, value)
            self.memory.replaced(result, value)
        self._note()
        self.erase_unused(op)

    def _note(self) -> None:
        self._rewrites += 1
        self.changed = True

    @staticmethod
    def erase_unused(op: Operation) -> None:
        """Erase ``op`` where it is unused, and then the ops that only it used."""
        stack = [op]
        while stack:
            dead = stack.pop()
            if dead.parent is None or any(result.first_use for result in dead.results) or dead.regions or not is_pure(dead):
                continue
            stack += [operand.owner for operand in dead._operands if isinstance(operand.owner, Operation)]
            Rewriter.erase_op(dead)

    def _collect(self, op: Operation) -> None:
        for region in op.regions:
            for block in region.blocks:
                for inner in block.ops:
                    if inner.name in self.dispatch:
                        self._push([inner])
                    if inner.regions and not is_isolated(inner):
                        self._collect(inner)

    def _push(self, ops: Iterable[Operation]) -> None:
        for op in ops:
            if op.name in self.dispatch and op not in self._queued:
                self._queued.add(op)
                self._pending.append(op)


def _may_yield(old: SSAValue, new: SSAValue) -> bool:
    """Whether ``new`` may replace ``old`` in the yields of groups: they yield only values that they make."""
    blocks = [use.operation.parent for use in old.uses if isinstance(use.operation, YieldOp)]
    made_in = new.owner.parent if isinstance(new.owner, Operation) else None
    return all(block is made_in for block in blocks)


def _let_use(old: SSAValue, new: SSAValue) -> None:
    """Replace ``old`` by ``new``, which keeps its name."""
    name = new._name
    old.replace_all_uses_with(new)
    new._name = name
