"""Decompose the gradient of the weight of a depthwise convolution into sums of products, which one kernel computes."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Attribute, Operation, SSAValue

from fxc.dialects.attributes.types import VALUE, device, is_tensor
from fxc.dialects.attributes.values import Tree, bool_attr, int_attr
from fxc.dialects.context import FxcContext
from fxc.dialects.fx import CallFunctionOp
from fxc.dialects.torch_ops.base import TorchOp
from fxc.passes.analysis.matching import dtype, integers, number
from fxc.passes.rewriting.decomposition import put_in_place
from fxc.passes.rewriting.insertion import built_before, insert_call
from fxc.passes.rewriting.matrix_products import static_sizes

_FEWEST, _MOST = 25, 49
"""The elements of a window: for fewer oneDNN has a fast kernel, and more take long to compile."""


def split_weight_gradient(ctx: FxcContext, op: TorchOp) -> Sequence[TorchOp]:
    """weight gradient of a depthwise convolution -> stack of sum(gradient * slice(pad(image))), one for each element

    oneDNN allocates a large buffer for it. Rows are summed first, so that sums are short. The gradient of the bias is a sum,
    too, as oneDNN computes both at once; that of the image remains a call.
    """
    given = op.bound()
    if op.is_packed or not op.results[1].uses or len(op.operands) != 3 or not all(_is_on_cpu(x.type) for x in op.operands):
        return []
    gradient, image, _ = op.operands
    shapes = [static_sizes(value.type) for value in op.operands]
    if any(len(shape) != 4 for shape in shapes):
        return []
    (_, channels, rows, columns), (_, inputs, *_), (_, one, height, width) = shapes
    steps, pads = [integers(given[name]) for name in ("stride", "dilation")], integers(given["padding"])
    if not channels == inputs == number(given["groups"]) or one != 1 or number(given["transposed"]) or not pads:
        return []
    if any(each is None or {*each} != {1} for each in steps) or not _FEWEST <= height * width <= _MOST:
        return []
    up, left = pads * (2 // len(pads))

    def call(operator: str, *args: Tree) -> SSAValue:
        return insert_call(ctx, operator, args, op)

    def cut(value: SSAValue, dim: int, start: int, length: int) -> SSAValue:
        return call("aten.slice.Tensor", value, *map(int_attr, (dim, start, start + length)))

    def total(value: SSAValue) -> SSAValue:
        return call("aten.sum.dim_IntList", call("aten.sum.dim_IntList", value, [int_attr(2)]), [int_attr(0), int_attr(2)])

    def build() -> Sequence[SSAValue] | None:
        padded, sums = call("aten.constant_pad_nd.default", image, [*map(int_attr, (left, left, up, up))]), list[SSAValue]()
        for row in range(height):
            band = cut(padded, 2, row, rows)
            sums += [total(call("aten.mul.Tensor", gradient, cut(band, 3, column, columns))) for column in range(width)]
        stacked = call("aten.stack.default", sums, int_attr(1))
        found = call("aten.view.default", stacked, [*map(int_attr, (channels, height, width, 1))])
        found = call("aten.permute.default", found, [*map(int_attr, (0, 3, 1, 2))])
        if found.type != op.results[1].type:
            found = call("aten.view.default", stacked, [*map(int_attr, (channels, 1, height, width))])
        return (found, total(gradient)) if found.type == op.results[1].type else None

    if (sums := built_before(op, build)) is None:
        return []
    call_of_image = _of_image(ctx, op)
    new = [call_of_image[-1].results[0], *sums]
    put_in_place(op, call_of_image, list(zip(op.results, new, strict=True)))
    return []


def _of_image(ctx: FxcContext, op: TorchOp) -> Sequence[Operation]:
    """A call that computes only the first result of ``op``, and the operation that takes it out of the tuple."""
    args, kwargs = op.trees()
    args = [*args[:-1], [bool_attr(True), bool_attr(False), bool_attr(False)]]
    untyped = type(op).build_call(args, kwargs, [VALUE])
    types = ctx.semantics.infer(untyped)
    untyped.erase()
    packed = type(op).build_call(args, kwargs, types, location=op.location)
    first = [packed.results[0], int_attr(0)]
    type_of_image = op.results[0].type
    return packed, CallFunctionOp.build_call(first, {}, [type_of_image], target="operator.getitem", location=op.location)


def _is_on_cpu(type: Attribute) -> bool:
    return is_tensor(type) and dtype(type) == "float32" and device(type) == "cpu"
