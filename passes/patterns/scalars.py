"""Host numbers: constants are folded into the calls that use them."""

from __future__ import annotations

from xdsl.traits import IsTerminator

from fxc.dialects.attributes.types import is_mutable
from fxc.dialects.text.call import CallOp
from fxc.dialects.torch_ops.constant import ConstantOp
from fxc.passes.rewriting.patterns import Pattern, PatternRewriter


class FoldScalar(Pattern):
    """f(x, %c) -> f(x, 3), where %c = torch.constant(3)

    Calls with regions keep the operand, which a region may take as an argument; terminators keep it, too.
    """

    ROOTS = ("constant",)

    def rewrite(self, op: ConstantOp, rewriter: PatternRewriter) -> None:
        if is_mutable(op.result.type):
            return
        users = {use.operation: None for use in op.result.uses}
        for user in users:
            if isinstance(user, CallOp) and not user.regions and not user.has_trait(IsTerminator):
                rewriter.fold_operand(user, op.result, op.value)
        if users:
            rewriter.erase_unused(op)


PATTERNS: tuple[Pattern, ...] = (FoldScalar(),)
