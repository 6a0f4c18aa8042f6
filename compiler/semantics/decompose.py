"""Decompositions of operators: PyTorch's decomposition, traced at the operand types."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import torch
from torch import _decomp
from torch._subclasses.functional_tensor import dispatch_functionalize
from torch.fx import GraphModule
from xdsl.dialects.builtin import DictionaryAttr, FunctionType, TupleType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Region, SSAValue

from fxc.bridge.callables import resolve_operator
from fxc.bridge.import_nodes import GraphImporter
from fxc.bridge.static_world import evaluate
from fxc.bridge.tensors import FakeWorld
from fxc.dialects.attributes.values import NoneValueAttr
from fxc.dialects.base.effects import is_pure
from fxc.dialects.fx import OutputOp
from fxc.dialects.semantics import CannotInfer
from fxc.dialects.torch_ops import TorchOp
from fxc.dialects.torch_ops.constant import ConstantOp
from fxc.dialects.torch_ops.schema import FOREACH
from fxc.errors import FxcError
from fxc.interpret.torch_level import ReferenceInterpreter
from fxc.semantics.any_sizes import traced_for_any_sizes
from fxc.semantics.refusals import is_refusal
from fxc.semantics.trace import record

_tables: Any = _decomp


def decompose(op: TorchOp, symbols: DictionaryAttr | None, interpreter: ReferenceInterpreter) -> FuncOp | None:
    """Return a detached function that computes ``op``, with an argument for each distinct operand and a value for each result.

    It uses PyTorch's decomposition table, or the calls of a composite operator. None if there is no decomposition, if ``op``
    returns a tuple, if an operation in it is not pure, or if it depends on sizes.
    """
    if len(op.results) == 1 and isinstance(op.results[0].type, TupleType):
        return None
    try:
        return evaluate(
            lambda world: traced_for_any_sizes(lambda each: _traced(op, each, interpreter), world, symbols), symbols
        )
    except (CannotInfer, FxcError, RuntimeError, NotImplementedError, TypeError):
        return None  # the rule requires known or nonzero sizes, or has a layout that cannot be faked
    except (AssertionError, IndexError, ValueError) as error:
        if not is_refusal(error):
            raise
        return None  # a call of the operator raises the error


def _traced(op: TorchOp, world: FakeWorld, interpreter: ReferenceInterpreter) -> FuncOp | None:
    inputs, target = list(dict.fromkeys(op.operands)), resolve_operator(op.operator)

    def run(*values: Any) -> list[Any]:
        return list(interpreter.op(op, dict(zip(inputs, values, strict=True))))

    graph = _trace(run, [world.fake(value.type) for value in inputs], _rules([target]), world)
    if writing := _rules(_writing(graph)):  # an operator that may write, but does not at these arguments
        fakes = [world.fake(value.type) for value in inputs]
        graph = _trace(run, fakes, {**_rules([target]), **writing}, world)
    if _writing(graph):  # a composite operator writes only tensors that it has made
        fakes = [world.fake(value.type) for value in inputs]
        graph = _trace(dispatch_functionalize(run), fakes, _rules([target]), world)
    if any(node.target is target for node in graph.graph.nodes):
        return None
    return _function(op, graph, world)


def _rules(operators: Iterable[Any]) -> dict[Any, Callable[..., Any]]:
    found = {operator: _tables.decomposition_table.get(operator) or _calls_of_each(operator) for operator in operators}
    return {operator: rule for operator, rule in found.items() if rule is not None}


def _calls_of_each(operator: Any) -> Callable[..., Any] | None:
    """Return the generic kernel of an operator on lists of tensors, which calls another operator for each tensor."""
    if not str(operator).startswith(FOREACH):
        return None
    return partial(operator._op_dk, torch._C.DispatchKey.CompositeExplicitAutograd)


def _trace(run: Callable[..., Any], fakes: list[Any], rules: dict[Any, Callable[..., Any]], world: FakeWorld) -> GraphModule:
    """Trace ``run``: composite operators and operators with a rule are replaced by their calls."""
    with torch.no_grad():
        graph = record(run, fakes, world, rules)
    graph.graph.eliminate_dead_code()
    return graph


def _writing(graph: GraphModule) -> set[Any]:
    targets = {node.target for node in graph.graph.nodes}
    return {target for target in targets if isinstance(target, torch._ops.OpOverload) and target._schema.is_mutable}


def _function(op: TorchOp, graph: GraphModule, world: FakeWorld) -> FuncOp | None:
    importer = GraphImporter(world.type_of, constants_inline=True)
    block = importer.block(graph, list(graph.graph.nodes), "", None)
    output = block.last_op
    assert isinstance(output, OutputOp)
    returned = output.trees()[0][0]
    inner = [part for part in block.ops if part is not output]
    if importer.operators or len(returned) != len(op.results) or not all(map(is_pure, inner)):
        return None
    nones = [ConstantOp.of(tree, result.type) for tree, result in zip(returned, op.results, strict=True) if _is_none(tree)]
    block.insert_ops_before(nones, output)
    rest = iter(nones)
    values = [next(rest).results[0] if _is_none(tree) else tree for tree in returned]
    if not all(isinstance(value, SSAValue) for value in values):
        return None
    block.erase_op(output)
    block.add_op(ReturnOp(*values))
    types = FunctionType.from_lists([argument.type for argument in block.args], [value.type for value in values])
    return FuncOp(op.operator.split(".")[1], types, Region(block), "private")


def _is_none(tree: object) -> bool:
    return isinstance(tree, NoneValueAttr)
