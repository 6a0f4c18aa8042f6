"""Convert floats between widths, and compute ops on half precision in float32."""

from __future__ import annotations

from collections.abc import Callable

from fxc.codegen.cpu.builder import Builder, constant
from fxc.codegen.cpu.types import Value


def extend(b: Builder, value: Value, element: str) -> Value:
    """Convert to a wider float, exactly."""
    if value.type.element == element:
        return value
    if value.type.element == "half" and not _converts_half(b):
        value = _half_to_float(b, value)
    if value.type.element == "bfloat":
        bits = b.binary(
            "shl", b.cast("zext", Value(value.text, value.type.of("i16")), "i32"), constant(value.type.of("i32"), 16)
        )
        value = b.cast("bitcast", bits, "float")
    return b.cast("fpext", value, element)


def truncate(b: Builder, value: Value, element: str) -> Value:
    """Convert to a narrower float: round to nearest, ties to even."""
    if value.type.element == element:
        return value
    if element == "float":
        return b.cast("fptrunc", value, element)
    if value.type.element == "double":
        value = _to_odd(b, value)
    if element == "bfloat":
        # Convert by integer arithmetic, since the x86 instruction treats denormals as zero.
        bits = b.cast("bitcast", value, "i32")
        last = b.binary("and", b.binary("lshr", bits, constant(bits.type, 16)), constant(bits.type, 1))
        rounded = b.binary("lshr", b.add(b.add(bits, last), constant(bits.type, 0x7FFF)), constant(bits.type, 16))
        rounded = b.select(b.compare("uno", value, value), constant(bits.type, 0x7FC0), rounded)
        return Value(b.cast("trunc", rounded, "i16").text, value.type.of("bfloat"))
    return b.cast("fptrunc", value, element) if _converts_half(b) else _float_to_half(b, value)


def _converts_half(b: Builder) -> bool:
    """Whether the CPU has instructions for half precision; without them LLVM emits calls of functions that are not linked."""
    return any(name in b.module.features for name in ("f16c", "avx512f", "neon"))


def _to_odd(b: Builder, value: Value) -> Value:
    """Round a double to float by round-to-odd, so that a second rounding has the same result as a single one.

    It rounds towards zero and sets the last bit if the result is inexact.
    """
    near = b.cast("fptrunc", value, "float")
    back = b.cast("fpext", near, "double")
    bits = b.cast("bitcast", near, "i32")
    size, near_size = b.intrinsic("llvm.fabs", value), b.intrinsic("llvm.fabs", back)
    too_large = b.cast("zext", b.compare("ogt", near_size, size), "i32")
    inexact = b.cast("zext", b.compare("one", value, back), "i32")
    return b.cast("bitcast", b.binary("or", b.sub(bits, too_large), inexact), "float")


def _half_to_float(b: Builder, value: Value) -> Value:
    half = b.cast("zext", b.cast("bitcast", value, "i16"), "i32")

    def number(bits: int) -> Value:
        return constant(half.type, bits)

    size = b.binary("shl", b.binary("and", half, number(0x7FFF)), number(13))
    exponent = b.binary("and", size, number(0x0F800000))
    normal = b.add(size, number(112 << 23))
    infinite = b.add(normal, number(112 << 23))
    smallest = constant(half.type.of("float"), 2.0**-14)
    denormal = b.cast("bitcast", b.sub(b.cast("bitcast", b.add(normal, number(1 << 23)), "float"), smallest), "i32")
    bits = b.select(b.compare("eq", exponent, number(0x0F800000)), infinite, normal)
    bits = b.select(b.compare("eq", exponent, number(0)), denormal, bits)
    sign = b.binary("shl", b.binary("and", half, number(0x8000)), number(16))
    return b.cast("bitcast", b.binary("or", bits, sign), "float")


def _float_to_half(b: Builder, value: Value) -> Value:
    bits = b.cast("bitcast", value, "i32")

    def number(bits_: int) -> Value:
        return constant(bits.type, bits_)

    size = b.binary("and", bits, number(0x7FFFFFFF))
    special = b.select(b.compare("ugt", size, number(0x7F800000)), number(0x7E00), number(0x7C00))
    magic = number(126 << 23)  # 0.5: adding it rounds a half-precision denormal to its last bit
    shifted = b.add(b.cast("bitcast", size, "float"), b.cast("bitcast", magic, "float"))
    denormal = b.sub(b.cast("bitcast", shifted, "i32"), magic)
    odd = b.binary("and", b.binary("lshr", size, number(13)), number(1))
    normal = b.binary("lshr", b.add(b.add(size, number(0xFFF - (112 << 23))), odd), number(13))
    half = b.select(b.compare("ult", size, number(113 << 23)), denormal, normal)
    half = b.select(b.compare("uge", size, number(0x47800000)), special, half)
    sign = b.binary("and", b.binary("lshr", bits, number(16)), number(0x8000))
    return b.cast("bitcast", b.cast("trunc", b.binary("or", half, sign), "i16"), "half")


def in_float(b: Builder, function: Callable[..., Value], *arguments: Value) -> Value:
    """Call ``function`` on floats, with half precision computed in float32. Other results, such as i1, are not converted."""
    element = arguments[0].type.element
    if element not in ("half", "bfloat"):
        return function(*arguments)
    result = function(*(extend(b, x, "float") for x in arguments))
    return truncate(b, result, element) if result.type.is_float else result
