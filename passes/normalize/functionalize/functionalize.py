"""Replace mutation by values, using PyTorch's functionalization.

Assumes  the torch level: every operand and result is typed, no ``fx`` call is left.
Ensures  no operation reads memory that another one wrote: in-place operators are functional ones, also through views
         and in branches, and the statistics that batch norm updates are a result. A written argument is an extra result
         in front, marked ``fx.mutates = <index of the argument>``, which the exporter copies back.
Leaves   functions without mutation; the order of random operators; which outputs share memory.
Cost     a PyTorch trace of each function that mutates, with its calls inlined; none where ``local_writes`` or
         ``last_writes`` apply.

Before:
  func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    %y = torch.aten.view.default(%x, [2, 2]) : (tensor<4xf32>) -> tensor<2x2xf32>
    %z = torch.aten.add_.Tensor(%y, 1) : (tensor<2x2xf32>) -> tensor<2x2xf32>
    %w = torch.aten.neg.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
    func.return %w : tensor<4xf32>
  }

After:
  func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32> {fx.mutates = 0 : i64}, tensor<4xf32>) {
    %view = torch.aten.view.default(%x, [2, 2]) : (tensor<4xf32>) -> tensor<2x2xf32>
    %add = torch.aten.add.Tensor(%view, 1) : (tensor<2x2xf32>) -> tensor<2x2xf32>
    %view_1 = torch.aten.view.default(%add, [4]) : (tensor<2x2xf32>) -> tensor<4xf32>
    %neg = torch.aten.neg.default(%view_1) : (tensor<4xf32>) -> tensor<4xf32>
    func.return %view_1, %neg : tensor<4xf32>, tensor<4xf32>
  }
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.passes import ModulePass

from fxc.dialects.base.effects import writes
from fxc.dialects.context import FxcContext
from fxc.dialects.torch_ops import TorchOp
from fxc.passes.analysis.call_graph import is_private
from fxc.passes.normalize.functionalize.last_writes import return_last_writes
from fxc.passes.normalize.functionalize.local_writes import replace_local_writes


@dataclass(frozen=True)
class FunctionalizePass(ModulePass):
    """Replace mutation by values, using PyTorch's functionalization.

    Where an output is a view of a written argument, the argument is written here, at the end, and the output is a view of it.
    """

    name = "functionalize"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        assert isinstance(ctx, FxcContext)
        if not any(isinstance(inner, TorchOp) and writes(inner) for inner in op.walk()):
            return
        for function in [f for f in op.ops if isinstance(f, FuncOp) and not f.is_declaration]:
            if is_private(function):
                continue
            replace_local_writes(ctx, function)
            if not return_last_writes(function):
                ctx.semantics.functionalize(op, function)
