"""What depends on a model's own tensors alone, and not on what it is called with."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from fxc.dialects.base.effects import is_pure
from fxc.dialects.entry import find_entry, unchanging_arguments
from fxc.dialects.torch_ops.base import TorchOp
from fxc.passes.analysis.constants import is_scalar_constant
from fxc.passes.analysis.memory import writes_anything


def own_entry(module: ModuleOp) -> FuncOp | None:
    """The entry of a program whose own tensors may be taken as they are: one block, in which nothing is written; None else."""
    entry = find_entry(module)
    return None if entry is None or len(entry.body.blocks) != 1 or writes_anything(entry) else entry


def own_ops(entry: FuncOp) -> tuple[list[Operation], set[SSAValue]]:
    """The ops of ``entry`` that compute the same in every call, of tensors that it takes; their results and these tensors."""
    known, found = unchanging_arguments(entry), list[Operation]()
    for op in entry.body.block.ops:
        read = [value for value in op.operands if not is_scalar_constant(value)]
        if isinstance(op, TorchOp) and op.results and not op.regions and is_pure(op) and read and known.issuperset(read):
            known.update(op.results)
            found.append(op)
    return found, known
