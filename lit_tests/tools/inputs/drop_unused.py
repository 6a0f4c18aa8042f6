"""Remove test ops that nothing uses."""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.test import TestOp
from xdsl.passes import ModulePass

from fxc.passes.analysis.statistics import count


@dataclass(frozen=True)
class DropUnusedPass(ModulePass):
    name = "drop-unused"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for inner in reversed(list(op.walk())):
            if isinstance(inner, TestOp) and not any(result.first_use for result in inner.results):
                inner.detach()
                inner.erase()
                count("dropped")
