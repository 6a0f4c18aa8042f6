"""Replace captured calls by calls of functions of ATen operators.

Assumes  the types of every function argument are known.
Ensures  no ``fx`` call and no ``fx.get_attr`` is left in a public function. Parameters, buffers and constants that were
         read are arguments with ``fx.kind`` and ``fx.name``. Each call is a ``func.call`` of a private function; calls
         with equal traces share one. Numbers that are arguments are specialized to the value in their type.
Leaves   mutation (``functionalize``), calls (``inline``), and torch operations with known types.
Cost     one PyTorch trace for each different call; ``make demo`` prints the time of a whole model.

Before:
  func.func @main(%x: tensor<2x3xf32>) -> !fx.value {
    %relu = fx.call_function @torch.nn.functional.relu(%x, inplace = false) : (tensor<2x3xf32>) -> !fx.value
    fx.output(%relu) : (!fx.value) -> ()
  }

After:
  func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
    %relu = func.call @relu(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
    fx.output(%relu) : (tensor<2x3xf32>) -> ()
  }
  func.func private @relu(%arg0_1: tensor<2x3xf32>) -> tensor<2x3xf32> {
    %relu = torch.aten.relu.default(%arg0_1) : (tensor<2x3xf32>) -> tensor<2x3xf32>
    func.return %relu : tensor<2x3xf32>
  }
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.passes import ModulePass

from fxc.dialects.attributes.types import ValueType
from fxc.dialects.context import FxcContext
from fxc.dialects.fx import CallFunctionOp, CallMethodOp, CallModuleOp, GetAttrOp


@dataclass(frozen=True)
class ConvertFxToTorchPass(ModulePass):
    """Replace captured calls by calls of functions of ATen operators.

    The functions are traced from PyTorch at the operand types, before autograd decomposes composite operators, in the train or
    eval mode that the module had when it was captured.
    """

    name = "convert-fx-to-torch"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        assert isinstance(ctx, FxcContext)
        for function in [f for f in op.ops if isinstance(f, FuncOp) and not f.is_declaration and _needs_conversion(f)]:
            ctx.semantics.convert_fx_to_torch(op, function)


def _needs_conversion(function: FuncOp) -> bool:
    return any(
        isinstance(op, (CallFunctionOp, CallMethodOp, CallModuleOp, GetAttrOp))
        or any(isinstance(result.type, ValueType) for result in op.results)
        for op in function.walk()
    )
