"""Which ops are constants, and of what kind, and which compute from the tensors of a model only, not from inputs of a call."""

from __future__ import annotations

from xdsl.dialects.builtin import FloatAttr, IntegerAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.traits import ConstantLike

from fxc.dialects.attributes.types import is_tensor
from fxc.dialects.attributes.values import NoneValueAttr
from fxc.dialects.base.effects import is_pure
from fxc.dialects.entry import find_entry, unchanging_arguments
from fxc.dialects.torch_ops.base import TorchOp
from fxc.dialects.torch_ops.constant import ConstantOp
from fxc.passes.analysis.memory import writes_anything


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


def readable_entry(module: ModuleOp) -> FuncOp | None:
    """The entry of a program whose weights may be read at compile time; None where it has several blocks or writes memory."""
    entry = find_entry(module)
    return None if entry is None or len(entry.body.blocks) != 1 or writes_anything(entry) else entry


def unchanging_ops(entry: FuncOp) -> tuple[list[Operation], set[SSAValue]]:
    """The ops of ``entry`` that compute only from unchanging arguments, and the values that are equal in every call.

    The values are the results of these ops and the unchanging arguments.
    """
    known, found = unchanging_arguments(entry), list[Operation]()
    for op in entry.body.block.ops:
        read = [value for value in op.operands if not is_scalar_constant(value)]
        if isinstance(op, TorchOp) and op.results and not op.regions and is_pure(op) and read and known.issuperset(read):
            known.update(op.results)
            found.append(op)
    return found, known
