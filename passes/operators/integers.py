"""Functions of integers with a data-dependent number of steps, and ``frexp``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from fxc.dialects.torch_ops.base import TorchOp
from fxc.passes.operators.arithmetic import arithmetic
from fxc.passes.operators.index_expressions import Places
from fxc.passes.operators.iteration import iterate
from fxc.passes.operators.record import Operator, each
from fxc.passes.operators.rules import Elements, Index, Placed, tensors
from fxc.passes.operators.scalars import Scalar, where


def gcd(x: Scalar, y: Scalar) -> Scalar:
    """The greatest common divisor by Euclid's algorithm."""
    if x.dtype == "uint8":
        return gcd(x.to("int32"), y.to("int32")).to("uint8")
    x, y = x.abs(), y.abs()

    def step(x: Scalar, y: Scalar) -> tuple[Scalar, Sequence[Scalar]]:
        left = y.remainder(x)
        return left.ne(0), [left, x]

    return iterate(x.ne(0), [x, y], [], step)[1]


def lcm(x: Scalar, y: Scalar) -> Scalar:
    """The least common multiple; 0 if one number is 0. It is computed in at least 32 bits, as in C."""
    wide = "int64" if x.dtype == "int64" else "int32"
    divisor, a, b = gcd(x, y).to(wide), x.to(wide), y.to(wide)
    return where(divisor.eq(0), 0, (a.quotient(divisor) * b).abs()).to(x.dtype)


_FLOATS: Mapping[str, tuple[int, int, float]] = MappingProxyType(
    {"float32": (23, 8, 2.0**-126), "float64": (52, 11, 2.0**-1022)}
)
"""The number of bits of the mantissa and of the exponent of a float, and the smallest normal number."""

_SHIFT = 64
"""Denormal numbers are multiplied by 2 to this power."""


def frexp(op: TorchOp, index: Index, result: int, places: Places) -> Elements:
    """x = m * 2^e with m in [0.5, 1): the first result is m, the second e. If x is 0 or not finite, they are x and 0."""
    [x] = yield [(tensors(op)[0], index)]
    digits, width, smallest = _FLOATS[x.dtype]
    most = (1 << width) - 1
    is_small = x.abs() < smallest
    bits = where(is_small, x * 2.0**_SHIFT, x).bits()
    exponent = (bits >> digits) & most
    stays = x.eq(0) | exponent.eq(most)
    if result == 1:
        shift = where(is_small, exponent.constant(_SHIFT), 0)
        return where(stays, 0, exponent - (most // 2 - 1) - shift).to("int32")
    mantissa = ((bits & ~(most << digits)) | ((most // 2 - 1) << digits)).as_float()
    return where(stays, x, mantissa)


RECORDS: Mapping[str, Operator] = MappingProxyType(
    {
        **each("gcd.default", arithmetic(gcd)),
        **each("lcm.default", arithmetic(lcm)),
        **each("frexp.Tensor", Placed(frexp)),
    }
)
"""Operator -> its record."""
