"""Compute x ** 2 as x * x.

Assumes  verified IR.
Ensures  no ``aten.pow.Tensor_Scalar`` with the exponent 2 is left, of integers neither, whose squares wrap around alike.
Leaves   other exponents.
Cost     one walk.
"""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import GreedyRewritePatternApplier, PatternRewriter, PatternRewriteWalker, RewritePattern

from fxc.dialects.attributes.values import int_attr
from fxc.dialects.torch_ops import torch_op

MUL, POW = torch_op("aten.mul.Tensor"), torch_op("aten.pow.Tensor_Scalar")


class SquareByMul(RewritePattern):
    """pow(x, 2) -> mul(x, x)"""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        if not isinstance(op, POW) or op.argument("exponent") != int_attr(2):
            return
        x = op.operands[0]
        rewriter.replace(op, MUL.build_call([x, x], {}, op.result_types, location=op.location))


@dataclass(frozen=True)
class SquareByMulPass(ModulePass):
    name = "square-by-mul"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        PatternRewriteWalker(GreedyRewritePatternApplier([SquareByMul()])).rewrite_module(op)
