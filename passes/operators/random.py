"""Random numbers from a seed, by Philox of the element's position as in ``fxc::uniform``; decompositions of dropout."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from xdsl.ir import SSAValue

from fxc.dialects.attributes.size_polynomials import contiguous_steps
from fxc.dialects.attributes.types import device, strides, tensor_of
from fxc.dialects.attributes.values import float_attr, int_attr, isa
from fxc.dialects.base.effects import is_random
from fxc.dialects.context import FxcContext
from fxc.dialects.tile import RandomOp
from fxc.dialects.torch_ops.base import TorchOp
from fxc.dialects.torch_ops.operators import torch_op
from fxc.passes.analysis.matching import is_floating, number
from fxc.passes.operators import sampling
from fxc.passes.operators.index_expressions import Places
from fxc.passes.operators.record import Operator, Parts, When, each
from fxc.passes.operators.rules import ZERO, Elements, Index, Placed, python_arguments, result_dtype, shape_of
from fxc.passes.operators.scalars import Scalar, Uncovered
from fxc.passes.rewriting.insertion import put_in_place

_STREAM_BITS = 40
"""The numbers of a stream begin at offset ``stream << 40``."""

_DIGITS: Mapping[str, int] = MappingProxyType({"float16": 11, "bfloat16": 8, "float32": 24})
"""The number of random bits that a float uses."""


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


def _dropout(ctx: FxcContext, op: TorchOp) -> Sequence[TorchOp]:
    """dropout(x, p, True) -> x * (bernoulli(x, 1 - p) / (1 - p)), like PyTorch on a CPU"""
    if (found := _dropout_mask(op)) is None:
        return []
    x, draw, kept = found
    [result] = op.results
    noise = torch_op("aten.div.Tensor").build_call([draw.results[0], float_attr(kept)], {}, [result.type], location=op.location)
    product = torch_op("aten.mul.Tensor").build_call([x, noise.results[0]], {}, [result.type], location=op.location)
    put_in_place(op, [draw, noise, product], [(result, product.results[0])])
    return [draw]


def _native_dropout(ctx: FxcContext, op: TorchOp) -> Sequence[TorchOp]:
    """native_dropout(x, p, True) -> x * mask * (1 / (1 - p)), mask != 0, like PyTorch on a CPU"""
    if (found := _dropout_mask(op)) is None:
        return []
    x, draw, kept = found
    result, mask = op.results
    product = torch_op("aten.mul.Tensor").build_call([x, draw.results[0]], {}, [result.type], location=op.location)
    scaled = torch_op("aten.mul.Tensor").build_call(
        [product.results[0], float_attr(1 / kept)], {}, [result.type], location=op.location
    )
    stays = torch_op("aten.ne.Scalar").build_call([draw.results[0], int_attr(0)], {}, [mask.type], location=op.location)
    put_in_place(op, [draw, product, scaled, stays], [(result, scaled.results[0]), (mask, stays.results[0])])
    return [draw]


def _dropout_mask(op: TorchOp) -> tuple[SSAValue, TorchOp, float] | None:
    """The input of a dropout on a CPU, a random mask of zeros and ones, and the probability of ones; None if it has no mask."""
    bound, result = op.bound(), op.results[0]
    x, share = bound["input"], number(bound["p"])
    if not isa(x, SSAValue) or not is_random(op) or share is None or not 0 < share < 1:
        return None
    if x.type != result.type or not is_floating(result.type):
        return None
    if device(tensor_of(result)) != "cpu" or strides(tensor_of(result)) is not None:
        return None
    draw = torch_op("aten.bernoulli.p").build_call([x, float_attr(1 - share)], {}, [x.type], location=op.location)
    return x, draw, 1 - share


RECORDS: Mapping[str, Operator] = MappingProxyType(
    {
        **each("fxc.uniform.default", Placed(uniform)),
        **each("rand.default", sampled=sampling.rand),
        **each("rand_like.default", sampled=sampling.rand, reads_type=True),
        **each("uniform.default", sampled=sampling.uniform),
        **each("randn.default normal_functional.default normal.float_float", sampled=sampling.normal),
        **each("normal.Tensor_float normal.float_Tensor normal.Tensor_Tensor", sampled=sampling.normal),
        **each("randn_like.default", sampled=sampling.normal, reads_type=True),
        **each("exponential.default", sampled=sampling.exponential),
        **each("bernoulli.default bernoulli.Tensor", sampled=sampling.bernoulli),
        **each("bernoulli.p", sampled=sampling.bernoulli, reads_type=True),
        **each("randint.default randint.low randint_like.default randint_like.low_dtype", sampled=sampling.randint),
        **each("dropout.default", sampled=sampling.dropout, parts=Parts(When.BESIDE, _dropout)),
        **each("native_dropout.default", sampled=sampling.dropout, parts=Parts(When.BESIDE, _native_dropout)),
    }
)
