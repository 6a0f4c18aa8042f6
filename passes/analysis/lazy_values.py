"""Values that PyTorch may conjugate or negate only when they are read."""

from __future__ import annotations

from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, SSAValue

from fxc.dialects.base.effects import aliases
from fxc.dialects.torch_ops.base import TorchOp
from fxc.dialects.torch_ops.effects import LAZY, RESOLVING
from fxc.passes.analysis.matching import is_complex


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
