"""Inline small differentiable subgraphs, which PyTorch's autograd then differentiates.

Assumes  verified IR.
Ensures  a subgraph whose function has fewer than ``threshold`` operations, constants and nested ones counted, is
         replaced by these operations, without its derivative and the outputs that only the derivative uses.
Leaves   subgraphs with an operation that PyTorch's autograd cannot run: of another dialect than ``torch`` and ``fx``,
         also in nested regions; unused functions (``symbol-dce``) and operations (``dce``).
Cost     one walk.

Before:
  func.func private @f(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
    %t = torch.aten.exp.default(%x) : (tensor<2xf32>) -> tensor<2xf32>
    %u = torch.aten.tanh.default(%t) : (tensor<2xf32>) -> tensor<2xf32>
    func.return %u, %t : tensor<2xf32>, tensor<2xf32>
  }
  func.func private @df(%g: tensor<2xf32>, %t: tensor<2xf32>) -> tensor<2xf32> {
    func.return %g : tensor<2xf32>
  }
  func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
    %u = autodiff.subgraph @f(%x) {gradient = #autodiff.gradient<@df, real_outputs = 1, input_vjps = [0], captured_inputs = [],
                                   captured_outputs = [1], output_vjps = [0]>} : (tensor<2xf32>) -> tensor<2xf32>
    func.return %u : tensor<2xf32>
  }

After:
  func.func private @f(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
    %t = torch.aten.exp.default(%x) : (tensor<2xf32>) -> tensor<2xf32>
    %u = torch.aten.tanh.default(%t) : (tensor<2xf32>) -> tensor<2xf32>
    func.return %u, %t : tensor<2xf32>, tensor<2xf32>
  }
  func.func private @df(%g: tensor<2xf32>, %t: tensor<2xf32>) -> tensor<2xf32> {
    func.return %g : tensor<2xf32>
  }
  func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
    %t = torch.aten.exp.default(%x) : (tensor<2xf32>) -> tensor<2xf32>
    %u = torch.aten.tanh.default(%t) : (tensor<2xf32>) -> tensor<2xf32>
    func.return %u : tensor<2xf32>
  }
"""

from __future__ import annotations

from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.traits import IsTerminator

from fxc.dialects.autodiff import SubgraphOp
from fxc.passes.analysis.statistics import count
from fxc.passes.rewriting.functions import copy_ops


@dataclass(frozen=True)
class InlineAutodiffSubgraphsPass(ModulePass):
    name = "inline-autodiff-subgraphs"

    threshold: int = field(default=5, metadata={"minimum": 0})

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for subgraph in [inner for inner in op.walk() if isinstance(inner, SubgraphOp)]:
            function = subgraph.function()
            if function is not None and self.may_inline(function):
                _inline(subgraph, function)
                count("subgraphs inlined")
            else:
                count("subgraphs kept")

    def may_inline(self, function: FuncOp) -> bool:
        if len(function.body.blocks) != 1 or not isinstance(function.body.block.last_op, ReturnOp):
            return False
        ops = [inner for inner in function.body.walk() if not inner.has_trait(IsTerminator)]
        return len(ops) < self.threshold and all(op.name.startswith(("torch.", "fx.")) for op in ops)


def _inline(op: SubgraphOp, function: FuncOp) -> None:
    copies, returned = copy_ops(function, op.operands)
    Rewriter.insert_op(copies, InsertPoint.before(op))
    for result, value in zip(op.results, returned, strict=False):
        name = value._name
        result.replace_all_uses_with(value)
        value._name = name
    Rewriter.erase_op(op)
