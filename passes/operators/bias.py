"""Split ``addmm`` into a matrix product and a sum that kernels can fuse; join them again if no kernel did."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Block, Operation, SSAValue

from fxc.dialects.attributes.types import dims_of, is_tensor, strides, tensor_of
from fxc.dialects.attributes.values import isa
from fxc.dialects.context import FxcContext
from fxc.dialects.torch_ops.base import TorchOp
from fxc.dialects.torch_ops.operators import torch_op
from fxc.passes.analysis.matching import dtype, number, producer, rank
from fxc.passes.rewriting.insertion import put_in_place

ADDMM = "aten.addmm.default"
_MM, _ADD, _VIEW = "aten.mm.default", "aten.add.Tensor", "aten.view.default"


def split_addmm(ctx: FxcContext, op: TorchOp) -> Sequence[TorchOp]:
    """addmm(b, x, y) -> b + mm(x, y)"""
    if not _is_sum(op):
        return []
    bound, result = op.bound(), op.results[0]
    product = torch_op(_MM).build_call([bound["mat1"], bound["mat2"]], {}, [result.type], location=op.location)
    total = torch_op(_ADD).build_call([bound["self"], product.results[0]], {}, [result.type], location=op.location)
    put_in_place(op, [product, total], [(result, total.results[0])])
    return [product]


def split_below_view(ctx: FxcContext, op: TorchOp) -> Sequence[TorchOp]:
    """view(addmm(b, x, y)) -> b + view(mm(x, y)), if the addmm has no other use and b is a row"""
    result, bound = op.results[0], op.bound()
    views = list(dict.fromkeys(use.operation for use in result.uses))
    if len(views) != 1 or not _is_sum(op) or rank(op.operands[0]) != 1:
        return []
    [view] = views
    if not isinstance(view, TorchOp) or view.operator != _VIEW or dims_of(view.results[0])[-1:] != dims_of(result)[-1:]:
        return []
    product = torch_op(_MM).build_call([bound["mat1"], bound["mat2"]], {}, [result.type], location=op.location)
    shaped = view.rebuilt({**view.bound(), "self": product.results[0]})
    total = torch_op(_ADD).build_call([bound["self"], shaped.results[0]], {}, view.result_types, location=op.location)
    put_in_place(view, [product, shaped, total], [(view.results[0], total.results[0])])
    op.detach()
    op.erase()
    return [product]


def rejoin_addmm(block: Block) -> None:
    """Join sums in ``block`` that are equivalent to an addmm. Nested regions are not visited."""
    for op in list(block.ops):
        if isinstance(op, TorchOp) and op.operator == _ADD and len(op.operands) == 2:
            _rejoin(op)


def _rejoin(op: TorchOp) -> None:
    bias, total = op.operands
    view = producer(total, [_VIEW])
    product = producer(total if view is None else view.operands[0], [_MM])
    if product is None or product.parent is not op.parent or total.type != op.results[0].type or not _is_read_once(total):
        return
    if (view is not None and not _is_read_once(product.results[0])) or rank(bias) != 1:
        return
    if dims_of(total)[-1:] != dims_of(product.results[0])[-1:]:
        return  # a row of the view is no row of the product
    made = torch_op(ADDMM).build_call([bias, *product.operands], {}, product.result_types, location=op.location)
    if not _is_sum(made):
        made.erase()
        return
    shaped = view.rebuilt({**view.bound(), "self": made.results[0]}) if view is not None else None
    last = made if shaped is None else shaped
    put_in_place(op, [made] if shaped is None else [made, shaped], [(op.results[0], last.results[0])])
    for gone in (view, product):
        if gone is not None:
            gone.detach()
            gone.erase()


def _is_read_once(value: SSAValue) -> bool:
    return sum(1 for _ in value.uses) == 1


def _is_sum(op: Operation) -> bool:
    """Whether an addmm equals b + mm(x, y) in every bit and in its strides."""
    assert isinstance(op, TorchOp)
    bound, result = op.bound(), op.results[0]
    bias = bound["self"]
    if not all(is_tensor(operand.type) for operand in op.operands) or not isa(bias, SSAValue):
        return False
    if any(number(bound[name]) != 1 for name in ("beta", "alpha") if name in bound):
        return False
    if dtype(result.type) in ("float16", "bfloat16") or strides(tensor_of(result)) is not None:
        return False
    if dtype(bias.type) != dtype(result.type):
        return False
    return rank(bias) != 2 or strides(tensor_of(bias)) is None
