"""Declare a function ``@added`` in the module."""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.passes import ModulePass


@dataclass(frozen=True)
class AddFuncPass(ModulePass):
    name = "add-func"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        op.body.block.add_op(FuncOp.external("added", [], []))
