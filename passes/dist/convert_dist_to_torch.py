"""Convert collectives of the dialect ``dist`` to calls of PyTorch's functional collectives.

Assumes  verified IR.
Ensures  no collective and no wait of ``dist`` is left: each is a call that names the process group of this rank.
         Kernels and host programs have such calls. A reduce_scatter of several tensors of known sizes on the CPU is one
         of their concatenation, whose results are views: gloo sends a message for each otherwise. Idempotent.
Leaves   meshes, groups and layouts.
Cost     one walk.

Before:
    dist.group @dp "0" ranks [0, 1]
    func.func @main(%x: tensor<4xf32>) -> tensor<8xf32> {
      %r = dist.all_gather over @dp (%x) : (tensor<4xf32>) -> tensor<8xf32>
      %y = dist.wait %r : tensor<8xf32>
      fx.output(%y) : (tensor<8xf32>) -> ()
    }
After:
    dist.group @dp "0" ranks [0, 1]
    func.func @main(%x: tensor<4xf32>) -> tensor<8xf32> {
      %r = torch._c10d_functional.all_gather_into_tensor.default(%x, 2, "0") : (tensor<4xf32>) -> tensor<8xf32>
      %y = torch._c10d_functional.wait_tensor.default(%r) : (tensor<8xf32>) -> tensor<8xf32>
      fx.output(%y) : (tensor<8xf32>) -> ()
    }
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from fxc.dialects.attributes.types import contiguous_strides, device, dtype_name, is_tensor, sizes, strides, tensor_type
from fxc.dialects.attributes.values import Tree, int_attr
from fxc.dialects.dist import CollectiveOp, ReduceScatterOp, WaitOp
from fxc.dialects.text.syntax import copy_names
from fxc.dialects.torch_ops.operators import torch_op
from fxc.passes.dist.moves import first_user, positions


@dataclass(frozen=True)
class ConvertDistToTorchPass(ModulePass):
    name = "convert-dist-to-torch"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for each in list(op.walk()):
            if isinstance(each, ReduceScatterOp) and len(each.inputs) > 1 and _joins(each):
                _join(each)
        for each in reversed(list(op.walk())):  # a wait before its start: the start checks its users
            if isinstance(each, (CollectiveOp, WaitOp)):
                operator, args = each.operator_call()
                Rewriter.replace_op(each, made := _call(operator, args, each.result_types, each))
                made.attributes |= each.attributes
                copy_names(each.results, made.results)


def _call(operator: str, args: Sequence[Tree], types: Sequence[Attribute], like: Operation) -> Operation:
    return torch_op(operator).build_call(list(args), {}, types, location=like.location)


def _joins(op: ReduceScatterOp) -> bool:
    """Whether the tensors are on the CPU, contiguous and of known sizes, and results are read in the block of ``op`` only."""
    users = [use.operation for value in op.values for use in value.uses]
    return all(map(_is_plain, (*op.operand_types, *op.result_types))) and all(user.parent is op.parent for user in users)


def _is_plain(type: Attribute) -> bool:
    if not is_tensor(type) or device(type) != "cpu" or not all(isinstance(size, int) for size in sizes(type)):
        return False
    shape = [size for size in sizes(type) if isinstance(size, int)]
    steps = zip(shape, strides(type) or contiguous_strides(shape), contiguous_strides(shape), strict=True)
    return all(size == 1 or given == dense for size, given, dense in steps)


def _join(op: ReduceScatterOp) -> None:
    """Replace ``op`` by one for the parts of all operands for a rank, beside each other, in a row for each rank."""
    block, ranks, type = op.parent, op.process_group().size, op.inputs[0].type
    assert block is not None and is_tensor(type)
    counts = [prod(size for size in sizes(value.type) if isinstance(size, int)) for value in op.values if is_tensor(value.type)]

    def rows(count: int, number: int = ranks) -> Attribute:
        return tensor_type(dtype_name(type.element_type), (number, count), None, device(type))

    shape = ([int_attr(ranks), int_attr(count)] for count in counts)
    views = [
        _call("aten.view.default", [value, list(each)], [rows(count)], op)
        for value, each, count in zip(op.inputs, shape, counts, strict=True)
    ]
    joined = _call("aten.cat.default", [[view.results[0] for view in views], int_attr(1)], [rows(sum(counts))], op)
    scatter = ReduceScatterOp.of(op.group.root_reference.data, joined.results, [rows(sum(counts), 1)], reduction=op.reduction)
    scatter.location, end = op.location, first_user(op.values, block, positions(block)) or op
    Rewriter.insert_op([*views, joined, scatter], InsertPoint.before(op))
    Rewriter.insert_op(wait := WaitOp.of(scatter.values[0]), InsertPoint.before(end))
    place = 0
    for value, count in zip(op.values, counts, strict=True):
        for each in [use.operation for use in value.uses]:
            _replace_by_view(each, wait.value, place, count, rows(count, 1))
        place += count
    Rewriter.erase_op(op)


def _replace_by_view(wait: Operation, whole: SSAValue, place: int, count: int, row: Attribute) -> None:
    """Replace ``wait`` by a view of the ``count`` elements from ``place`` of the one row ``whole``."""
    [type] = wait.result_types
    part = _call("aten.slice.Tensor", [whole, int_attr(1), int_attr(place), int_attr(place + count)], [row], wait)
    shape: list[Tree] = [int_attr(size) for size in sizes(type) if isinstance(size, int)] if is_tensor(type) else []
    view = _call("aten.view.default", [part.results[0], shape], [type], wait)
    copy_names(wait.results, view.results)
    Rewriter.replace_op(wait, [part, view])
