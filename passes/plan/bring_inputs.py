"""Copy inputs to the device on which the plan reads them.

Assumes  an entry function at the plan level (``convert-to-plan``).
Ensures  each tensor input of ``@main`` is read through a ``plan.bring`` at the start, and marked ``fx.moves``: a caller
         may pass it on any device.
Leaves   tensors of the model, and written inputs, since the write must reach the caller's tensor; functions without
         operations of ``plan``.
Cost     one walk.

Before:
    func.func @main(%x: tensor<4xf32> {fx.kind = "input", fx.name = "x"}) -> tensor<4xf32> {
      %b = plan.alloc : tensor<4xf32>
      %0 = torch.aten.neg.out(%x, out = %b) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      fx.output(%b) : (tensor<4xf32>) -> ()
    }
After:
    func.func @main(%x: tensor<4xf32> {fx.kind = "input", fx.moves, fx.name = "x"}) -> tensor<4xf32> {
      %x_1 = plan.bring %x : tensor<4xf32> to tensor<4xf32>
      %b = plan.alloc : tensor<4xf32>
      %0 = torch.aten.neg.out(%x_1, out = %b) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      fx.output(%b) : (tensor<4xf32>) -> ()
    }
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, UnitAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import BlockArgument
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from fxc.dialects.attributes.types import is_tensor
from fxc.dialects.entry import ArgumentFacts, argument_attributes
from fxc.dialects.plan import BringOp
from fxc.passes.analysis.statistics import count
from fxc.passes.analysis.written_arguments import written_arguments

MOVES = "fx.moves"
"""The attribute of an argument that may be on any device."""


@dataclass(frozen=True)
class BringInputsPass(ModulePass):
    name = "bring-inputs"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        functions = [function for function in op.ops if isinstance(function, FuncOp) and function.sym_name.data == "main"]
        for function in functions:
            if any(inner.name.startswith("plan.") for inner in function.walk()):
                _bring(function)


def _bring(function: FuncOp) -> None:
    attributes = argument_attributes(function)
    written = written_arguments(function)
    for i, argument in enumerate(function.args):
        is_input = ArgumentFacts.of(attributes[i]).kind == "input"
        if not is_input or argument in written or not is_tensor(argument.type) or MOVES in attributes[i].data:
            continue
        attributes[i] = DictionaryAttr({**attributes[i].data, MOVES: UnitAttr()})
        _read_through(argument, function)
        count("inputs brought")
    function.arg_attrs = ArrayAttr(attributes)


def _read_through(argument: BlockArgument, function: FuncOp) -> None:
    bring = BringOp.of(argument, argument.type)
    bring.result.name_hint = argument.name_hint
    argument.replace_all_uses_with(bring.result)
    bring.operands[0] = argument
    Rewriter.insert_op(bring, InsertPoint.at_start(function.body.block))
