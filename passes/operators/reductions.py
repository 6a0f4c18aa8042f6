"""Reductions, scans, norms, conversions, also of 8-bit floats by integer arithmetic, and constants."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType

from xdsl.ir import SSAValue

from fxc.dialects.attributes.types import device, dims_of, is_tensor, sizes, strides, tensor_type
from fxc.dialects.attributes.values import NONE, Tree, bool_attr, dtype_attr, float_attr, int_attr, isa
from fxc.dialects.context import FxcContext
from fxc.dialects.torch_ops.base import TorchOp
from fxc.dialects.torch_ops.operators import torch_op
from fxc.passes.analysis.matching import dtype, integer, number
from fxc.passes.operators.record import FOR_KERNELS, NO_FAST_CALL, Operator, Parts, Role, When, each
from fxc.passes.operators.rules import Constant, Conversion, Reduction, python_arguments, shape_of, tensors
from fxc.passes.operators.scalars import INTEGERS, LARGEST, Scalar, computation_dtype, holds, machine_type
from fxc.passes.rewriting.insertion import decompose, insert_call, put_in_place


def dimensions(op: TorchOp) -> list[int]:
    """The dimensions that ``op`` reduces, ascending."""
    rank = len(shape_of(tensors(op)[0]))
    arguments = python_arguments(op)
    dims: int | list[int] | None = arguments.get("dim", arguments.get("dims"))
    if dims is None or dims == []:
        return list(range(rank))
    return sorted({dim % rank if rank else 0 for dim in (dims if isinstance(dims, list) else [dims])} if rank else [])


def keeps_dimensions(op: TorchOp) -> bool:
    return bool(python_arguments(op).get("keepdim", False))


def _number(number: int | float | bool) -> Callable[[str], int | float | bool]:
    return lambda dtype: number


def _lowest(dtype: str) -> int | float | bool:
    if dtype not in INTEGERS:
        return -math.inf if dtype != "bool" else False
    return 0 if dtype == "uint8" else -(2 ** (machine_type(dtype).width.data - 1))  # type: ignore[attr-defined]


def _highest(dtype: str) -> int | float | bool:
    if dtype not in INTEGERS:
        return math.inf if dtype != "bool" else True
    return 255 if dtype == "uint8" else 2 ** (machine_type(dtype).width.data - 1) - 1  # type: ignore[attr-defined]


def _sum(a: Scalar, b: Scalar) -> Scalar:
    return a + b


def _minimum(a: Scalar, b: Scalar) -> Scalar:
    return a.minimum(b)


def _signed(dtype: str) -> str:
    """The signed dtype in which ``dtype`` is compared: unsigned numbers are widened, since combining is signed."""
    return "int32" if dtype == "uint8" else computation_dtype(dtype)


def variance(op: TorchOp, total: Scalar, number: int | Scalar) -> Scalar:
    correction = python_arguments(op).get("correction")
    left = number - (1 if correction is None else correction)
    return total / (left.maximum(0) if isinstance(left, Scalar) else max(left, 0))


def deviation(op: TorchOp, total: Scalar, number: int | Scalar) -> Scalar:
    return variance(op, total, number).math("sqrt")


SUM = Reduction(_sum, _number(0))
PRODUCT = Reduction(lambda a, b: a * b, _number(1))
MEAN = Reduction(_sum, _number(0), lambda op, total, number: total / number)
MAXIMUM = Reduction(lambda a, b: a.maximum(b), _lowest, accumulation=_signed)
MINIMUM = Reduction(_minimum, _highest, accumulation=_signed)
VARIANCE = Reduction(_sum, _number(0), variance, centred=True)
DEVIATION = Reduction(_sum, _number(0), deviation, centred=True)
ARGMAX = Reduction(_minimum, _highest, extreme=MAXIMUM)
ARGMIN = Reduction(_minimum, _highest, extreme=MINIMUM)
ANY = Reduction(lambda a, b: a | b, _number(False), accumulation=lambda dtype: "bool")
ALL = Reduction(lambda a, b: a & b, _number(True), accumulation=lambda dtype: "bool")


def split_extreme(first: str, second: str, ctx: FxcContext, op: TorchOp) -> Sequence[TorchOp]:
    """max(x, dim) -> amax(x, dim), argmax(x, dim)

    Among equal elements the index is the first one; NaN comes before all others. It does not apply to a dimension without
    elements, for which PyTorch has no index. Bools are compared as integers.
    """
    if op.is_packed:
        return []
    bound, [values, indices] = op.bound(), op.results
    source, dim, keep = bound["self"], bound["dim"], bound.get("keepdim", bool_attr(False))
    if not isa(source, SSAValue) or not is_tensor(source.type):
        return []
    if not all(isinstance(size, int) and size for size in sizes(source.type)):
        return []
    if any(is_tensor(result.type) and strides(result.type) is not None for result in op.results):
        return []
    ordered = _as_integers(op, source) if dtype(source.type) == "bool" else []
    compared = ordered[0].results[0] if ordered else source
    found = torch_op(first).build_call([source, [dim], keep], {}, [values.type], location=op.location)
    place = torch_op(second).build_call([compared, dim, keep], {}, [indices.type], location=op.location)
    parts = [found, *ordered, place]
    put_in_place(op, parts, [(values, found.results[0]), (indices, place.results[0])])
    return parts


def _as_integers(op: TorchOp, source: SSAValue) -> list[TorchOp]:
    assert is_tensor(source.type)
    type = tensor_type("uint8", sizes(source.type), strides(source.type), device(source.type))
    return [
        torch_op("aten._to_copy.default").build_call([source], {"dtype": dtype_attr("uint8")}, [type], location=op.location)
    ]


def _extreme(first: str, second: str) -> Parts:
    return Parts(When.BESIDE, partial(split_extreme, f"aten.{first}.default", f"aten.{second}.default"))


def _along_dim(op: TorchOp) -> int | None:
    """The size of the operand along ``dim``; None if no dimension is given and the last one is not the default."""
    given, lengths = op.bound().get("dim"), dims_of(op.operands[0]) or (1,)
    dim = integer(given) if given is not None else -1 if op.SCHEMA.by_name["dim"].default == "-1" else None
    return length if dim is not None and isinstance(length := lengths[dim], int) else None


_INFINITE = 2.0**128 - 2.0**103
"""The number from which on a conversion to float32 is an infinity."""


def split_nan_to_num(ctx: FxcContext, op: TorchOp) -> Sequence[TorchOp]:
    """PyTorch's decomposition, for numbers that float32 has: the operator converts larger ones, and the decomposition raises"""
    bound, changed = op.bound(), dict[str, Tree]()
    for name in ("nan", "posinf", "neginf") if dtype(op.results[0].type) == "float32" else ():
        if not holds("float32", value := number(bound.get(name, NONE)) or 0.0):
            changed[name] = float_attr(math.copysign(math.inf if abs(value) >= _INFINITE else LARGEST["float32"], value))
    if not changed:
        return decompose(ctx, op)
    other = op.rebuilt({**bound, **changed})
    put_in_place(op, [other], [(op.results[0], other.results[0])])
    return [other]


