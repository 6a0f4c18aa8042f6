"""Who could read a value that lies in memory with steps, as a part of a larger one does, and would not copy it first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Block, SSAValue
from xdsl.utils.exceptions import VerifyException

from fxc.dialects.base.effects import aliases, is_pure, is_view, may_keep
from fxc.dialects.context import FxcContext
from fxc.dialects.torch_ops.base import TorchOp
from fxc.passes.library.packings import is_product


def types_with_steps(ctx: FxcContext, steps: Mapping[SSAValue, Attribute]) -> Mapping[SSAValue, Attribute] | None:
    """The types of values and of their views if they were of the types ``steps``, which differ from theirs in strides.

    None where something reads one of them that copies it, refuses it, gives a result of another type, or is not known: where
    it is returned, say.
    """
    stands = {value: _value_of(type) for value, type in steps.items()}
    waiting, readers = list(steps), list[TorchOp]()
    while waiting:
        read = waiting.pop()
        for op in dict.fromkeys(use.operation for use in read.uses):
            if not isinstance(op, TorchOp) or not _may_read(op, read) or (found := _types(ctx, op, stands)) is None:
                return None
            if all(source is not read for _, source in aliases(op)):
                readers.append(op)
                continue
            changed = [(result, new) for result, new in zip(op.results, found, strict=True) if new != result.type]
            if len(changed) < len(op.results) and not is_view(op):
                return None
            stands |= {result: _value_of(new) for result, new in changed}
            waiting += [result for result, _ in changed]
    if any(_types(ctx, op, stands) != op.result_types for op in readers):
        return None
    return {old: stand.type for old, stand in stands.items()}


def _may_read(op: TorchOp, value: SSAValue) -> bool:
    """Whether the types of its operands tell what ``op`` does with them. A product's rows are contiguous where it is packed."""
    plain = not op.regions and not is_product(op) and is_pure(op) and not may_keep(op)
    return plain and op.parent is value.owner.parent and all(isinstance(type, TensorType) for type in op.result_types)


def _value_of(type: Attribute) -> SSAValue:
    return Block(arg_types=[type]).args[0]


def _types(ctx: FxcContext, op: TorchOp, stands: Mapping[SSAValue, SSAValue]) -> Sequence[Attribute] | None:
    """What PyTorch gives ``op`` of what stands for its operands; None where it refuses."""
    new = op.rebuilt(op.bound())
    for index, operand in enumerate(new.operands):
        new.operands[index] = stands.get(operand, operand)
    try:
        return tuple(ctx.semantics.infer(new))
    except VerifyException:
        return None
    finally:
        new.erase()  # it counts as a reader of its operands
