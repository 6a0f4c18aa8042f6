"""Random numbers of a seed: Philox of the element's place, as ``fxc::uniform`` says them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from fxc.dialects.attributes.size_polynomials import contiguous_steps
from fxc.dialects.tile import RandomOp
from fxc.dialects.torch_ops.base import TorchOp
from fxc.passes.operators.index_expressions import Places
from fxc.passes.operators.record import Operator, each
from fxc.passes.operators.rules import ZERO, Elements, Index, Placed, python_arguments, result_dtype, shape_of
from fxc.passes.operators.scalars import Scalar, Uncovered

_STREAM_BITS = 40
"""Numbers of a stream begin at ``stream << 40``."""

_DIGITS: Mapping[str, int] = MappingProxyType({"float16": 11, "bfloat16": 8, "float32": 24})
"""How many bits of a word a float takes."""


def uniform(op: TorchOp, index: Index, result: int, places: Places) -> Elements:
    arguments, dtype = python_arguments(op), result_dtype(op)
    [seed] = yield [(arguments["seed"], ())]
    line = ZERO
    for place, step in zip(index, contiguous_steps(shape_of(op.results[0])), strict=True):
        line = line + place * step
    first = arguments["stream"] << _STREAM_BITS
    if dtype == "float64":
        line = line * 2
    place = places.number(places.ranges.simplified(line + first))
    if dtype == "float64":
        high, low = _bits(seed, place, 27).to(dtype), _bits(seed, place + 1, 26).to(dtype)
        return (high * 2.0**26 + low) * 2.0**-53
    if dtype not in _DIGITS:
        raise Uncovered(f"random numbers of {dtype}")
    return _bits(seed, place, _DIGITS[dtype]).to("float32") * 2.0 ** -_DIGITS[dtype]


def _bits(seed: Scalar, offset: Scalar, digits: int) -> Scalar:
    """The upper ``digits`` bits of a word."""
    drawn = RandomOp.of(seed.value, offset.value)
    seed.body.add_op(drawn)
    return (Scalar(seed.body, drawn.result, "int32") >> 32 - digits) & ((1 << digits) - 1)


RECORDS: Mapping[str, Operator] = MappingProxyType(each("fxc.uniform.default", Placed(uniform)))
"""Operator -> its record."""
