"""Implementations of convolutions and products by operators of oneDNN and MKL, which expect packed weights.

A ``Strategy`` inserts ops before a call. It returns the value that replaces the result of the call, or of its only
user if that is fused: a sum or an activation. ``freeze-parameters`` evaluates the ops on weights at plan time.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from xdsl.dialects.builtin import BFloat16Type, Float32Type, IntegerAttr
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from fxc.dialects.attributes import types
from fxc.dialects.attributes.types import VALUE, dims_of, is_tensor, tensor_of
from fxc.dialects.attributes.values import NONE, Tree, enum_attr, float_attr, int_attr, isa, str_attr
from fxc.dialects.context import FxcContext
from fxc.dialects.torch_ops.base import TorchOp
from fxc.dialects.torch_ops.operators import torch_op
from fxc.passes.library.channels_last import pair
from fxc.passes.library.layouts import is_channels_last
from fxc.passes.operators.record import Role
from fxc.passes.operators.table import operator_of, role_of
from fxc.passes.rewriting.insertion import insert_call, result_types
from fxc.passes.rewriting.matrix_products import dense_like, insert, is_transpose, only_user

_SUM = "aten.add.Tensor"


@dataclass(frozen=True)
class Packed:
    """``value`` replaces the result of ``replaced``."""

    value: SSAValue
    replaced: TorchOp


Strategy = Callable[[FxcContext, TorchOp], Packed | None]

_Convolution = tuple[SSAValue, SSAValue, Tree, list[Tree]]
"""Image, weight, bias; padding, stride, dilation and groups."""
Filter = Callable[[_Convolution, Operation], SSAValue]
"""Inserts the weight of a convolution, packed or plain, before an op."""


def _pointwise_convolution(filter_of: Filter, ctx: FxcContext, op: TorchOp) -> Packed | None:
    """A convolution of channels_last images, fused with the following activation."""
    if (given := _convolution(op)) is None:
        return None
    last, activation = _activation(op)
    image, weight, bias, how = given
    taken = filter_of(given, op)
    args = [channels_last(ctx, image, op), weight, bias, *how, *activation]
    return Packed(_insert_packed(ctx, "mkldnn._convolution_pointwise.default", args, taken, op), last)


def _pointwise_convolution_with_sum(filter_of: Filter, ctx: FxcContext, op: TorchOp) -> Packed | None:
    """A convolution fused with the addition of another image and the following activation."""
    if (given := _convolution(op)) is None or (addition := addition_after(op)) is None:
        return None
    last, [name, numbers, _] = _activation(addition)
    name = NONE if last is addition else name  # this operator spells "no activation" as None
    image, _, bias, how = given
    weight = filter_of(given, last)
    other = channels_last(ctx, _other(addition, op.results[0]), last)
    args = [channels_last(ctx, image, last), other, weight, bias, *how, str_attr("add"), NONE, name, numbers, NONE]
    return Packed(insert("mkldnn._convolution_pointwise.binary", args, other.type, last), last)


def _packed_filter(given: _Convolution, before: Operation) -> SSAValue:
    image, weight, _, how = given
    sizes = [int_attr(size) for size in tensor_of(image).get_shape()]
    return insert("mkldnn._reorder_convolution_weight.default", [weight, *how, sizes], VALUE, before)


_CONVOLUTIONS = (_pointwise_convolution, _pointwise_convolution_with_sum)
PACKED_CONVOLUTIONS: tuple[Strategy, ...] = tuple(partial(strategy, _packed_filter) for strategy in _CONVOLUTIONS)
PLAIN_CONVOLUTIONS: tuple[Strategy, ...] = tuple(
    partial(strategy, lambda given, before: given[1]) for strategy in _CONVOLUTIONS
)
"""Convolutions by oneDNN with packed weights, and with plain weights."""


def onednn_linear(ctx: FxcContext, op: TorchOp) -> Packed | None:
    """A product with a packed weight by oneDNN, fused with the following activation."""
    if (given := _linear(ctx, op)) is None:
        return None
    rows, weight, bias = given
    packed = insert("mkldnn._reorder_linear_weight.default", [weight, int_attr(_count_rows(rows))], VALUE, op)
    last, activation = _activation(op)
    args = [rows, weight, bias, *activation]
    return Packed(_insert_packed(ctx, "mkldnn._linear_pointwise.default", args, packed, op), last)


def plain_linear(ctx: FxcContext, op: TorchOp) -> Packed | None:
    """A product by oneDNN of plain matrices."""
    if (given := as_linear(ctx, op)) is None:
        return None
    rows, weight, bias = given
    args: list[Tree] = [rows, weight, bias, str_attr("none"), [], str_attr("")]
    return Packed(insert_call(ctx, "mkldnn._linear_pointwise.default", args, op), op)


def mkl_linear(ctx: FxcContext, op: TorchOp) -> Packed | None:
    """A float32 product with a packed weight by MKL."""
    if (given := _linear(ctx, op)) is None or not _is(given[0], Float32Type):
        return None
    rows, weight, bias = given
    count = int_attr(_count_rows(rows))
    packed = insert("mkl._mkl_reorder_linear_weight.default", [weight, count], VALUE, op)
    return Packed(_insert_packed(ctx, "mkl._mkl_linear.default", [rows, weight, weight, bias, count], packed, op), op)


def product_into_argument(ctx: FxcContext, op: TorchOp) -> Packed | None:
    """A product by PyTorch that writes its result to a new matrix argument of the block."""
    if not is_product(op) or (given := as_linear(ctx, op)) is None:
        return None
    (rows, weight, bias), block, result = given, op.parent, op.results[0]
    assert block is not None and is_tensor(rows.type)
    count, sizes = _count_rows(rows), [int_attr(size) for size in dims_of(result) if isinstance(size, int)]
    flat = insert_call(ctx, "aten.reshape.default", [rows, [int_attr(count), int_attr(rows.type.get_shape()[-1])]], op)
    args: list[Tree] = [flat, insert_call(ctx, "aten.t.default", [weight], op)]
    operator, args = ("aten.addmm.out", [bias, *args]) if isa(bias, SSAValue) else ("aten.mm.out", args)
    out = block.insert_arg(dense_like(result.type, (count, dims_of(result)[-1])), len(block.args))
    product = torch_op(operator).build_call(args, {"out": out}, [out.type], location=op.location)
    Rewriter.insert_op(product, InsertPoint.before(op))
    return Packed(insert("aten.view.default", [product.results[0], sizes], result.type, op), op)


def _insert_packed(ctx: FxcContext, operator: str, args: list[Tree], packed: SSAValue, before: Operation) -> SSAValue:
    """A call with ``packed`` as second argument. Its type is opaque, so the result type is inferred with the plain weight."""
    [type] = result_types(ctx, operator, args)
    return insert(operator, [args[0], packed, *args[2:]], type, before)


PACKED_PRODUCTS: tuple[Strategy, ...] = (plain_linear, mkl_linear, onednn_linear)
"""Implementations of products with weights of the model by oneDNN and MKL; the first one does not pack."""


def is_product(op: TorchOp) -> bool:
    """Whether ``op`` is a matrix product that operators of oneDNN and MKL support."""
    factors = operator_of(op).factors
    return factors is not None and not factors.is_stacked


def weight_of(op: TorchOp) -> Tree | None:
    """The argument that can be packed."""
    record = operator_of(op)
    if record.role is Role.CONVOLUTION:
        return op.argument("weight")
    return op.argument(record.factors.right) if record.factors is not None and is_product(op) else None


def channels_last(ctx: FxcContext, image: SSAValue, before: Operation) -> SSAValue:
    """``image`` in channels_last, copied if necessary."""
    if is_channels_last(image.type):
        return image
    return insert_call(ctx, "aten.clone.default", [image], before, {"memory_format": enum_attr("channels_last")})


def computed_behind(op: TorchOp) -> list[TorchOp]:
    """The ops that can be fused with ``op``: the sum after a convolution and the activation, each the only user so far."""
    addition = addition_after(op) if role_of(op) is Role.CONVOLUTION else None
    activation = activation_after(addition or op)
    return [behind for behind in (addition, activation) if behind is not None]


def addition_after(op: TorchOp) -> TorchOp | None:
    """The sum that is the only user of ``op``, if the other image has the same sizes and dtype; else None."""
    user, image = only_user(op.results[0]), op.results[0]
    if not isinstance(user, TorchOp) or user.operator != _SUM or len(user.operands) != 2 or len(user.bound()) != 2:
        return None
    other = _other(user, image)
    same = _is_static(other) and dims_of(other) == dims_of(image)
    return user if same and other.type.element_type == image.type.element_type else None  # type: ignore[union-attr]


def _other(addition: TorchOp, value: SSAValue) -> SSAValue:
    [other] = [operand for operand in addition.operands if operand is not value]
    return other


def activation_after(op: TorchOp) -> TorchOp | None:
    """The activation that is the only user of ``op``, if oneDNN can fuse it; else None."""
    user = only_user(op.results[0])
    if not isinstance(user, TorchOp) or (found := operator_of(user).onednn) is None:
        return None
    is_nearer = _is(op.results[0], BFloat16Type) and op.operator != _SUM
    return user if user.results[0].type == op.results[0].type and (found.is_exact or is_nearer) else None


def _activation(op: TorchOp) -> tuple[TorchOp, tuple[Tree, Tree, Tree]]:
    """The last fused op, and the name, numbers and approximation of its activation."""
    last = activation_after(op)
    if last is None:
        return op, (str_attr("none"), [], str_attr(""))
    found, given = operator_of(last).onednn, last.bound()
    assert found is not None
    numbers = [given.get(key, float_attr(default)) for key, default in found.numbers]
    return last, (str_attr(found.word), numbers, given.get("approximate", str_attr(found.approximation)))


def _convolution(op: TorchOp) -> _Convolution | None:
    """The arguments of a convolution of images in float32 or bfloat16; None for other convolutions."""
    given = op.bound()
    image, weight, bias = given["input"], given["weight"], given.get("bias", NONE)
    if not isa(image, SSAValue) or not isa(weight, SSAValue) or given.get("transposed", _FALSE) != _FALSE:
        return None
    if not _is_static(image, 4) or not (_is(image, Float32Type) or _is(image, BFloat16Type)) or not _is_static(weight, 4):
        return None
    found = [pair(given.get(name), default) for name, default in (("padding", 0), ("stride", 1), ("dilation", 1))]
    pairs = [[*map(int_attr, numbers)] for numbers in found if numbers is not None]
    if len(pairs) < len(found):
        return None
    shapes, result = [list(map(int, dims_of(value)[2:])) for value in (image, weight)], dims_of(op.results[0])
    if not all(map(_have_elements, *shapes, *(numbers for numbers in found if numbers is not None))):
        return None  # oneDNN's kernels crash where all that a window reads is padding
    if result[1:] == (1, 1, 1) or (_is(image, BFloat16Type) and 1 in (shapes[0][1], result[3])):
        return None  # they return wrong numbers for images of one number, and in bfloat16 for some of one column
    return image, weight, bias, [*pairs, given.get("groups", int_attr(1))]


def _have_elements(size: int, window: int, padding: int, stride: int, dilation: int) -> bool:
    """Whether each window along a dimension of ``size`` elements reads one of them."""
    first = range(-padding, size + padding - dilation * (window - 1), stride)
    return all(any(0 <= start + dilation * place < size for place in range(window)) for start in first)


_FALSE = IntegerAttr(0, 1)


def _linear(ctx: FxcContext, op: TorchOp) -> tuple[SSAValue, SSAValue, Tree] | None:
    """Like ``as_linear`` for contiguous matrices: the weight is copied if necessary, the rows must be contiguous."""
    if (given := as_linear(ctx, op)) is None or types.strides(tensor_of(given[0])) is not None:
        return None
    rows, weight, bias = given
    if types.strides(tensor_of(weight)) is not None:
        weight = insert_call(ctx, "aten.contiguous.default", [weight], op)
    return rows, weight, bias


def as_linear(ctx: FxcContext, op: TorchOp) -> tuple[SSAValue, SSAValue, Tree] | None:
    """Like ``product_of``, with a weight of one row per output; a transpose is inserted if it has one column per output."""
    factors = operator_of(op).factors
    if factors is None or (given := product_of(op)) is None:
        return None
    rows, weight, bias = given
    if not factors.is_turned:
        owner = weight.owner
        if isinstance(owner, Operation) and is_transpose(owner):
            weight = owner.operands[0]
        else:
            weight = insert_call(ctx, "aten.t.default", [weight], op)
    return rows, weight, bias


def product_of(op: TorchOp) -> tuple[SSAValue, SSAValue, Tree] | None:
    """Rows, weight and bias (one number per output) of a product in float32 or bfloat16 of static sizes; else None."""
    factors, given = operator_of(op).factors, op.bound()
    assert factors is not None
    rows, weight, bias = given[factors.left], given[factors.right], given.get(factors.added, NONE)
    if not isa(rows, SSAValue) or not isa(weight, SSAValue) or "alpha" in given or "beta" in given:
        return None
    if not _is_static(rows) or not _is_static(weight, 2) or not (_is(rows, Float32Type) or _is(rows, BFloat16Type)):
        return None
    if isa(bias, SSAValue) and not (_is_static(bias, 1) and dims_of(bias) == dims_of(op.results[0])[-1:]):
        return None
    return rows, weight, bias


def _count_rows(rows: SSAValue) -> int:
    return math.prod(tensor_of(rows).get_shape()[:-1])


def _is(value: SSAValue, element: type) -> bool:
    return is_tensor(value.type) and isinstance(value.type.element_type, element)


def _is_static(value: SSAValue, rank: int | None = None) -> bool:
    """Whether ``value`` is a plain tensor on the CPU of static, non-zero sizes."""
    type = value.type
    if not is_tensor(type) or types.layout(type) != "strided" or types.device(type) != "cpu":
        return False
    sizes = types.sizes(type)
    return all(isinstance(size, int) and size > 0 for size in sizes) and rank in (None, len(sizes))
