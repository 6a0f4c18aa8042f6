"""Tensors that are read in many pieces, as the steps of a loop read them."""

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
"""Of so many different views a tensor is read in pieces. One kernel for all steps of a loop saves about two microseconds a step
when it runs, and takes 30 ms a step to compile."""


def gather_pieces(function: FuncOp) -> None:
    """Put the views of a tensor, of which ``function`` of one block has many different ones, right behind it.

    What a loop does with each piece is the same then for all. The pieces of a tensor that is written stay.
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
    """Tensors with many different views in ``block`` -> the views, which read no other value than numbers that it states."""
    structures, views = Structures(), dict[SSAValue, dict[Operation, Hashable]]()
    for op in block.ops:
        if op.operands and len(op.results) == 1 and is_view(op) and all(map(is_scalar_constant, op.operands[1:])):
            views.setdefault(op.operands[0], {})[op] = structures.key(op)
    return {tensor: list(found) for tensor, found in views.items() if len({*found.values()}) >= MANY}


def _move(op: Operation | Block, behind: Operation | Block) -> None:
    """Put ``op`` right behind another, or first in a block."""
    assert isinstance(op, Operation)
    op.detach()
    Rewriter.insert_op(op, InsertPoint.at_start(behind) if isinstance(behind, Block) else InsertPoint.after(behind))
