"""Split the tuple that a call returns into one result per element.

Assumes  verified IR.
Ensures  no operator or higher-order call returns one tuple whose uses are all ``operator.getitem`` with a constant
         index in range, directly or through constant slices. Result i has the name of its first getitem, if any.
         Idempotent.
Leaves   tuples that are returned or passed on whole, or indexed by a value or out of range; unused calls (``dce``);
         nested tuples, which stay single values that are read by getitem.
Cost     one walk.

Before:
    func.func @main(%x: tensor<4xf32>) {
      %t = torch.aten.topk.default(%x, 2) : (tensor<4xf32>) -> tuple<tensor<2xf32>, tensor<2xi64>>
      %v = fx.call_function @operator.getitem(%t, 0) : (tuple<tensor<2xf32>, tensor<2xi64>>) -> tensor<2xf32>
      fx.output(%v) : (tensor<2xf32>) -> ()
    }
After:
    func.func @main(%x: tensor<4xf32>) {
      %v, %0 = torch.aten.topk.default(%x, 2) : (tensor<4xf32>) -> (tensor<2xf32>, tensor<2xi64>)
      fx.output(%v) : (tensor<2xf32>) -> ()
    }
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from fxc.passes.rewriting.unpacking import unpack_tuples


@dataclass(frozen=True)
class LowerSimpleTuplesPass(ModulePass):
    name = "lower-simple-tuples"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        unpack_tuples(op)
