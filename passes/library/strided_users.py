"""Which users can read a strided value, such as a slice, without copying it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.ir import Attribute, Block, SSAValue
from xdsl.utils.exceptions import VerifyException

from fxc.dialects.attributes.types import is_tensor
from fxc.dialects.base.effects import aliases, is_pure, is_view, may_retain
from fxc.dialects.context import FxcContext
from fxc.dialects.torch_ops.base import TorchOp
from fxc.passes.library.packings import is_product


def types_with_steps(
    ctx: FxcContext, steps: Mapping[SSAValue, Attribute], *, copies: bool = False
) -> Mapping[SSAValue, Attribute] | None:
    """The types of values and their views if the values had the types ``steps``, which differ in strides only.

    None if a user copies a value, rejects it, returns a result of another type, or is unknown, such as a return. With
    ``copies``, users that copy a value or return a view of it, such as ``reshape``, are accepted if their types are unchanged.
    """
    stands = {value: value_of(type) for value, type in steps.items()}
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
            if len(changed) < len(op.results) and not is_view(op) and not (copies and not changed):
                return None
            stands |= {result: value_of(new) for result, new in changed}
            waiting += [result for result, _ in changed]
    if any(_types(ctx, op, stands) != op.result_types for op in readers):
        return None
    return {old: stand.type for old, stand in stands.items()}


def _may_read(op: TorchOp, value: SSAValue) -> bool:
    """Whether type inference shows how ``op`` handles strided operands. Packed products need contiguous rows."""
    plain = not op.regions and not is_product(op) and is_pure(op) and not may_retain(op)
    return plain and op.parent is value.owner.parent and all(is_tensor(type) for type in op.result_types)


def value_of(type: Attribute) -> SSAValue:
    """A value of ``type`` outside of any program, for type inference."""
    return Block(arg_types=[type]).args[0]


def _types(ctx: FxcContext, op: TorchOp, stands: Mapping[SSAValue, SSAValue]) -> Sequence[Attribute] | None:
    """The result types that PyTorch infers for ``op`` with operands replaced by ``stands``; None if it rejects them."""
    new = op.rebuilt(op.bound())
    for index, operand in enumerate(new.operands):
        new.operands[index] = stands.get(operand, operand)
    try:
        return tuple(ctx.semantics.infer(new))
    except VerifyException:
        return None
    finally:
        new.erase()  # otherwise it remains a user of its operands
