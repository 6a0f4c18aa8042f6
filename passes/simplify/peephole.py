"""peephole: what canonicalize does, and what the types of tensors answer.

Assumes:    verified IR, nothing more.
Guarantees: no pattern of ``canonicalize`` matches any more; no size, stride, rank, dtype or device is asked of a tensor
            whose type states it, ``is None`` of no tensor, and ``len`` of no tuple; a number that went into a tensor and
            came out again is that number; nothing is summed to, or expanded to, the size that it has. With
            ``shapes = false`` no rule is used that holds for the sizes in the types and not for others, as
            ``view(x, sizes of x) -> x``; rules on rank, dtype and device are. Types of results do not change. Running it
            again changes nothing.
Keeps:      what ``canonicalize`` keeps: results that would become the caller's own tensor, tensors that are written (their
            size may be, by ``resize_``), floats plus zero. Questions about a size that is known at run time only. Numbers
            that change in a tensor: ``int(tensor(2.5))``. A sum of sums is one sum, which may round differently.
Cost:       one walk with a dictionary look-up an op; an analysis of memory where a pattern first matches.

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

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        apply_patterns(op, ALL if self.shapes else ANY_SIZES)
