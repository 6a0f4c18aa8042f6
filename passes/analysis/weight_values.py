"""Values that depend only on the tensors of a model, not on the inputs of a call."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from fxc.dialects.base.effects import is_pure
from fxc.dialects.entry import find_entry, unchanging_arguments
from fxc.dialects.torch_ops.base import TorchOp
from fxc.passes.analysis.constants import is_scalar_constant
from fxc.passes.analysis.memory import writes_anything


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
