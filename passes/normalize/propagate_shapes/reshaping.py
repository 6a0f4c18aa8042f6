"""Which values have no sizes that can be told, as something in the function may give them others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import TensorType
from xdsl.dialects.func import CallOp, FuncOp
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue

from fxc.dialects.base.effects import reshapes
from fxc.passes.analysis.memory import Memory, is_isolated
from fxc.passes.analysis.type_joins import unshaped


def lost_shapes(scope: Operation, functions: Mapping[str, FuncOp]) -> dict[SSAValue, Attribute]:
    """The values in ``scope``, and in the scopes in it, that may share memory with a tensor that is reshaped, whatever the
    order, with the type that is left of theirs. Block arguments keep their type: it is that of what is passed."""
    ops = _scope_ops(scope)
    reshaping = [(op, values) for op in ops if (values := _reshaped(op, functions))]
    lost = dict[SSAValue, Attribute]()
    if reshaping:
        memory, ranks = Memory(scope), dict[object, set[int]]()
        for op, values in reshaping:
            for value in values:
                found = ranks.setdefault(memory.set_of(value), set())
                for tensor in (value, *op.results):
                    found.add(len(tensor.type.get_shape()) if isinstance(tensor.type, TensorType) else -1)
        arguments = [argument for region in scope.regions for block in region.blocks for argument in block.args]
        for value in (*arguments, *(result for op in ops for result in op.results)):
            if (kept := ranks.get(memory.set_of(value))) is not None:
                lost[value] = value.type if isinstance(value, BlockArgument) else unshaped(value.type, kept)
    for op in ops:
        if is_isolated(op):
            lost |= lost_shapes(op, functions)
    return lost


def _reshaped(op: Operation, functions: Mapping[str, FuncOp]) -> Sequence[SSAValue]:
    """What ``op``, or an op in its regions or in the function that it calls, may reshape."""
    if isinstance(op, CallOp):
        callee = functions.get(op.callee.string_value())
        return () if callee is None or not any(map(reshapes, callee.walk())) else op.operands
    if is_isolated(op):
        return op.operands if any(_reshaped(inner, functions) for inner in _scope_ops(op)) else ()
    return reshapes(op)


def _scope_ops(scope: Operation) -> list[Operation]:
    """The ops of ``scope`` at any depth, those in scopes of their own left out."""
    found = list[Operation]()
    for region in scope.regions:
        for block in region.blocks:
            for op in block.ops:
                found.append(op)
                if op.regions and not is_isolated(op):
                    found += _scope_ops(op)
    return found
