"""Which ops are constants, and of what kind."""

from __future__ import annotations

from xdsl.dialects.builtin import FloatAttr, IntegerAttr, StringAttr
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.traits import ConstantLike

from fxc.dialects.attributes.types import is_tensor
from fxc.dialects.attributes.values import NoneValueAttr
from fxc.dialects.torch_ops.constant import ConstantOp


def is_host_constant(value: Attribute) -> bool:
    """Whether ``value`` is a number, a string or None: the constants besides tensors that ``torch.constant`` holds."""
    return isinstance(value, (IntegerAttr, FloatAttr, StringAttr, NoneValueAttr))


def is_constant(op: Operation) -> bool:
    """Whether ``op`` has one result, whose value is stated by the attributes of ``op``."""
    return len(op.results) == 1 and not op._operands and not op.regions and op.has_trait(ConstantLike)


def is_scalar_constant(value: SSAValue) -> bool:
    """Whether ``value`` is a number, a string or None, defined by a constant op."""
    return not is_tensor(value.type) and isinstance(value.owner, Operation) and is_constant(value.owner)


def constant_of(value: SSAValue) -> Attribute | None:
    """The attribute of a value that a ``torch.constant`` defines, else None."""
    owner = value.owner
    return owner.value if isinstance(owner, ConstantOp) else None
