"""Matrix products, convolutions and attention, which are library calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import prod
from types import MappingProxyType

from xdsl.dialects.builtin import TupleType, bf16, f16, f32
from xdsl.ir import Attribute, Operation, SSAValue

from fxc.dialects.attributes import types
from fxc.dialects.attributes.types import VALUE, contiguous_strides, device, is_tensor, strides, tensor_of
from fxc.dialects.attributes.values import Tree, bool_attr, dtype_attr, enum_attr, float_attr, int_attr, isa
from fxc.dialects.context import FxcContext
from fxc.dialects.fx import CallFunctionOp
from fxc.dialects.torch_ops.base import TorchOp
from fxc.dialects.torch_ops.operators import torch_op
from fxc.passes.analysis.matching import dtype, integers, number
from fxc.passes.analysis.size_values import HintedSizes
from fxc.passes.operators.bias import split_addmm, split_below_view
from fxc.passes.operators.record import Factors, Flops, Operator, Parts, Role, SizesOf, When, each
from fxc.passes.rewriting.insertion import built_before, insert_call, put_in_place
from fxc.passes.rewriting.matrix_products import dense_like, insert, is_transpose, matrix_shape, static_sizes, transposed

_FEWEST = 25
"""The elements of a window: for fewer oneDNN has a fast kernel."""


def split_weight_gradient(ctx: FxcContext, op: TorchOp) -> Sequence[TorchOp]:
    """weight gradient of a depthwise convolution -> sum(where(inside, gradient * windows(pad(image)), 0))

    oneDNN allocates a large buffer for it. Columns are summed last, so that sums are short. Padding, whose product with an
    infinity is NaN, does not count. The gradient of the bias is a sum, too, as oneDNN computes both at once; that of the image
    remains a call.
    """
    given = op.bound()
    if op.is_packed or not op.results[1].uses or len(op.operands) != 3 or not all(_is_cpu_float(x.type) for x in op.operands):
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


def _is_cpu_float(type: Attribute) -> bool:
    return is_tensor(type) and dtype(type) == "float32" and device(type) == "cpu"


def product(right: str, *, is_turned: bool = False) -> Flops:
    """A product with the factor ``right``, a matrix, a stack of them, or a vector. ``is_turned``: it is transposed."""

    def flops(op: TorchOp, sizes: SizesOf) -> int:
        factor = _shape(op, right, sizes)
        length = factor[-1] if is_turned or len(factor) == 1 else factor[-2]
        return 2 * length * prod(sizes(op.results[0]))

    return flops


def convolution(*, is_transposed: bool = False) -> Flops:
    """Each element of the result meets the weights of its channel; of a transposed one, each element of the input does."""

    def flops(op: TorchOp, sizes: SizesOf) -> int:
        from_input = is_transposed or number(op.argument("transposed"))
        elements = _shape(op, "input", sizes) if from_input else sizes(op.results[0])
        return 2 * prod(elements) * prod(_shape(op, "weight", sizes)[1:])

    return flops


def convolution_backward(op: TorchOp, sizes: SizesOf) -> int:
    """The gradients of input and weight, as far as ``output_mask`` wants them, take as much as the convolution each."""
    elements = _shape(op, "input" if number(op.argument("transposed")) else "grad_output", sizes)
    wanted = sum(map(bool, map(number, op.bound()["output_mask"][:2])))
    return wanted * 2 * prod(elements) * prod(_shape(op, "weight", sizes)[1:])


def copies_in_onednn(op: TorchOp, sizes: HintedSizes) -> int:
    """What gradients of a convolution need on the CPU: copies of operands in the layout of the image, and a gradient in a
    layout of oneDNN, which is copied to strides of contiguous tensors and then to channels-last."""
    gradient, image, weight = op.operands[:3]
    made = [type for each in op.result_types for type in (each.types if isinstance(each, TupleType) else [each])]
    if not (is_tensor(image.type) and device(image.type) == "cpu" and image.type.element_type in _OF_ONEDNN):
        return 0
    is_last = _has_layout(image.type, sizes) and strides(image.type) is not None
    laid_out = [x.type for x in (gradient, image, weight) if _has_layout(x.type, sizes)]
    copied = [type for type in laid_out if is_tensor(type) and (strides(type) is not None) != is_last]
    width = sizes.bytes(made[1])
    between = width * (2 if is_last and _has_layout(weight.type, sizes) else 1)
    before = 0 if is_last else sizes.bytes(made[0]) - width
    return sum(map(sizes.bytes, copied)) + max(between, before)


_OF_ONEDNN = (f32, bf16, f16)
"""The types of numbers whose convolutions oneDNN computes."""


def _has_layout(type: Attribute, sizes: HintedSizes) -> bool:
    """Whether the strides of contiguous and of channels-last images of this size differ."""
    _, channels, *image = sizes.shape(type)
    return channels > 1 and prod(image) > 1


def attention(op: TorchOp, sizes: SizesOf) -> int:
    """Queries times keys, and the scores times values; causal attention is not less."""
    query, key, value = (_shape(op, name, sizes) for name in ("query", "key", "value"))
    return 2 * prod(query[:-1]) * key[-2] * (query[-1] + value[-1])


def attention_backward(op: TorchOp, sizes: SizesOf) -> int:
    """The scores again, the gradients of scores and values, and those of queries and keys."""
    query, key, value = (_shape(op, name, sizes) for name in ("query", "key", "value"))
    return 2 * prod(query[:-1]) * key[-2] * (3 * query[-1] + 2 * value[-1])


def _shape(op: TorchOp, name: str, sizes: SizesOf) -> Sequence[int]:
    value = op.argument(name)
    assert isa(value, SSAValue)
    return sizes(value)


_CONVOLUTIONS = (
    "_convolution.default _convolution.deprecated _convolution.out convolution.out cudnn_convolution.default "
    "cudnn_convolution.out miopen_convolution.default miopen_convolution.out"
)
_ATTENTION = (
    "scaled_dot_product_attention.default _scaled_dot_product_attention_math.default "
    "_scaled_dot_product_flash_attention.default _scaled_dot_product_flash_attention_for_cpu.default "
    "_scaled_dot_product_efficient_attention.default _scaled_dot_product_cudnn_attention.default "
    "_scaled_dot_product_fused_attention_overrideable.default"
)
_ATTENTION_BACKWARD = (
    "_scaled_dot_product_flash_attention_backward.default _scaled_dot_product_flash_attention_for_cpu_backward.default "
    "_scaled_dot_product_efficient_attention_backward.default _scaled_dot_product_cudnn_attention_backward.default "
    "_scaled_dot_product_fused_attention_overrideable_backward.default"
)


_MOST_ROW_MAJOR, _MOST_COLUMN_MAJOR = 1 << 14, 1 << 20
"""The numbers of multiplications, by layout of the matrix, up to which a CPU kernel is faster than a library call.

