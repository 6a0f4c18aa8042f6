"""Higher-order operators that run a region directly: inputs and outputs of their regions, and inlining."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import TensorType, TupleType
from xdsl.ir import Attribute, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from fxc.dialects.attributes.types import ValueType
from fxc.dialects.attributes.values import RegionAttr, leaves
from fxc.dialects.fx import OutputOp
from fxc.dialects.torch_ops.constant import ConstantOp
from fxc.dialects.torch_ops.higher_order import HigherOrderOp
from fxc.passes.analysis.constants import is_host_constant
from fxc.passes.analysis.tuples import selections

Leaf = SSAValue | Attribute

_OPERANDS = {"higher_order.cond": (3,), "higher_order.while_loop": (2, 3)}
"""Operator -> the positions of the arguments whose leaves are the arguments of its regions, in order."""


def passed(op: HigherOrderOp) -> list[Leaf] | None:
    """The leaves that ``op`` passes to the first region that it runs; None where they are not known."""
    positions: Sequence[int] | None = _OPERANDS.get(op.operator)
    args, kwargs = op.trees()
    if positions is None or kwargs or len(args) <= positions[0]:
        return None
    return [leaf for position in positions if position < len(args) for leaf in leaves(args[position])]


def region_inputs(op: HigherOrderOp, region: Region) -> list[Leaf] | None:
    """The value of each argument of ``region`` when ``op`` first runs it; None where the values are not known."""
    given = passed(op)
    if given is None or len(region.blocks) != 1:
        return None
    count = len(region.block.args)
    values: list[Leaf] = [leaf for leaf in given if isinstance(leaf, SSAValue)]
    if len(given) == count:
        return given
    return values if len(values) == count else None


def region_outputs(region: Region) -> list[Leaf] | None:
    """The values that ``region`` returns, in order; None where it has several blocks or another terminator."""
    last = region.block.last_op if len(region.blocks) == 1 else None
    if not isinstance(last, OutputOp):
        return None
    args, kwargs = last.trees()
    return list(leaves([*args, *kwargs.values()]))


def region_argument(op: HigherOrderOp, position: int) -> Region | None:
    """The region that is passed at ``position``."""
    args, _ = op.trees()
    name = args[position] if position < len(args) else None
    return op.regions[op.region_names().index(name.target.data)] if isinstance(name, RegionAttr) else None


def results_by_index(op: HigherOrderOp) -> list[list[SSAValue]] | None:
    """For each value that the regions return, the results that represent it after ``op``.

    A packed result is read through selections of its elements; None where it has other uses.
    """
    if len(op.results) != 1 or not isinstance(type := op.results[0].type, (TupleType, ValueType)):
        return [[result] for result in op.results]
    if isinstance(type, ValueType) or (selected := selections(op.results[0])) is None:
        return None
    found: list[list[SSAValue]] = [[] for _ in type.types.data]
    for reader, index in selected:
        found[index].append(reader.results[0])
    return found


def can_replace(leaf: Leaf, value: SSAValue) -> bool:
    """Whether ``leaf`` can replace ``value``: it has the same type, or both are host values and ``leaf`` is a constant."""
    if isinstance(leaf, SSAValue):
        return leaf.type == value.type
    return is_host_constant(leaf) and not isinstance(value.type, (TensorType, TupleType))


def put_in_place(leaf: Leaf, value: SSAValue, before: Operation) -> SSAValue:
    """Replace ``value`` by ``leaf``; an attribute becomes a ``torch.constant`` directly before ``before``."""
    if isinstance(leaf, Attribute):
        constant = ConstantOp.of(leaf, value.type)
        constant.location = before.location
        Rewriter.insert_op(constant, InsertPoint.before(before))
        leaf = constant.result
    value.replace_all_uses_with(leaf)
    return leaf


def inline_region(op: HigherOrderOp, region: Region, inputs: Sequence[Leaf] | None = None) -> Operation | None:
    """Move the ops of ``region`` to the position of ``op``, as if the region ran once, and erase ``op``.

    ``inputs``: the values of the arguments of ``region``, ``region_inputs`` by default. Returns the first op at that position;
    None, with nothing changed, where the values do not correspond.
    """
    inputs = region_inputs(op, region) if inputs is None else inputs
    outputs, results = region_outputs(region), results_by_index(op)
    if inputs is None or outputs is None or results is None or len(results) != len(outputs):
        return None
    block, around = region.block, op.parent
    assert around is not None
    if len(inputs) != len(block.args):
        return None
    pairs = [(leaf, value) for leaf, values in zip(outputs, results, strict=True) for value in values]
    fits = all(can_replace(leaf, arg) for leaf, arg in zip(inputs, block.args, strict=True))
    if not fits or not all(can_replace(leaf, value) for leaf, value in pairs):
        return None
    before = op.prev_op
    moved: dict[SSAValue, SSAValue] = {
        argument: put_in_place(leaf, argument, op) for leaf, argument in zip(inputs, block.args, strict=True)
    }
    for inner in list(block.ops)[:-1]:
        inner.detach()
        around.insert_op_before(inner, op)
    for leaf, value in pairs:
        put_in_place(moved.get(leaf, leaf) if isinstance(leaf, SSAValue) else leaf, value, op)
    for reader in [use.operation for result in op.results for use in result.uses]:
        reader.detach()
        reader.erase()
    following = op.next_op
    op.detach()
    op.erase()
    return (
        following
        if before is None and around.first_op is following
        else (around.first_op if before is None else before.next_op)
    )
