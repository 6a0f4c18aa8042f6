"""Decompose the gradient of the weight of a depthwise convolution into sums of products, which kernels compute."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Attribute, Operation, SSAValue

from fxc.dialects.attributes.types import VALUE, device, is_tensor
from fxc.dialects.attributes.values import Tree, bool_attr, float_attr, int_attr
from fxc.dialects.context import FxcContext
from fxc.dialects.fx import CallFunctionOp
from fxc.dialects.torch_ops.base import TorchOp
from fxc.passes.analysis.matching import dtype, integers, number
from fxc.passes.rewriting.decomposition import put_in_place
from fxc.passes.rewriting.insertion import built_before, insert_call
from fxc.passes.rewriting.matrix_products import static_sizes

_FEWEST = 25
"""The elements of a window: for fewer oneDNN has a fast kernel."""


def split_weight_gradient(ctx: FxcContext, op: TorchOp) -> Sequence[TorchOp]:
    """weight gradient of a depthwise convolution -> sum(where(inside, gradient * windows(pad(image)), 0))

    oneDNN allocates a large buffer for it. Columns are summed last, so that sums are short. Padding, whose product with an
    infinity is NaN, does not count. The gradient of the bias is a sum, too, as oneDNN computes both at once; that of the image
    remains a call.
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
    if any(each is None or {*each} != {1} for each in steps) or height * width < _FEWEST:
        return []
    up, left = pads * (2 // len(pads))

    def call(operator: str, *args: Tree) -> SSAValue:
        return insert_call(ctx, operator, args, op)

    def windows(value: SSAValue) -> SSAValue:
        """The pixels that each element of the weight meets: images, channels, elements, and rows and columns of the result."""
        padded = call("aten.constant_pad_nd.default", value, [*map(int_attr, (left, left, up, up))])
        by_rows = call("aten.unfold.default", padded, *map(int_attr, (2, rows, 1)))
        return call("aten.unfold.default", by_rows, *map(int_attr, (3, columns, 1)))

    def total(value: SSAValue, first: Sequence[int], last: Sequence[int]) -> SSAValue:
        sums = call("aten.sum.dim_IntList", value, [*map(int_attr, first)])
        return call("aten.sum.dim_IntList", sums, [*map(int_attr, last)])

    def build() -> Sequence[SSAValue] | None:
        pixels = call("aten.full.default", [*map(int_attr, (1, 1, *shapes[1][2:]))], bool_attr(True))
        spread = gradient
        for _ in range(2):
            spread = call("aten.unsqueeze.default", spread, int_attr(2))
        product = call("aten.mul.Tensor", spread, windows(image))
        sums = total(call("aten.where.ScalarOther", windows(pixels), product, float_attr(0.0)), (0, 4), (3,))
        found = call("aten.view.default", sums, [*map(int_attr, (channels, height, width, 1))])
        found = call("aten.permute.default", found, [*map(int_attr, (0, 3, 1, 2))])
        if found.type != op.results[1].type:
            found = call("aten.view.default", sums, [*map(int_attr, (channels, 1, height, width))])
        return (found, total(gradient, (2,), (0, 2))) if found.type == op.results[1].type else None

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