From the second number on, ``choose-products`` measures how to compute a product.
"""
_MOST_SHORT, _SHORT = 128, 16
"""The maximum number of sums over fewer than ``_SHORT`` contiguous numbers: a short sum takes a kernel constant time."""


def split_row_product(ctx: FxcContext, op: TorchOp) -> Sequence[TorchOp]:
    """mm(x, t(w)) -> sum(x * [w], 2), mm(x, y) -> sum(t(x) * y, 0), if x is one row on the CPU, and sums are short and few"""
    if not _is_one_row(op):
        return []
    row, matrix = op.operands
    steps, (length, columns) = _steps(matrix), matrix_shape(matrix.type)
    if steps[1] == 1 and length * columns <= _MOST_ROW_MAJOR:
        return [_put_sums(op, [transposed(row, op), matrix], (length, columns), dim=0)]
    if steps[0] == 1 and length * columns < _MOST_COLUMN_MAJOR and (length >= _SHORT or columns <= _MOST_SHORT):
        rows = insert_call(ctx, "aten.unsqueeze.default", [_transposed(matrix, op), int_attr(0)], op)
        return [_put_sums(op, [row, rows], (1, columns, length), dim=2)]
    return []


def split_int8_product(ctx: FxcContext, op: TorchOp) -> Sequence[TorchOp]:
    """_weight_int8pack_mm(x, w, s) -> mm(x, t(w)) * s, in float32, in which PyTorch computes element by element"""
    rows, matrix, scales = op.operands
    if not _is_cpu_float(op.results[0].type):
        return []
    floats = insert_call(ctx, "aten._to_copy.default", [matrix], op, {"dtype": dtype_attr("float32")})
    product = insert_call(ctx, "aten.mm.default", [rows, insert_call(ctx, "aten.t.default", [floats], op)], op)
    put_in_place(op, [], [(op.results[0], insert_call(ctx, "aten.mul.Tensor", [product, scales], op))])
    return [product.owner] if isinstance(product.owner, TorchOp) else []


def _is_one_row(op: TorchOp) -> bool:
    """Whether a kernel may compute ``op``, the product of one row with a matrix that has elements."""
    (rows, _), (length, columns) = (matrix_shape(value.type) or (0, 0) for value in op.operands)
    result = op.results[0].type
    if rows != 1 or not length or not columns or not is_tensor(result):
        return False
    return dtype(result) in ("float32", "float64") and device(result) == "cpu" and strides(result) is None


def _steps(matrix: SSAValue) -> tuple[int | str, ...]:
    return strides(tensor_of(matrix)) or contiguous_strides(matrix_shape(tensor_of(matrix)))


def _transposed(matrix: SSAValue, before: TorchOp) -> SSAValue:
    """A transposed view of ``matrix``, or the source of ``matrix`` if that is a transposed view."""
    owner = matrix.owner
    return owner.operands[0] if isinstance(owner, TorchOp) and is_transpose(owner) else transposed(matrix, before)


def _put_sums(op: TorchOp, factors: list[Tree], shape: tuple[int, ...], *, dim: int) -> TorchOp:
    """Replace ``op`` by the sums along ``dim`` of the products of ``factors``, a tensor of ``shape``."""
    result = op.results[0]
    products = insert("aten.mul.Tensor", factors, dense_like(result.type, shape), op)
    sums = torch_op("aten.sum.dim_IntList").build_call(
        [products, [int_attr(dim)], bool_attr(dim == 0)], {}, [result.type], location=op.location
    )
    put_in_place(op, [sums], [(result, sums.results[0])])
    return sums


def split_stacked_product(ctx: FxcContext, op: TorchOp) -> Sequence[TorchOp]:
    """matmul(x, y) -> view(bmm(view(x), view(y))), if both are stacks of as many matrices

    A stack whose matrices are not at a constant stride is copied. A ``bmm`` can write into a given buffer, and a copied operand
    can be released before it.
    """
    if not _are_stacks(op):
        return []
    left, right = (_as_one_stack(ctx, value, op) for value in op.operands)
    [result] = op.results
    product = insert_call(ctx, "aten.bmm.default", [left, right], op)
    shape = [int_attr(size) for size in static_sizes(result.type)]
    view = torch_op("aten.view.default").build_call([product, shape], {}, [result.type], location=op.location)
    put_in_place(op, [view], [(result, view.results[0])])
    return [view]


def _are_stacks(op: TorchOp) -> bool:
    """Whether ``op`` multiplies two non-empty stacks of equal, several batch dimensions, and its result is dense."""
    left, right = (static_sizes(value.type) for value in op.operands)
    if not all(len(_stack_strides(value)) == len(static_sizes(value.type)) for value in op.operands):
        return False
    alike = len(left) == len(right) > 3 and left[:-2] == right[:-2] and 0 not in left and 0 not in right
    result = op.results[0].type
    return alike and is_tensor(result) and types.strides(result) is None and len(static_sizes(result)) == len(left)


def _as_one_stack(ctx: FxcContext, value: SSAValue, before: TorchOp) -> SSAValue:
    """``value`` with a single batch dimension: a view, or a copy that retains the layout of each matrix."""
    sizes, steps = static_sizes(value.type), _stack_strides(value)
    turn = [int_attr(-1), int_attr(-2)]
    is_turned = steps[-1] != 1 and steps[-2] == 1
    if not _have_one_stride(sizes[:-2], steps[:-2]):
        if is_turned:
            value = insert_call(ctx, "aten.transpose.int", [value, *turn], before)
        order = {"memory_format": enum_attr("contiguous_format")}
        value = insert_call(ctx, "aten.clone.default", [value], before, order)
        if is_turned:
            value = insert_call(ctx, "aten.transpose.int", [value, *turn], before)
    one = [int_attr(size) for size in (prod(sizes[:-2]), *sizes[-2:])]
    return insert_call(ctx, "aten.view.default", [value, one], before)


def _stack_strides(value: SSAValue) -> tuple[int, ...]:
    """The static strides of a tensor of static sizes."""
    steps = types.strides(tensor_of(value)) or types.contiguous_strides(static_sizes(tensor_of(value)))
    return tuple(step for step in steps if isinstance(step, int))


def _have_one_stride(sizes: tuple[int, ...], steps: tuple[int, ...]) -> bool:
    """Whether these dimensions have a constant stride, so that they can be merged into one."""
    pairs = [(size, step) for size, step in zip(sizes, steps, strict=True) if size != 1]
    return all(outer == size * step for (_, outer), (size, step) in pairwise(pairs))


def split_lone_product(ctx: FxcContext, op: TorchOp) -> Sequence[TorchOp]:
    """bmm(x, y) -> unsqueeze(mm(x[0], y[0]), 0), if there is one matrix and the device is not a CPU

    Libraries select kernels for one matrix by its size. On a CPU both calls take the same time, and the views take some more.
    """
    shapes = [static_sizes(value.type) for value in op.operands]
    if not all(shape[:1] == (1,) for shape in shapes) or _is_on_cpu(op.results[0]):
        return []
    [result] = op.results
    left, right = (insert_call(ctx, "aten.squeeze.dim", [value, int_attr(0)], op) for value in op.operands)
    product = torch_op("aten.mm.default").build_call(
        [left, right], {}, [dense_like(result.type, static_sizes(result.type)[1:])]
    )
    whole = torch_op("aten.unsqueeze.default").build_call([product.results[0], int_attr(0)], {}, [result.type])
    product.location = whole.location = op.location
    put_in_place(op, [product, whole], [(result, whole.results[0])])
    return [product]


def _is_on_cpu(value: SSAValue) -> bool:
    return is_tensor(value.type) and device(value.type) == "cpu"


RECORDS: Mapping[str, Operator] = MappingProxyType(
    {
        **each(
            "mm.default",
            role=Role.CONTRACTION,
            factors=Factors("self", "mat2"),
            parts=Parts(When.KERNELS, split_row_product),
            flops=product("mat2"),
        ),
        **each(
            "addmm.default",
            role=Role.CONTRACTION,
            factors=Factors("mat1", "mat2", "self"),
            parts=Parts(When.ALWAYS, split_addmm, if_read=split_below_view),
            flops=product("mat2"),
        ),
        **each(
            "linear.default",
            role=Role.CONTRACTION,
            factors=Factors("input", "weight", "bias", is_turned=True),
            parts=Parts(When.ALWAYS),
            flops=product("weight", is_turned=True),
        ),
        **each(
            "bmm.default",
            role=Role.CONTRACTION,
            factors=Factors("self", "mat2", is_stacked=True),
            flops=product("mat2"),
            parts=Parts(When.ALWAYS, split_lone_product),
        ),
        **each(
            "matmul.default",
            role=Role.CONTRACTION,
            factors=Factors("self", "other", is_stacked=True),
            parts=Parts(When.KERNELS, lambda ctx, op: split_stacked_product(ctx, op) or split_row_product(ctx, op)),
            flops=product("other"),
        ),
        **each("mm.out mm.dtype mm.dtype_out bmm.out bmm.dtype bmm.dtype_out", role=Role.CONTRACTION, flops=product("mat2")),
        **each("addmm.out addmm.dtype addmm.dtype_out", role=Role.CONTRACTION, flops=product("mat2")),
        **each("baddbmm.default baddbmm.out baddbmm.dtype baddbmm.dtype_out", role=Role.CONTRACTION, flops=product("batch2")),
        **each("matmul.out", role=Role.CONTRACTION, flops=product("other")),
        **each("linear.out", role=Role.CONTRACTION, flops=product("weight", is_turned=True)),
        **each("mv.default mv.out addmv.default addmv.out", role=Role.CONTRACTION, flops=product("vec")),
        **each("dot.default dot.out", role=Role.CONTRACTION, flops=product("tensor")),
        **each(_CONVOLUTIONS, role=Role.CONTRACTION, flops=convolution()),
        **each(
            "conv_transpose1d.default conv_transpose2d.input conv_transpose3d.input",
            role=Role.CONTRACTION,
            flops=convolution(is_transposed=True),
        ),
        **each("conv1d.default conv2d.default conv3d.default convolution.default", role=Role.CONVOLUTION, flops=convolution()),
        **each("conv1d.padding conv2d.padding conv3d.padding", role=Role.CONVOLUTION, flops=convolution()),
        **each(
            "convolution_backward.default",
            role=Role.CONVOLUTION_BACKWARD,
            flops=convolution_backward,
            memory=copies_in_onednn,
            parts=Parts(When.KERNELS, split_weight_gradient),
        ),
        **each(
            "_weight_int8pack_mm.default",
            flops=product("mat2", is_turned=True),
            parts=Parts(When.KERNELS, split_int8_product),
        ),
        **each(_ATTENTION, flops=attention),
        **each(_ATTENTION_BACKWARD, flops=attention_backward),
        # derivatives of higher order are not those of the derivative that PyTorch traces
        **each("linalg_solve.default linalg_solve_ex.default _linalg_solve_ex.default", other_derivative=True),
        **each("linalg_slogdet.default _linalg_slogdet.default slogdet.default logdet.default", other_derivative=True),
        "higher_order.autograd_function_apply": Operator(states_backward=True),
    }
)
