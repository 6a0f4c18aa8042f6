"""Rewrite operations to their canonical form by local equations.

Assumes  verified IR.
Ensures  no pattern of ``passes/patterns`` matches any more, queries apart. Result types are unchanged, and operations
         that only a rewritten one used are gone. Idempotent.
Leaves   what would change a bit, a stride or a dtype, as ``x + 0.0`` does where x is -0.0; everything about written
         tensors; copies that a caller can tell from their source, as both are returned, or one is and the other is an
         argument; unused operations (``dce``).
Cost     one walk with a dictionary look-up per operation; an analysis of memory where a pattern first matches.

Before:
    func.func @main(%x: tensor<2x3xf32>) {
      %a = torch.aten.transpose.int(%x, 0, 1) : (tensor<2x3xf32>) -> tensor<3x2xf32, #torch.meta<strides = [1, 3]>>
      %b = torch.aten.t.default(%a) : (tensor<3x2xf32, #torch.meta<strides = [1, 3]>>) -> tensor<2x3xf32>
      %c = torch.aten.mul.Tensor(%b, 1) : (tensor<2x3xf32>) -> tensor<2x3xf32>
      %d = torch.aten.relu.default(%c) : (tensor<2x3xf32>) -> tensor<2x3xf32>
      fx.output(%d) : (tensor<2x3xf32>) -> ()
    }
After:
    func.func @main(%x: tensor<2x3xf32>) {
      %d = torch.aten.relu.default(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
      fx.output(%d) : (tensor<2x3xf32>) -> ()
    }
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from fxc.passes.patterns import all_patterns
from fxc.passes.rewriting.patterns import apply_patterns, dispatch_table

DISPATCH = dispatch_table(all_patterns())


@dataclass(frozen=True)
class CanonicalizePass(ModulePass):
    name = "canonicalize"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        apply_patterns(op, DISPATCH)
