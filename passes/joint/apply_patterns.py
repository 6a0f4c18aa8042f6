"""Replace what registered patterns and patterns in files match.

Assumes  the torch level without mutation, and canonical operations: a pattern is matched as traced, and canonical.
Ensures  each match is the pattern as traced again at its types, numbers included; inner values have no other users;
         results have equal dtype, sizes and device. A replacement is not matched again by the same pattern.
Leaves   near misses (``--remarks=patterns`` names them); matches around a write, or with ``autodiff`` marks; returned
         values that would share other memory; strides that would change, unless a contiguous copy restores them.
Cost     nothing without patterns; one walk a pattern, and a PyTorch trace for each new list of operand types.

Before: apply-patterns{files=examples/patterns/silu.mlir}
  func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
    %s = torch.aten.sigmoid.default(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
    %y = torch.aten.mul.Tensor(%s, %x) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
    func.return %y : tensor<2x3xf32>
  }

After:
  func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
    %y = torch.aten.silu.default(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
    func.return %y : tensor<2x3xf32>
  }
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from fxc.dialects.context import FxcContext
from fxc.passes.analysis.memory import scopes
from fxc.passes.patterns.traced.engine import TwoStagePattern
from fxc.passes.patterns.traced.files import read_equations
from fxc.passes.rewriting.patterns import PatternRewriter


@dataclass(frozen=True)
class ApplyPatternsPass(ModulePass):
    """Replace what registered patterns and patterns in files match.

    ``files``: IR files with functions ``@search`` and ``@replacement``. ``gradients``: the program is differentiated later, so
    only patterns apply whose replacement has the same gradients.
    """

    name = "apply-patterns"
    files: tuple[str, ...] = ()
    gradients: bool = False

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        assert isinstance(ctx, FxcContext)
        equations = [*ctx.patterns, *(each for file in self.files for each in read_equations(ctx, file, op))]
        for equation in equations:
            if self.gradients and not equation.keeps_gradients:
                continue
            dispatch = TwoStagePattern(op, ctx, equation, canonical=True).dispatch()
            for scope in list(scopes(op)):
                PatternRewriter(scope, dispatch).run()
