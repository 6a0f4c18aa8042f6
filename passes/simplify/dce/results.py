"""Removing results of ops with regions, together with what the regions return for them."""

from __future__ import annotations

from collections.abc import Collection

from xdsl.dialects.scf import IfOp
from xdsl.ir import Operation, Region
from xdsl.rewriter import InsertPoint, Rewriter

from fxc.dialects.attributes.values import Tree
from fxc.dialects.fx import OutputOp
from fxc.dialects.text.syntax import copy_names
from fxc.dialects.torch_ops.higher_order import HigherOrderOp


def returned_tree(region: Region, length: int) -> list[Tree] | tuple[Tree, ...] | None:
    """The flat tuple or list of ``length`` elements that ``region`` returns by ``fx.output``; None where it is not that."""
    last = region.last_block.last_op if region.last_block is not None else None
    if not isinstance(last, OutputOp) or region.first_block is not region.last_block:
        return None
    args, kwargs = last.trees()
    if len(args) != 1 or kwargs or not isinstance(args[0], (list, tuple)) or len(args[0]) != length:
        return None
    return args[0]


def drop_results(op: IfOp | HigherOrderOp, unread: Collection[int]) -> Operation:
    """The op in the place of ``op`` without the results at these positions, which nothing reads."""
    for region in op.regions:
        for block in region.blocks:
            if isinstance(block.last_op, OutputOp):
                _drop_returned(block.last_op, unread)
            elif block.last_op is not None:
                block.last_op.operands = [v for i, v in enumerate(block.last_op.operands) if i not in unread]
    kept = [result for result in op.results if result.index not in unread]
    shorter = type(op).create(
        operands=op.operands,
        result_types=[result.type for result in kept],
        properties=op.properties,
        attributes=op.attributes,
        regions=[op.detach_region(region) for region in list(op.regions)],
        location=op.location,
    )
    copy_names(kept, shorter.results)
    Rewriter.insert_op(shorter, InsertPoint.before(op))
    for old, new in zip(kept, shorter.results, strict=True):
        old.replace_all_uses_with(new)
    Rewriter.erase_op(op)
    return shorter


def _drop_returned(output: OutputOp, unread: Collection[int]) -> None:
    (returned,), _ = output.trees()
    shorter = output.with_trees([type(returned)(tree for i, tree in enumerate(returned) if i not in unread)], {})
    Rewriter.insert_op(shorter, InsertPoint.before(output))
    Rewriter.erase_op(output)
