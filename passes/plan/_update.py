"""Operators that update their first operand where nothing uses it later."""

from __future__ import annotations

from xdsl.ir import Block, SSAValue
from xdsl.rewriter import Rewriter

from fxc.dialects.effects import RESHAPED_IN_PLACE, aliases, is_pure
from fxc.dialects.plan import FreeOp
from fxc.dialects.torch_ops import TorchOp, op_class
from fxc.passes._statistics import count
from fxc.passes.plan._dying import ends_with, unrelease


def update_dying_operands(block: Block) -> None:
    """Let operators of ``block`` that allocate a result of the type of their first operand update that, where nothing else has
    its memory and it is released right behind."""
    for op in list(block.ops):
        if isinstance(op, TorchOp) and isinstance(op.next_op, FreeOp) and (variant := in_place_variant(op)) is not None:
            source = op.operands[0]
            if ends_with(source, op):
                _update(op, variant, source)
                count("operators in place")


def in_place_variant(op: TorchOp) -> type[TorchOp] | None:
    """``add_`` of ``add``: what computes the same into its first argument, of the type of the result; None if nothing does."""
    namespace, name, overload = op.operator.split(".")
    if namespace != "aten" or f"{name}_" in RESHAPED_IN_PLACE or len(op.results) != 1 or not is_pure(op) or any(aliases(op)):
        return None
    cls = op_class(f"torch.{namespace}.{name}_.{overload}")
    if cls is None or not issubclass(cls, TorchOp) or not cls.SCHEMA.arguments or not cls.SCHEMA.arguments[0].writes:
        return None
    source = op.bound()[op.SCHEMA.arguments[0].name]
    if not isinstance(source, SSAValue) or source.type != op.results[0].type:
        return None
    rest = cls.SCHEMA.arguments[1:]
    same = rest == op.SCHEMA.arguments[1:] and cls.SCHEMA.arguments[0].name == op.SCHEMA.arguments[0].name
    return cls if same and not any(argument.writes for argument in rest) else None


def _update(op: TorchOp, variant: type[TorchOp], source: SSAValue) -> None:
    """``source`` takes the place of the result of ``op``; it is released when that was."""
    unrelease(source)
    arguments = variant.divide(op.bound())
    call = variant.build_call(*arguments, op.result_types, attributes=op.attributes, location=op.location)
    Rewriter.replace_op(op, call, [source], safe_erase=False)
