"""Scatters of many updates: which of them kernels should make, and what they cost."""

from __future__ import annotations

import math

from xdsl.dialects.builtin import FixedBitwidthType, TensorType
from xdsl.ir import Block, Operation, SSAValue

from fxc.dialects.torch_ops.base import TorchOp
from fxc.dialects.torch_ops.traits import sorts_updates
from fxc.passes.fusion.fuse.cost import Updates, assumed
from fxc.passes.operators.accumulating import TABLE, accumulation_of, combined_dtype, kind_of
from fxc.passes.operators.bodies import old_of
from fxc.passes.operators.generics import has_rule
from fxc.passes.operators.rules import dtype_of
from fxc.passes.operators.scalars import FLOATS, Uncovered, machine_type


def updates_shape(op: Operation | Block) -> tuple[int, ...] | None:
    """The sizes of the loops over the updates that ``op`` combines; None where it combines none, or few."""
    if not isinstance(op, TorchOp) or op.operator not in TABLE:
        return None
    try:
        rule = accumulation_of(op)
        return None if rule is None else assumed(rule.shape(op))
    except Uncovered:
        return None


def updates_of(op: Operation) -> Updates | None:
    """What the updates cost that ``op`` combines; None where it combines none, or few, or kernels do not."""
    shape = updates_shape(op)
    if shape is None or not isinstance(op, TorchOp):
        return None
    try:
        kind, dtype = kind_of(op), combined_dtype(op)
        again = dtype != dtype_of(op.results[0]) or old_of(op, _is_unknown) is not None
    except Uncovered:
        return None
    type, element = op.results[0].type, machine_type(dtype)
    assert isinstance(type, TensorType) and isinstance(element, FixedBitwidthType)
    elements = math.prod(assumed(type.get_shape()))
    adds_floats = kind == "add" and dtype in FLOATS
    return Updates(math.prod(shape), elements, element.size, again, sorts_updates(op), adds_floats)


def _is_unknown(value: SSAValue) -> bool:
    return not isinstance(value.owner, Operation) or not has_rule(value.owner)
