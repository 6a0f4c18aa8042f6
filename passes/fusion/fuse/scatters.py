"""Scatters of many updates: which of them become kernels, and their cost."""

from __future__ import annotations

import math

from xdsl.dialects.builtin import FixedBitwidthType
from xdsl.ir import Block, Operation, SSAValue

from fxc.dialects.attributes.types import is_tensor
from fxc.dialects.torch_ops.base import TorchOp
from fxc.passes.fusion.fuse.cost import Updates, assumed
from fxc.passes.operators.accumulating import combined_dtype, kind_of
from fxc.passes.operators.bodies import old_of, rule_of
from fxc.passes.operators.rules import Accumulation, dtype_of
from fxc.passes.operators.scalars import FLOATS, Uncovered, machine_type
from fxc.passes.operators.table import has_formula, operator_of


def updates_shape(op: Operation | Block) -> tuple[int, ...] | None:
    """The sizes of the loops over the updates that ``op`` combines; None where there are none or few."""
    if not isinstance(op, TorchOp) or not isinstance(operator_of(op).formula, Accumulation):
        return None
    try:
        rule = rule_of(op)
        return assumed(rule.shape(op)) if isinstance(rule, Accumulation) else None
    except Uncovered:
        return None


def updates_of(op: Operation) -> Updates | None:
    """The cost of the updates that ``op`` combines; None where there are none or few, or kernels do not support them."""
    shape, formula = updates_shape(op), operator_of(op).formula
    if shape is None or not isinstance(op, TorchOp) or not isinstance(formula, Accumulation):
        return None
    try:
        kind, dtype = kind_of(op), combined_dtype(op)
        again = dtype != dtype_of(op.results[0]) or old_of(op, _is_unknown) is not None
    except Uncovered:
        return None
    type, element = op.results[0].type, machine_type(dtype)
    assert is_tensor(type) and isinstance(element, FixedBitwidthType)
    elements = math.prod(assumed(type.get_shape()))
    adds_floats = kind == "add" and dtype in FLOATS
    return Updates(math.prod(shape), elements, element.size, again, formula.sorted, adds_floats)


def _is_unknown(value: SSAValue) -> bool:
    return not isinstance(value.owner, Operation) or not has_formula(value.owner)
