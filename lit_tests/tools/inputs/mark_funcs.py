"""Note on each function how many functions with a body this run of the pass could see."""

from dataclasses import dataclass
from typing import Literal

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.passes import ModulePass


@dataclass(frozen=True)
class MarkFuncsPass(ModulePass):
    name = "mark-funcs"

    label: str = "seen"
    scale: float = 1.0
    sizes: tuple[int, ...] = ()
    mode: Literal["count", "options"] = "count"
    loud: bool = False
    limit: int | None = None

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        functions = [function for function in op.walk() if isinstance(function, FuncOp) and not function.is_declaration]
        options = f"{self.label!r} {self.scale} {self.sizes} {self.loud} {self.limit}"
        text = f"{len(functions)} functions" if self.mode == "count" else options
        for function in functions:
            function.attributes["mark"] = StringAttr(text)
