"""Tensors that are read in many pieces, such as by the steps of an unrolled loop."""

from __future__ import annotations

from collections.abc import Hashable

from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from fxc.dialects.base.effects import is_pure, is_view
from fxc.dialects.entry import updated_arguments
from fxc.passes.analysis.constants import is_scalar_constant
from fxc.passes.analysis.statistics import count
from fxc.passes.analysis.structural_key import Structures

MANY = 64
"""The number of different views from which a tensor counts as read in pieces.

One kernel for all steps of a loop saves about two microseconds a step at run time, and takes 30 ms a step to compile.
"""


def gather_pieces(function: FuncOp) -> None:
    """Move the views of a tensor that has many different ones in ``function``, of one block, directly after it.

    The steps of a loop are then equal for all pieces. The pieces of a tensor that is written do not move.
    """
    updated, block = updated_arguments(function), function.body.block
    for tensor, views in _pieces(block).items():
        if tensor in updated or not all(is_pure(use.operation) for use in tensor.uses):
            continue
        last = tensor.owner
        for view in views:
            for number in view.operands[1:]:
                _move(number.owner, block)
            _move(view, last)
            last = view
        count("pieces gathered", len(views))


def _pieces(block: Block) -> dict[SSAValue, list[Operation]]:
    """Tensor with many different views in ``block`` -> the views, whose only other operands are host constants."""
    structures, views = Structures(), dict[SSAValue, dict[Operation, Hashable]]()
    for op in block.ops:
        if op.operands and len(op.results) == 1 and is_view(op) and all(map(is_scalar_constant, op.operands[1:])):
            views.setdefault(op.operands[0], {})[op] = structures.key(op)
    return {tensor: list(found) for tensor, found in views.items() if len({*found.values()}) >= MANY}


def _move(op: Operation | Block, behind: Operation | Block) -> None:
    """Move ``op`` directly after another op, or to the start of a block."""
    assert isinstance(op, Operation)
    op.detach()
    Rewriter.insert_op(op, InsertPoint.at_start(behind) if isinstance(behind, Block) else InsertPoint.after(behind))
