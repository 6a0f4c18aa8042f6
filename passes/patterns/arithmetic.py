"""Arithmetic identities that are exact for signed zeros and NaN, and conversions that cancel."""

from __future__ import annotations

import math

from fxc.dialects.attributes.types import device, layout, sizes, strides
from fxc.dialects.torch_ops import torch_op
from fxc.dialects.torch_ops.base import TorchOp
from fxc.passes.analysis.matching import dtype, is_default, is_floating, is_integral, number, producer
from fxc.passes.rewriting.patterns import Pattern, PatternRewriter

_WIDER = {
    "bool": {"uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64"},
    "uint8": {"int16", "int32", "int64", "float16", "bfloat16", "float32", "float64"},
    "int8": {"int16", "int32", "int64", "float16", "bfloat16", "float32", "float64"},
    "int16": {"int32", "int64", "float32", "float64"},
    "int32": {"int64", "float64"},
    "float16": {"float32", "float64"},
    "bfloat16": {"float32", "float64"},
    "float32": {"float64"},
}
"""dtype -> the dtypes that represent each of its values exactly."""


class AddZero(Pattern):
    """x + 0 -> x for integers; x + -0.0 -> x and x - 0.0 -> x for floats, as -0.0 + 0.0 is not -0.0"""

    ROOTS = ("aten.add.Tensor", "aten.add.Scalar", "aten.sub.Tensor", "aten.sub.Scalar")

    def rewrite(self, op: TorchOp, rewriter: PatternRewriter) -> None:
        if len(op.operands) != 1 or (zero := number(op.argument("other"))) is None or zero != 0:
            return
        if (alpha := op.argument("alpha")) is not None and number(alpha) != 1:
            return
        type = op.results[0].type
        negative = math.copysign(1.0, zero) < 0
        if is_integral(type) or (is_floating(type) and negative == op.operator.startswith("aten.add")):
            rewriter.forward(op, op.operands[0])


class TimesOne(Pattern):
    """x * 1 -> x, x / 1 -> x, x ** 1 -> x, where the dtype stays"""

    ROOTS = ("aten.mul.Tensor", "aten.mul.Scalar", "aten.div.Tensor", "aten.div.Scalar", "aten.pow.Tensor_Scalar")

    def rewrite(self, op: TorchOp, rewriter: PatternRewriter) -> None:
        name = "exponent" if op.operator.startswith("aten.pow") else "other"
        if len(op.operands) == 1 and number(op.argument(name)) == 1:
            rewriter.forward(op, op.operands[0])


class NegOfNeg(Pattern):
    """-(-x) -> x"""

    ROOTS = ("aten.neg.default",)

    def rewrite(self, op: TorchOp, rewriter: PatternRewriter) -> None:
        if (inner := producer(op.operands[0], self.ROOTS)) is not None:
            rewriter.forward(op, inner.operands[0])


class Idempotent(Pattern):
    """f(f(x)) -> f(x) for relu, abs, ceil, floor, round, trunc, sign"""

    ROOTS = (
        "aten.relu.default", "aten.abs.default", "aten.ceil.default", "aten.floor.default", "aten.round.default",
        "aten.trunc.default", "aten.sign.default",
    )  # fmt: skip

    def rewrite(self, op: TorchOp, rewriter: PatternRewriter) -> None:
        if producer(op.operands[0], (op.operator,)) is not None:
            rewriter.forward(op, op.operands[0])


class RoundOfInteger(Pattern):
    """ceil(x) -> x, where x holds integers; also ``floor``, ``round`` and ``trunc``"""

    ROOTS = ("aten.ceil.default", "aten.floor.default", "aten.round.default", "aten.trunc.default")

    def rewrite(self, op: TorchOp, rewriter: PatternRewriter) -> None:
        if is_integral(op.operands[0].type):
            rewriter.forward(op, op.operands[0])


class ConversionOfConversion(Pattern):
    """convert(convert(x, wide), t) -> convert(x, t), or x where that is its dtype; ``wide`` holds x exactly"""

    ROOTS = ("aten._to_copy.default", "prims.convert_element_type.default", "aten.to.dtype")

    def rewrite(self, op: TorchOp, rewriter: PatternRewriter) -> None:
        inner = producer(op.operands[0], self.ROOTS) if op.operands else None
        if inner is None or not (_converts_only(op) and _converts_only(inner)):
            return
        source, wide, final = inner.operands[0], dtype(inner.results[0].type), dtype(op.results[0].type)
        exact = wide in _WIDER.get(dtype(source.type) or "", ())
        # the conversion of an out-of-range float to an integer may depend on the width of the float
        if not exact or not (is_integral(source.type) or is_floating(op.results[0].type)):
            return
        if final == dtype(source.type):
            rewriter.forward(op, source)
        else:
            rewriter.replace(op, op.rebuilt({**op.bound(), op.SCHEMA.arguments[0].name: source}))


class CopyOfNumber(Pattern):
    """_to_copy(0.5, dtype) -> scalar_tensor(0.5, dtype): transforms of functions record such calls, of no tensor"""

    ROOTS = ("aten._to_copy.default",)

    def rewrite(self, op: TorchOp, rewriter: PatternRewriter) -> None:
        options = {name: value for name in ("dtype", "device") if (value := op.argument(name)) is not None}
        if not op.operands and "dtype" in options and is_floating(type := op.results[0].type):
            named = torch_op("aten.scalar_tensor.default").build_call([op.argument("self")], options, [type])
            rewriter.replace(op, named)


def _converts_only(op: TorchOp) -> bool:
    """Whether ``op`` copies to another dtype and preserves shape, strides, device and layout."""
    names = {op.SCHEMA.arguments[0].name, "dtype"}
    if any(not is_default(tree) for name, tree in op.bound().items() if name not in names):
        return False
    before, after = op.operands[0].type, op.results[0].type
    if dtype(before) is None or dtype(after) is None or dtype(before) == dtype(after):
        return False
    return all(fact(before) == fact(after) for fact in (sizes, strides, device, layout))  # type: ignore[arg-type]


PATTERNS: tuple[Pattern, ...] = (
    AddZero(), TimesOne(), NegOfNeg(), Idempotent(), RoundOfInteger(), ConversionOfConversion(), CopyOfNumber(),
)  # fmt: skip
