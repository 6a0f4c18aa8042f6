"""Choose between an all_reduce, and a reduce_scatter with an all_gather, by their estimated times.

Assumes  every rank has this text but for the names of its groups, so that all decide alike.
Ensures  a reduce_scatter whose results are only gathered again is an all_reduce, unless that takes longer; an
         all_reduce that takes longer than both is both. Times are those of ``dist.links``.
Leaves   tensors whose first size does not divide into equal parts, or is symbolic, and those without dimensions.
Cost     one walk.

Before:
    dist.group @dp "0" ranks [0, 1]
    func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
      %r = dist.reduce_scatter "sum" over @dp (%x) : (tensor<4xf32>) -> tensor<2xf32>
      %p = dist.wait %r : tensor<2xf32>
      %g = dist.all_gather over @dp (%p) : (tensor<2xf32>) -> tensor<4xf32>
      %y = dist.wait %g : tensor<4xf32>
      fx.output(%y) : (tensor<4xf32>) -> ()
    }
After:
    dist.group @dp "0" ranks [0, 1]
    func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
      %g = dist.all_reduce "sum" over @dp (%x) : (tensor<4xf32>) -> tensor<4xf32>
      %y = dist.wait %g : tensor<4xf32>
      fx.output(%y) : (tensor<4xf32>) -> ()
    }
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from fxc.dialects.attributes.types import device, dtype_name, is_tensor, sizes, strides, tensor_type
from fxc.dialects.dist import AllGatherOp, AllReduceOp, CollectiveOp, ReduceScatterOp, WaitOp
from fxc.dialects.text.syntax import copy_names
from fxc.passes.analysis.statistics import count
from fxc.passes.dist.links import Links
from fxc.passes.dist.moves import bodies, first_user, positions


@dataclass(frozen=True)
class ChooseReductionsPass(ModulePass):
    name = "choose-reductions"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        links = None
        for block in bodies(op):
            links = links or Links(op)
            for each in list(block.ops):
                if isinstance(each, AllGatherOp) and (scatter := _scattered(each)) is not None:
                    if _is_faster(each, links):
                        _join(scatter, each)
                elif isinstance(each, AllReduceOp) and _splits(each) and not _is_faster(each, links):
                    _split(each)


def _is_faster(op: CollectiveOp, links: Links) -> bool:
    """Whether one reduction of the message of ``op`` takes no longer than a scatter and a gather."""
    return links.time(op, "all_reduce") <= links.time(op, "reduce_scatter") + links.time(op, "all_gather")


def _scattered(op: AllGatherOp) -> ReduceScatterOp | None:
    """The reduce_scatter of which ``op`` gathers all results, in order, and nothing else reads them."""
    waits = [value.owner for value in op.inputs]
    starts = {wait.input.owner if isinstance(wait, WaitOp) else None for wait in waits}
    start = starts.pop()
    if starts or not isinstance(start, ReduceScatterOp) or start.group != op.group or start.parent is not op.parent:
        return None
    is_whole = [wait.input for wait in waits if isinstance(wait, WaitOp)] == list(start.values)
    is_only = all(len(list(value.uses)) == 1 for value in (*start.values, *op.inputs))
    return start if is_whole and is_only and start.operand_types == op.result_types else None


def _join(scatter: ReduceScatterOp, gather: AllGatherOp) -> None:
    made = AllReduceOp.of(scatter.group.root_reference.data, scatter.inputs, gather.result_types, reduction=scatter.reduction)
    made.location = scatter.location
    Rewriter.insert_op(made, InsertPoint.before(scatter))
    waits = [value.owner for value in gather.inputs]
    copy_names(gather.values, made.values)
    Rewriter.replace_op(gather, [], made.values)
    for op in (*waits, scatter):
        assert isinstance(op, Operation)
        Rewriter.erase_op(op)
    count("scatters and gathers joined")


def _splits(op: AllReduceOp) -> bool:
    ranks = op.process_group().size
    firsts = [sizes(value.type)[:1] for value in op.inputs if is_tensor(value.type) and strides(value.type) is None]
    leading = [first[0] for first in firsts if first]
    divides = len(leading) == len(op.inputs) and all(isinstance(size, int) and size % ranks == 0 for size in leading)
    return divides and op.operand_types == op.result_types


def _split(op: AllReduceOp) -> None:
    group, ranks, block = op.group.root_reference.data, op.process_group().size, op.parent
    assert block is not None
    types = [value.type for value in op.inputs]
    parts = [
        tensor_type(dtype_name(type.element_type), (int(sizes(type)[0]) // ranks, *sizes(type)[1:]), None, device(type))
        for type in types
        if is_tensor(type)
    ]
    scatter = ReduceScatterOp.of(group, op.inputs, parts, reduction=op.reduction)
    Rewriter.insert_op(scatter, InsertPoint.before(op))
    waits = [WaitOp.of(value) for value in scatter.values]
    gather = AllGatherOp.of(group, [wait.value for wait in waits], types)
    for made in (scatter, *waits, gather):
        made.location = op.location
    end = first_user(op.values, block, positions(block)) or block.last_op
    assert end is not None
    Rewriter.insert_op([*waits, gather], InsertPoint.before(end))
    copy_names(op.values, gather.values)
    Rewriter.replace_op(op, [], gather.values)
    count("reductions split")
