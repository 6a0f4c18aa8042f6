"""Fail at the first test op, in the way that ``how`` says."""

from dataclasses import dataclass
from typing import Literal

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.test import TestOp
from xdsl.passes import ModulePass

from fxc.dialects.text.diagnostics import OpPassFailedException


@dataclass(frozen=True)
class FailOnPass(ModulePass):
    name = "fail-on"

    how: Literal["politely", "crashing"] = "politely"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for inner in op.walk():
            if isinstance(inner, TestOp) and self.how == "politely":
                raise OpPassFailedException("cannot handle this op", inner)
            if isinstance(inner, TestOp):
                raise KeyError("missing")
