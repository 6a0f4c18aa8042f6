"""Set the target machine of kernels.

Assumes  nothing.
Ensures  the module has the description of the machine ``to`` as ``fxc.target``, instead of any other. Passes that
         generate kernels read it there, and it can be edited. Idempotent.
Leaves   everything else.
Cost     none.

Before:
    builtin.module {
      func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
        func.return %x : tensor<4xf32>
      }
    }
After:
    builtin.module attributes {fxc.target = #target.cpu} {
      func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
        func.return %x : tensor<4xf32>
      }
    }
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from fxc.dialects.target import preset, set_target


@dataclass(frozen=True)
class SetTargetPass(ModulePass):
    """Set the target machine of kernels.

    ``to``: a preset. ``deterministic``: no kernel adds floats in an order that varies, and no measurement selects the numbers.
    ``tf32``: kernels of float32 products may round the factors to TF32.
    """

    name = "set-target"

    to: str = "cpu"
    deterministic: bool = False
    tf32: bool = False

    def __post_init__(self) -> None:
        preset(self.to)  # reject an unknown name when the pipeline is created

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        set_target(op, preset(self.to), deterministic=self.deterministic, tf32=self.tf32)
