"""Interpret scalar operations of ``arith``, ``math``, ``tile.math`` and ``tile.random`` on torch tensors, elementwise."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from xdsl.dialects import arith
from xdsl.dialects.builtin import FloatAttr, IndexType, IntegerAttr
from xdsl.ir import Attribute, Operation

from fxc.bridge.random_numbers import random_bits
from fxc.bridge.values import torch_dtype
from fxc.dialects.tile.blocks import MathOp, RandomOp
from fxc.errors import NoRuleError
from fxc.interpret.tile_ops import BINARY, CASTS, FLOAT_COMPARISONS, FUNCTIONS, INTEGER_COMPARISONS


def element_dtype(type: Attribute, wide: bool = False) -> torch.dtype:
    """Return the dtype for values of a scalar type; ``index`` is int64. ``wide``: floats are float64."""
    found = torch.int64 if isinstance(type, IndexType) else torch_dtype(type)
    return torch.float64 if wide and found.is_floating_point else found


def scalar_op(op: Operation, values: Sequence[torch.Tensor], wide: bool = False) -> torch.Tensor:
    """Return the result of ``op`` for operands that are tensors of elements; ``wide``: floats are float64.

    NoRuleError for operations outside of these dialects.
    """
    kind = op.name.removeprefix("arith.")
    if op.name in BINARY:
        return BINARY[op.name](*values).reshape(_shape(values))
    if kind in CASTS:
        return CASTS[kind](values[0], element_dtype(op.results[0].type, wide))
    match op:
        case arith.ConstantOp(value=IntegerAttr() | FloatAttr() as number):
            return torch.tensor(number.value.data, dtype=element_dtype(op.result.type, wide), device="cpu")
        case arith.CmpfOp():
            return FLOAT_COMPARISONS[op.predicate.value.data](*values)
        case arith.CmpiOp():
            return INTEGER_COMPARISONS[op.predicate.value.data](*values).reshape(_shape(values))
        case arith.SelectOp():
            condition, yes, no = values
            return torch.where(condition, yes, no)
        case arith.BitcastOp():
            held = values[0].to(element_dtype(op.input.type))  # use the bits of the float in its original type
            return held.view(element_dtype(op.result.type)).to(element_dtype(op.result.type, wide))
        case MathOp():
            return FUNCTIONS[op.kind.data](*values)
        case RandomOp():
            return random_bits(*values)
        case _:
            raise NoRuleError(f"{op.name} is an op on scalars without a rule in the interpreter")


def _shape(values: Sequence[torch.Tensor]) -> tuple[int, ...]:
    """Return the broadcast shape of ``values``: numpy functions add a dimension to scalars."""
    return np.broadcast_shapes(*(value.shape for value in values))
