"""Conversions of 8-bit floats, by integer arithmetic."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from fxc.dialects.attributes.types import device, is_tensor
from fxc.dialects.attributes.values import Tree, dtype_attr, float_attr, int_attr
from fxc.dialects.context import FxcContext
from fxc.dialects.torch_ops.base import TorchOp
from fxc.passes.analysis.matching import dtype
from fxc.passes.rewriting.insertion import insert_call, put_in_place


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
