"""Boolean algebra, and selections between equal values."""

from __future__ import annotations

from fxc.dialects.torch_ops.base import TorchOp
from fxc.passes.analysis.matching import dtype, number, producer, same_type
from fxc.passes.rewriting.patterns import Pattern, PatternRewriter


class NotOfNot(Pattern):
    """not(not(x)) -> x; ``logical_not`` where x is bool"""

    ROOTS = ("aten.logical_not.default", "aten.bitwise_not.default")

    def rewrite(self, op: TorchOp, rewriter: PatternRewriter) -> None:
        if (inner := producer(op.operands[0], (op.operator,))) is not None:
            rewriter.forward(op, inner.operands[0])


class SameOperands(Pattern):
    """and(x, x) -> x, max(x, x) -> x and similar operators; logical operators where x is bool"""

    ROOTS = (
        "aten.bitwise_and.Tensor", "aten.bitwise_or.Tensor", "aten.logical_and.default", "aten.logical_or.default",
        "aten.maximum.default", "aten.minimum.default",
    )  # fmt: skip

    def rewrite(self, op: TorchOp, rewriter: PatternRewriter) -> None:
        if len(op.operands) == 2 and op.operands[0] is op.operands[1]:
            rewriter.forward(op, op.operands[0])


class WhereOfSame(Pattern):
    """where(c, x, x) -> x, where c broadcasts to x"""

    ROOTS = ("aten.where.self",)

    def rewrite(self, op: TorchOp, rewriter: PatternRewriter) -> None:
        if len(op.operands) == 3 and op.operands[1] is op.operands[2] and same_type(op.results[0], op.operands[1]):
            rewriter.forward(op, op.operands[1])


class EqualsTrue(Pattern):
    """b == true -> b and b != false -> b, where b is bool"""

    ROOTS = ("aten.eq.Scalar", "aten.ne.Scalar")

    def rewrite(self, op: TorchOp, rewriter: PatternRewriter) -> None:
        neutral = 1 if op.operator == "aten.eq.Scalar" else 0
        if dtype(op.operands[0].type) == "bool" and number(op.argument("other")) == neutral:
            rewriter.forward(op, op.operands[0])


PATTERNS: tuple[Pattern, ...] = (NotOfNot(), SameOperands(), WhereOfSame(), EqualsTrue())
