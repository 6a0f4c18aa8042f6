"""Move the first op of each function to its end, before the terminator: breaks dominance on purpose."""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.passes import ModulePass


@dataclass(frozen=True)
class SinkFirstPass(ModulePass):
    name = "sink-first"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in op.walk():
            if isinstance(function, FuncOp) and not function.is_declaration:
                block = function.body.block
                first, last = block.first_op, block.last_op
                assert first is not None and last is not None
                first.detach()
                block.insert_op_before(first, last)