def split_norm(ctx: FxcContext, op: TorchOp) -> Sequence[TorchOp]:
    """PyTorch's decomposition, and the zeros that its norms on a CPU add where there is no bias: they never return -0.0"""
    bound = op.bound()
    weight = bound.get("weight")
    has_zeros = isa(weight, SSAValue) and is_tensor(weight.type) and device(weight.type) == "cpu"
    if bound.get("bias", NONE) != NONE or not has_zeros:
        return decompose(ctx, op)
    other = op.rebuilt({**bound, "bias": insert_call(ctx, "aten.zeros_like.default", [weight], op)})
    put_in_place(op, [other], list(zip(op.results, other.results, strict=True)))
    return [other]


_NORM = Parts(When.NO_FAST_CALL, split_norm)


def split_float8(ctx: FxcContext, op: TorchOp) -> Sequence[TorchOp]:
    """float(x) -> (fraction + 8 * (exponent > 0) << max(exponent - 1, 0)) * 2**-9, with the sign, for float8_e4m3fn on the CPU

    All of its numbers are exact in bfloat16, float16 and wider floats.
    """
    source, result = op.operands[0], op.results[0]
    name = dtype(result.type) or ""
    if dtype(source.type) != "float8_e4m3fn" or name not in ("bfloat16", "float16", "float32", "float64"):
        return []
    if not is_tensor(result.type) or device(result.type) != "cpu":
        return []

    def call(operator: str, *args: Tree, **kwargs: Tree) -> SSAValue:
        return insert_call(ctx, f"aten.{operator}", args, op, kwargs)

    bits = call("_to_copy.default", call("view.dtype", source, dtype_attr("uint8")), dtype=dtype_attr("int32"))
    size = call("bitwise_and.Scalar", bits, int_attr(127))
    exponent = call("bitwise_right_shift.Tensor_Scalar", size, int_attr(3))
    digits = call(
        "add.Tensor",
        call("bitwise_and.Scalar", size, int_attr(7)),
        call("mul.Scalar", call("clamp_max.default", exponent, int_attr(1)), int_attr(8)),
    )
    whole = call(
        "bitwise_left_shift.Tensor", digits, call("clamp_min.default", call("sub.Scalar", exponent, int_attr(1)), int_attr(0))
    )
    value = call("mul.Scalar", call("_to_copy.default", whole, dtype=dtype_attr("float32")), float_attr(2.0**-9))
    value = call("where.self", call("ge.Scalar", bits, int_attr(128)), call("neg.default", value), value)
    value = call("masked_fill.Scalar", value, call("eq.Scalar", size, int_attr(127)), float_attr(float("nan")))
    value = value if name == "float32" else call("_to_copy.default", value, dtype=dtype_attr(name))
    if value.type != result.type:
        return []
    put_in_place(op, [], [(result, value)])
    return []


