"""The effects of operations: what they write, alias and capture, and whether they must run.

Passes call the functions of this module. Operations of fxc implement ``EffectsInterface``. For operations of xDSL's dialects,
and for methods that a class does not override, the effects follow from the traits. A call of an unknown callee may have any
effect.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator

from xdsl.dialects.builtin import TensorType, TupleType
from xdsl.ir import Operation, SSAValue
from xdsl.traits import EffectInstance, IsTerminator, MemoryEffect, MemoryEffectKind, Pure, RecursiveMemoryEffect

from fxc.dialects.attributes.discardable import BORROWS
from fxc.dialects.attributes.types import NUMBERS, ValueType
from fxc.dialects.attributes.values import Tree


class OperatorCall(Operation):
    """An operation that export and the interpreter run as a call."""

    @abstractmethod
    def operator_call(self) -> tuple[str, list[Tree]]:
        """The operator, such as ``aten.add.Tensor``, and the arguments."""


class EffectsInterface(Operation):
    """An operation that states its effects. Each method is documented at the function of the same name."""

    def writes(self) -> list[SSAValue] | None:
        return [] if is_pure(self) else None

    def aliases(self) -> Iterator[tuple[int, SSAValue]]:
        return _any_aliases(self)

    def reshapes(self) -> list[SSAValue]:
        return []

    def may_retain(self) -> bool:
        return BORROWS not in self.attributes

    def has_side_effect(self) -> bool:
        return _side_effect_of_traits(self)

    def is_random(self) -> bool:
        return False

    def is_view(self) -> bool:
        return False

    def is_pure(self) -> bool:
        return not self.has_side_effect()

    def reads_memory(self) -> bool:
        return _reads_operands(self)


class CallEffects(MemoryEffect):
    """Memory effects of call ops, for xDSL's passes: a call that is not pure reads and writes."""

    @classmethod
    def get_effects(cls, op: Operation) -> set[EffectInstance] | None:
        if not is_pure(op):
            return {EffectInstance(MemoryEffectKind.WRITE), EffectInstance(MemoryEffectKind.READ)}
        if reads_memory(op):
            return {EffectInstance(MemoryEffectKind.READ)}
        return set()


def writes(op: Operation) -> list[SSAValue] | None:
    """The values whose memory ``op`` writes; None where that is unknown (assume all)."""
    if isinstance(op, EffectsInterface):
        return op.writes()
    return [] if is_pure(op) else None


def aliases(op: Operation) -> Iterator[tuple[int, SSAValue]]:
    """(result index, operand) pairs that may share memory; all pairs where that is unknown.

    For a ``fusion.group`` the second is a value that its body reads.
    """
    return op.aliases() if isinstance(op, EffectsInterface) else _any_aliases(op)


def reshapes(op: Operation) -> list[SSAValue]:
    """The values whose sizes or strides ``op`` may change: resized tensors, and those passed as ``out``."""
    return op.reshapes() if isinstance(op, EffectsInterface) else []


def may_retain(op: Operation) -> bool:
    """Whether ``op`` may retain the memory of an operand after it returns, except in results that ``aliases`` names.

    Also true of an op that reads the storage offset of an operand.
    """
    return op.may_retain() if isinstance(op, EffectsInterface) else BORROWS not in op.attributes


def has_side_effect(op: Operation) -> bool:
    """Whether ``op`` must run even if its results are unused, for another reason than a write to memory."""
    return op.has_side_effect() if isinstance(op, EffectsInterface) else _side_effect_of_traits(op)


def is_random(op: Operation) -> bool:
    """Whether ``op`` samples from a generator: two calls differ, and removing one changes the samples of the next."""
    return isinstance(op, EffectsInterface) and op.is_random()


def is_view(op: Operation) -> bool:
    """Whether every result of ``op`` must alias its argument, and ``op`` reads none of its memory: ``permute``, ``split``."""
    return isinstance(op, EffectsInterface) and op.is_view()


def is_pure(op: Operation) -> bool:
    """Whether ``op`` only computes its results: no write, no random number, no side effect."""
    return op.is_pure() if isinstance(op, EffectsInterface) else not _side_effect_of_traits(op)


def reads_memory(op: Operation) -> bool:
    """Whether the results of ``op`` depend on the contents of tensors that others may write."""
    return op.reads_memory() if isinstance(op, EffectsInterface) else _reads_operands(op)


def inner_operations(op: Operation) -> Iterator[Operation]:
    """The operations directly in the regions of ``op``, without terminators."""
    for region in op.regions:
        for block in region.blocks:
            for inner in block.ops:
                if not inner.has_trait(IsTerminator):
                    yield inner


def has_inner_effect(op: Operation) -> bool:
    """Whether an operation in the regions of ``op`` has a side effect or writes."""
    return any(has_side_effect(inner) or writes(inner) != [] for inner in inner_operations(op))


def _side_effect_of_traits(op: Operation) -> bool:
    if op.regions and op.has_trait(RecursiveMemoryEffect):
        return has_inner_effect(op)
    return op.has_trait(IsTerminator) or not op.has_trait(Pure)


def _any_aliases(op: Operation) -> Iterator[tuple[int, SSAValue]]:
    if BORROWS not in op.attributes:
        for index, result in enumerate(op.results):
            for operand in () if isinstance(result.type, NUMBERS) else op.operands:
                if not isinstance(operand.type, NUMBERS):
                    yield index, operand


def _reads_operands(op: Operation) -> bool:
    return any(isinstance(operand.type, (TensorType, TupleType, ValueType)) for operand in op.operands)
