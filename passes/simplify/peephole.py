"""Apply the patterns of canonicalize, and fold queries about tensors that their types answer.

Assumes  verified IR.
Ensures  as ``canonicalize``; there is no query of a size, stride, rank, dtype or device that a type states, no
         ``is None`` of a tensor, no ``len`` of a tuple, and no sum or expansion to the present size; a number that is
         stored in a tensor exactly and read back is the number itself. Idempotent.
Leaves   as ``canonicalize``; queries of sizes known at run time only, and of written tensors, which ``resize_`` may
         resize; numbers that a tensor changes, such as ``int(tensor(2.5))``.
Cost     one walk with a dictionary look-up per operation; an alias analysis where a pattern first matches.

Before:
    func.func @main(%x: tensor<2x3xf32>, %y: tensor<2x3xf32>) {
      %n = torch.aten.sym_size.int(%x, 1) : (tensor<2x3xf32>) -> !torch.int
      %a = torch.aten.sum_to_size.default(%x, [2, %n]) : (tensor<2x3xf32>, !torch.int) -> tensor<2x3xf32>
      %b = torch.aten.type_as.default(%a, %y) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
      %c = torch.aten.add.Tensor(%b, %y, alpha = %n) : (tensor<2x3xf32>, tensor<2x3xf32>, !torch.int) -> tensor<2x3xf32>
      fx.output(%c) : (tensor<2x3xf32>) -> ()
    }
After:
    func.func @main(%x: tensor<2x3xf32>, %y: tensor<2x3xf32>) {
      %c = torch.aten.add.Tensor(%x, %y, alpha = 3) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
      fx.output(%c) : (tensor<2x3xf32>) -> ()
    }
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from fxc.passes.patterns import all_patterns, logical, queries, views
from fxc.passes.rewriting.patterns import Dispatch, Pattern, apply_patterns, dispatch_table

PATTERNS = (*all_patterns(), *queries.QUERY_PATTERNS)
SIZED = (
    views.ReshapeOfReshape, views.NoOpView, views.SqueezeOfUnsqueeze, views.WholeSlice, logical.WhereOfSame, *queries.SIZED,
)  # fmt: skip


def _dispatch(patterns: tuple[Pattern, ...]) -> Dispatch:
    return {**dispatch_table(patterns), "fx.call_function": queries.PYTHON_PATTERNS}


ALL = _dispatch(PATTERNS)
ANY_SIZES = _dispatch(tuple(pattern for pattern in PATTERNS if not isinstance(pattern, SIZED)))


@dataclass(frozen=True)
class PeepholePass(ModulePass):
    name = "peephole"

    shapes: bool = True
    """Whether the patterns in ``SIZED`` are applied, which rely on the static sizes in the types.

    An example is ``view(x, sizes of x) -> x``. Patterns on rank, dtype and device are always applied.
    """

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        apply_patterns(op, ALL if self.shapes else ANY_SIZES)
