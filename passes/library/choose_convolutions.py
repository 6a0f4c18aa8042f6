"""Call oneDNN for convolutions of channels_last images if that is measured to be faster.

Assumes  verified IR with types that are up to date; for inference on this CPU; ``propagate-layouts`` follows and
         removes the copies between layouts.
Ensures  convolutions of float32 or bfloat16 images of known sizes on the CPU are oneDNN calls in channels_last, with
         the activation and sum that follow, if all those of a function are measured to take less than ``gain`` of the
         time. Copies around them preserve the types of their users.
Leaves   convolutions that need a gradient, which oneDNN's operator does not support; transposed ones; functions that
         normalize by groups of channels, which is slower in channels_last; everything if the target is a GPU or no
         measurement is possible.
Cost     a measurement of a few milliseconds to a tenth of a second for each different call, cached on disk.

Before: choose-convolutions{gain=1.0e30}
    func.func @main(%x: tensor<1x2x4x4xf32>, %w: tensor<3x2x1x1xf32>) {
      %y = torch.aten.conv2d.default(%x, %w) : (tensor<1x2x4x4xf32>, tensor<3x2x1x1xf32>) -> tensor<1x3x4x4xf32>
      fx.output(%y) : (tensor<1x3x4x4xf32>) -> ()
    }
After:
    func.func @main(%x: tensor<1x2x4x4xf32>, %w: tensor<3x2x1x1xf32>) {
      %l = torch.aten.clone.default(%x, memory_format = torch.channels_last)
        : (tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32, #torch.meta<strides = [32, 1, 8, 2]>>
      %c = torch.mkldnn._convolution_pointwise.default(%l, %w, none, [0, 0], [1, 1], [1, 1], 1, "none", [], "")
        : (tensor<1x2x4x4xf32, #torch.meta<strides = [32, 1, 8, 2]>>, tensor<3x2x1x1xf32>)
        -> tensor<1x3x4x4xf32, #torch.meta<strides = [48, 1, 12, 3]>>
      %y = torch.aten.clone.default(%c, memory_format = torch.contiguous_format)
        : (tensor<1x3x4x4xf32, #torch.meta<strides = [48, 1, 12, 3]>>) -> tensor<1x3x4x4xf32>
      fx.output(%y) : (tensor<1x3x4x4xf32>) -> ()
    }
"""

from __future__ import annotations

from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.passes import ModulePass

from fxc.dialects.context import FxcContext
from fxc.dialects.target import GpuAttr, target_of
from fxc.dialects.torch_ops.base import TorchOp
from fxc.passes.analysis.requires_grad import needs_gradient
from fxc.passes.analysis.statistics import count
from fxc.passes.library.autotuning import Choices
from fxc.passes.library.packings import PLAIN_CONVOLUTIONS, computed_behind
from fxc.passes.operators.record import Role
from fxc.passes.operators.table import role_of


@dataclass(frozen=True)
class ChooseConvolutionsPass(ModulePass):
    """Weights stay in their layout. Ops after a convolution are fused with it if that changes no bit (a sum in bfloat16
    is rounded once). Equal calls are measured once.
    """

    name = "choose-convolutions"

    gain: float = field(default=0.95, metadata={"minimum": 0})

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        assert isinstance(ctx, FxcContext)
        if isinstance(target_of(op), GpuAttr):
            return
        choices = Choices(ctx, self.gain)
        for function in [inner for inner in op.walk() if isinstance(inner, FuncOp)]:
            calls = [call for call in function.walk() if isinstance(call, TorchOp)]
            if any(role_of(call) is Role.GROUP_NORM for call in calls):
                continue
            convolutions = [call for call in calls if role_of(call) is Role.CONVOLUTION and not needs_gradient(call)]
            alone = [[call, *computed_behind(call)] for call in convolutions]
            count("convolutions in channels_last", choices.take_all(alone, PLAIN_CONVOLUTIONS))
