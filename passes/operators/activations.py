"""Activations of neural networks, and the derivatives of those whose backward is an operator."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType

from fxc.passes.operators.arithmetic import arithmetic, at_least, clamp, named
from fxc.passes.operators.functions import sigmoid
from fxc.passes.operators.record import Activation, Operator, each
from fxc.passes.operators.scalars import Scalar, where

SELU_ALPHA, SELU_SCALE = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946


def relu(x: Scalar) -> Scalar:
    return at_least(x, 0)


def leaky_relu(x: Scalar, negative_slope: float = 0.01) -> Scalar:
    return where(x > 0, x, x * negative_slope)


def leaky_relu_backward(grad_output: Scalar, x: Scalar, negative_slope: float, self_is_result: bool) -> Scalar:
    return where(x > 0, grad_output, grad_output * negative_slope)


def elu(x: Scalar, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Scalar:
    return where(x < 0, (x * input_scale).math("expm1") * (alpha * scale), x * scale)


def selu(x: Scalar) -> Scalar:
    return elu(x, SELU_ALPHA, SELU_SCALE)


def celu(x: Scalar, alpha: float = 1.0) -> Scalar:
    return elu(x, alpha, 1, 1 / alpha)


def gelu(x: Scalar, approximate: str = "none") -> Scalar:
    if approximate == "tanh":
        inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)
        return 0.5 * x * (1 + inner.math("tanh"))
    return x * 0.5 * (1 + (x * math.sqrt(0.5)).math("erf"))


def gelu_backward(grad_output: Scalar, x: Scalar, approximate: str = "none") -> Scalar:
    if approximate == "tanh":
        beta = math.sqrt(2 / math.pi)
        tanh = (beta * (x + 0.044715 * x * x * x)).math("tanh")
        slope = 0.5 * x * (1 - tanh * tanh) * beta * (1 + 3 * 0.044715 * x * x)
        return grad_output * (0.5 * (1 + tanh) + slope)
    density = (x * x * -0.5).math("exp") * (1 / math.sqrt(2 * math.pi))
    return grad_output * (0.5 * (1 + (x * math.sqrt(0.5)).math("erf")) + x * density)


def silu(x: Scalar) -> Scalar:
    return x / (1 + (-x).math("exp"))


def silu_backward(grad_output: Scalar, x: Scalar) -> Scalar:
    s = sigmoid(x)
    return grad_output * s * (1 + x * (1 - s))


def mish(x: Scalar) -> Scalar:
    return x * x.math("exp").math("log1p").math("tanh")


def softplus(x: Scalar, beta: float = 1, threshold: float = 20) -> Scalar:
    scaled = x * beta
    return where(scaled > threshold, x, scaled.math("exp").math("log1p") / beta)


def softplus_backward(grad_output: Scalar, x: Scalar, beta: float, threshold: float) -> Scalar:
    scaled = x * beta
    z = scaled.math("exp")
    return where(scaled > threshold, grad_output, grad_output * z / (z + 1))


def hardtanh(x: Scalar, low: float = -1, high: float = 1) -> Scalar:
    return clamp(x, low, high)


def hardtanh_backward(grad_output: Scalar, x: Scalar, min_val: float, max_val: float) -> Scalar:
    return where((x <= min_val) | (x >= max_val), 0, grad_output)


def hardsigmoid(x: Scalar) -> Scalar:
    return clamp(x + 3, 0, 6) / 6


def hardswish(x: Scalar) -> Scalar:
    return x * clamp(x + 3, 0, 6) / 6


def hardshrink(x: Scalar, lambd: float = 0.5) -> Scalar:
    return where((x >= -lambd) & (x <= lambd), 0, x)


def softshrink(x: Scalar, lambd: float = 0.5) -> Scalar:
    return where(x > lambd, x - lambd, where(x < -lambd, x + lambd, (x * 0).abs()))


def threshold(x: Scalar, threshold: float, value: float) -> Scalar:
    return where(x <= threshold, value, x)


def threshold_backward(grad_output: Scalar, x: Scalar, threshold: float) -> Scalar:
    return where(x <= threshold, 0, grad_output)


def sigmoid_backward(grad_output: Scalar, output: Scalar) -> Scalar:
    return grad_output * (1 - output) * output


def tanh_backward(grad_output: Scalar, output: Scalar) -> Scalar:
    return grad_output * (1 - output * output)


def logit_backward(grad_output: Scalar, x: Scalar, eps: float | None = None) -> Scalar:
    low, high = (0.0, 1.0) if eps is None else (eps, 1 - eps)
    outside = (x < low) | (x > high)
    return where(outside, math.nan if eps is None else 0, grad_output / (x * (1 - x)))


def dropout_backward(grad_output: Scalar, mask: Scalar, scale: float) -> Scalar:
    return grad_output * mask.to(grad_output.dtype) * scale


RECORDS: Mapping[str, Operator] = MappingProxyType(
    {
        **named(leaky_relu_backward, selu, softplus_backward, hardtanh_backward, hardsigmoid, hardswish, hardshrink),
        **named(threshold, threshold_backward, sigmoid_backward, tanh_backward, logit_backward),
        **named(elu, celu, mish, softplus, cost=16),
        **named(gelu_backward, silu_backward, cost=24),
        **each("relu.default", arithmetic(relu), onednn=Activation("relu", is_exact=True)),
        **each("relu6.default", arithmetic(lambda x: clamp(x, 0, 6))),
        **each(
            "leaky_relu.default",
            arithmetic(leaky_relu),
            onednn=Activation("leaky_relu", [("negative_slope", 0.01)], is_exact=True),
        ),
        **each("gelu.default", arithmetic(gelu), cost=24, onednn=Activation("gelu", approximation="none")),
        **each("silu.default", arithmetic(silu), cost=16, onednn=Activation("swish")),
        **each(
            "hardtanh.default",
            arithmetic(lambda x, min_val=-1, max_val=1: hardtanh(x, min_val, max_val)),
            onednn=Activation("hardtanh", [("min_val", -1.0), ("max_val", 1.0)], is_exact=True),
        ),
        **each("softshrink.default", arithmetic(softshrink, unrounded="lambd")),
        **each("native_dropout_backward.default", arithmetic(dropout_backward), is_lone=True),
    }
)
