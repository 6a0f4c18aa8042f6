"""Rewrite operations to their canonical form by local equations.

Assumes  verified IR.
Ensures  no pattern of ``passes/patterns`` except those of queries matches. Result types are unchanged, and operations
         that only a rewritten operation used are erased. Idempotent.
Leaves   rewrites that would change a bit, a stride or a dtype, such as ``x + 0.0`` where x is -0.0; written tensors;
         copies that a caller can tell from their source, because both are returned, or one is returned and the other is
         an argument; unused operations (``dce``).
Cost     one walk with a dictionary look-up per operation; an alias analysis where a pattern first matches.

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
