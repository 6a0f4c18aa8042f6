"""Tensors whose shape is unknown, since an operator may resize memory that they share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects.func import CallOp, FuncOp
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue

from fxc.dialects.attributes.types import is_tensor
from fxc.dialects.base.effects import reshapes
from fxc.passes.analysis.memory import Memory, is_isolated
from fxc.passes.analysis.type_joins import unshaped


def lost_shapes(scope: Operation, functions: Mapping[str, FuncOp]) -> dict[SSAValue, Attribute]:
    """The values in ``scope``, and in nested scopes, that may share memory with a reshaped tensor, with their remaining types.

    The order of ops does not matter. Block arguments keep their type, which is that of the passed values.
    """
    ops = _scope_ops(scope)
    reshaping = [(op, values) for op in ops if (values := _reshaped(op, functions))]
    lost = dict[SSAValue, Attribute]()
    if reshaping:
        memory, ranks = Memory(scope), dict[object, set[int]]()
        for op, values in reshaping:
            for value in values:
                found = ranks.setdefault(memory.set_of(value), set())
                for tensor in (value, *op.results):
                    found.add(len(tensor.type.get_shape()) if is_tensor(tensor.type) else -1)
        arguments = [argument for region in scope.regions for block in region.blocks for argument in block.args]
        for value in (*arguments, *(result for op in ops for result in op.results)):
            if (kept := ranks.get(memory.set_of(value))) is not None:
                lost[value] = value.type if isinstance(value, BlockArgument) else unshaped(value.type, kept)
    for op in ops:
        if is_isolated(op):
            lost |= lost_shapes(op, functions)
    return lost


def _reshaped(op: Operation, functions: Mapping[str, FuncOp]) -> Sequence[SSAValue]:
    """The values that ``op``, an op in its regions, or the function that it calls may reshape."""
    if isinstance(op, CallOp):
        callee = functions.get(op.callee.string_value())
        return () if callee is None or not any(map(reshapes, callee.walk())) else op.operands
    if is_isolated(op):
        return op.operands if any(_reshaped(inner, functions) for inner in _scope_ops(op)) else ()
    return reshapes(op)


def _scope_ops(scope: Operation) -> list[Operation]:
    """The ops of ``scope`` at any depth, without those of nested scopes."""
    found = list[Operation]()
    for region in scope.regions:
        for block in region.blocks:
            for op in block.ops:
                found.append(op)
                if op.regions and not is_isolated(op):
                    found += _scope_ops(op)
    return found
