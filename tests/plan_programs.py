"""Programs at the ``plan`` level, and how tests run them: on the reference interpreter, over real tensors and arenas."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import GraphModule
from torch.utils._pytree import tree_leaves
from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

import fxc
from fxc.interpret.torch_level import ReferenceInterpreter
from fxc.program.program import Program

OPERATORS = "lower-to-torch,simplify"
KERNELS = "set-target{to=cpu:avx2},lower-to-torch,canonicalize,optimize{reductions=true},lower-kernels"
PLAN = "convert-to-plan,write-in-place,plan-memory"


def planned(function: Callable[..., Any], inputs: Sequence[Any], pipeline: str = KERNELS, plan: str = PLAN) -> Program:
    """The plan of a function without parameters."""
    return fxc.run_passes(fxc.capture(function, tuple(inputs), route="make_fx"), f"{pipeline},{plan}")


def run(program: Program, inputs: Sequence[Any]) -> list[Any]:
    """What the plan returns, flat. Inputs that it mutates are written."""
    functions = {op.sym_name.data: op for op in program.module.ops if isinstance(op, FuncOp)}
    with torch.no_grad():
        return tree_leaves(ReferenceInterpreter(functions).call(program.main, list(inputs)))


def memory(function: FuncOp) -> dict[str, int]:
    """What the function says of its memory."""
    facts = function.attributes["plan.memory"]
    assert isinstance(facts, DictionaryAttr)
    return {name: number.value.data for name, number in facts.data.items() if isinstance(number, IntegerAttr)}


def ops(module: ModuleOp, name: str) -> list[Operation]:
    """The ops called ``name``, or of the operator ``name`` of ``aten``."""
    return [op for op in module.walk() if op.name in (name, f"torch.aten.{name}")]


def consumed(graph: GraphModule) -> GraphModule:
    """The graph with a copy of each tensor that it returns, so that the tensors themselves stay inside."""
    output = next(node for node in graph.graph.nodes if node.op == "output")
    with graph.graph.inserting_before(output):
        for node in list(output.all_input_nodes):
            if isinstance(node.meta.get("val"), torch.Tensor):
                copy = graph.graph.call_function(torch.ops.aten.clone.default, (node,))
                copy.meta = dict(node.meta)
                output.replace_input_with(node, copy)
    graph.recompile()
    return graph