RECORDS: Mapping[str, Operator] = MappingProxyType(
    {
        **each("sum.default sum.dim_IntList", SUM, is_lone=True),
        **each("prims.sum.default", SUM),
        **each("mean.default mean.dim", MEAN, is_lone=True),
        **each("prod.default prod.dim_int", PRODUCT),
        **each("amax.default prims.amax.default", MAXIMUM),
        **each("amin.default prims.amin.default", MINIMUM),
        **each("max.default", replace(MAXIMUM, of_some=True)),
        **each("min.default", replace(MINIMUM, of_some=True)),
        **each("var.correction prims.var.default", VARIANCE),
        **each("std.correction", DEVIATION),
        **each("argmax.default", ARGMAX, is_lone=True, positions=_along_dim),
        **each("argmin.default", ARGMIN, is_lone=True, positions=_along_dim),
        **each("any.default any.dim any.dims", ANY),
        **each("all.default all.dim all.dims", ALL),
        **each(
            "_to_copy.default to.dtype type_as.default prims.convert_element_type.default",
            Conversion(),
            parts=Parts(When.KERNELS, split_float8),
        ),
        **each("zeros.default zeros_like.default new_zeros.default", Constant(0)),
        **each("ones.default ones_like.default new_ones.default", Constant(1)),
        **each("full.default full_like.default new_full.default scalar_tensor.default", Constant()),
        # cumulative operators, which kernels compute by ``tile.scan``
        **each("cumsum.default", scan="add"),
        **each("cumprod.default", scan="mul"),
        **each("cummax.default", scan="max", positions=_along_dim),
        **each("cummin.default", scan="min", positions=_along_dim),
        # operators that decompose into reductions and pointwise operators, and nearest-neighbor resizing
        **each("max.dim", parts=_extreme("amax", "argmax"), positions=_along_dim),
        **each("min.dim", parts=_extreme("amin", "argmin"), positions=_along_dim),
        **each("sort.default sort.stable topk.default", positions=_along_dim),
        **each("kthvalue.default median.dim nanmedian.dim mode.default", positions=_along_dim),
        **each("layer_norm.default native_layer_norm.default", parts=_NORM),
        **each("batch_norm.default native_batch_norm.default", parts=_NORM, role=Role.BATCH_NORM),
        **each("_native_batch_norm_legit_no_training.default", parts=_NORM, role=Role.BATCH_NORM),
        **each("_batch_norm_no_update.default", role=Role.BATCH_NORM),
        **each("_native_batch_norm_legit.default _native_batch_norm_legit.no_stats", parts=_NORM),
        **each("_native_batch_norm_legit_functional.default", parts=_NORM),
        **each("cudnn_batch_norm.default miopen_batch_norm.default", parts=NO_FAST_CALL),
        **each("group_norm.default native_group_norm.default", parts=_NORM, role=Role.GROUP_NORM),
        **each("instance_norm.default", parts=Parts(When.KERNELS, split_norm), role=Role.GROUP_NORM),
        **each("rms_norm.default _fused_rms_norm.default _fused_rms_norm_backward.default", parts=FOR_KERNELS),
        **each("native_layer_norm_backward.default native_group_norm_backward.default", parts=FOR_KERNELS),
        **each("native_batch_norm_backward.default batch_norm_backward.default", parts=FOR_KERNELS),
        **each("cudnn_batch_norm_backward.default miopen_batch_norm_backward.default", parts=FOR_KERNELS),
        **each("softmax.int _softmax.default _softmax_backward_data.default _safe_softmax.default", parts=FOR_KERNELS),
        **each("log_softmax.int _log_softmax.default _log_softmax_backward_data.default", parts=FOR_KERNELS),
        **each("logsumexp.default", parts=FOR_KERNELS),
        **each("var.default var.dim var_mean.default var_mean.dim var_mean.correction", parts=FOR_KERNELS),
        **each("std.default std.dim std_mean.default std_mean.dim std_mean.correction", parts=FOR_KERNELS),
        **each("linalg_vector_norm.default norm.Scalar norm.ScalarOpt_dim", parts=FOR_KERNELS),
        **each("norm.ScalarOpt_dtype norm.ScalarOpt_dim_dtype", parts=FOR_KERNELS),
        **each("nansum.default nanmean.default aminmax.default", parts=FOR_KERNELS),
        **each("count_nonzero.default count_nonzero.dim_IntList", parts=FOR_KERNELS),
        **each("cross_entropy_loss.default nll_loss.default nll_loss_nd.default", parts=FOR_KERNELS),
        **each("nll_loss_forward.default nll_loss_backward.default", parts=FOR_KERNELS),
        **each("mse_loss.default l1_loss.default smooth_l1_loss.default huber_loss.default", parts=FOR_KERNELS),
        **each("kl_div.default binary_cross_entropy.default", parts=FOR_KERNELS),
        **each("binary_cross_entropy_with_logits.default", parts=FOR_KERNELS),
        **each("glu.default cumprod_backward.default", parts=FOR_KERNELS),
        **each("nan_to_num.default", parts=Parts(When.KERNELS, split_nan_to_num)),
        **each("upsample_nearest1d.default upsample_nearest2d.default upsample_nearest3d.default", parts=FOR_KERNELS),
        **each("upsample_nearest1d.vec upsample_nearest2d.vec upsample_nearest3d.vec", parts=FOR_KERNELS),
        **each("_upsample_nearest_exact1d.default _upsample_nearest_exact1d.vec", parts=FOR_KERNELS),
        **each("_upsample_nearest_exact2d.default _upsample_nearest_exact2d.vec", parts=FOR_KERNELS),
        **each("_upsample_nearest_exact3d.default _upsample_nearest_exact3d.vec", parts=FOR_KERNELS),
    }
)
