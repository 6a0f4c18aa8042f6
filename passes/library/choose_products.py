"""Call the library that is measured to be faster for each matrix product.

Assumes  verified IR with types that are up to date; for this CPU.
Ensures  a product of at least ``least`` multiplications of float32 or bfloat16 matrices on the CPU, for which PyTorch
         would call MKL (or oneDNN in bfloat16), is oneDNN's linear, if that is measured to take less than ``gain`` of
         the time at these sizes and strides; transposes left unused are gone.
Leaves   products that need a gradient, which oneDNN's operator does not support; with ``alpha``, ``beta`` or a bias
         that is not one number per column; of dynamic sizes; everything if the target is a GPU or no measurement is
         possible. The order of additions differs, and so do the last bits.
Cost     a measurement of some milliseconds to a tenth of a second for each different product, cached on disk.

Before: choose-products{gain=1.0e30 least=1}
    func.func @main(%x: tensor<2x4xf32>, %w: tensor<3x4xf32>, %b: tensor<3xf32>) -> tensor<2x3xf32> {
      %t = torch.aten.t.default(%w) : (tensor<3x4xf32>) -> tensor<4x3xf32, #torch.meta<strides = [1, 4]>>
      %y = torch.aten.addmm.default(%b, %x, %t)
         : (tensor<3xf32>, tensor<2x4xf32>, tensor<4x3xf32, #torch.meta<strides = [1, 4]>>) -> tensor<2x3xf32>
      func.return %y : tensor<2x3xf32>
    }
After:
    func.func @main(%x: tensor<2x4xf32>, %w: tensor<3x4xf32>, %b: tensor<3xf32>) -> tensor<2x3xf32> {
      %y = torch.mkldnn._linear_pointwise.default(%x, %w, %b, "none", [], "")
         : (tensor<2x4xf32>, tensor<3x4xf32>, tensor<3xf32>) -> tensor<2x3xf32>
      func.return %y : tensor<2x3xf32>
    }
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from fxc.dialects.attributes.types import is_tensor
from fxc.dialects.attributes.values import isa
from fxc.dialects.context import FxcContext
from fxc.dialects.target import GpuAttr, target_of
from fxc.dialects.torch_ops.base import TorchOp
from fxc.passes.analysis.requires_grad import needs_gradient
from fxc.passes.analysis.statistics import count
from fxc.passes.library.autotuning import Choices
from fxc.passes.library.packings import is_product, plain_linear, weight_of
from fxc.passes.rewriting.functions import outside_derivatives
from fxc.passes.rewriting.matrix_products import is_transpose


@dataclass(frozen=True)
class ChooseProductsPass(ModulePass):
    """Equal products are measured once."""

    name = "choose-products"

    gain: float = field(default=0.9, metadata={"minimum": 0})
    least: int = field(default=1 << 20, metadata={"minimum": 0})

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        assert isinstance(ctx, FxcContext)
        if isinstance(target_of(op), GpuAttr):
            return
        choices = Choices(ctx, self.gain)
        for call in list(outside_derivatives(op)):
            if not isinstance(call, TorchOp) or needs_gradient(call) or _multiplications(call) < self.least:
                continue
            operands = list(call.operands)
            if choices.take([call], [plain_linear]):
                for value in operands:
                    if isinstance(value.owner, Operation) and is_transpose(value.owner) and value.first_use is None:
                        Rewriter.erase_op(value.owner)
                count("products by oneDNN")


def _multiplications(op: Operation) -> int:
    """The number of multiplications of a product; 0 for other ops and for dynamic sizes."""
    weight = weight_of(op) if isinstance(op, TorchOp) and is_product(op) else None
    if not isa(weight, SSAValue):
        return 0
    types = [weight.type, op.results[0].type]
    shapes = [type.get_shape() for type in types if is_tensor(type) and type.has_static_shape()]
    return math.prod(shapes[0]) * math.prod(shapes[1][:-1]) if len(shapes) == 2 else 0
