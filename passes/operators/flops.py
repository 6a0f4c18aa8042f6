"""Floating-point operations of products, convolutions and attention; a multiplication and its addition are two."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.ir import SSAValue

from fxc.dialects.attributes.values import isa
from fxc.dialects.torch_ops.base import TorchOp
from fxc.passes.analysis.matching import number
from fxc.passes.operators.record import Flops, SizesOf


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
