"""choose-convolutions: convolutions by oneDNN of images in channels_last, where that is measured to be faster.

Assumes:    verified IR with types that are up to date; for inference on the CPU that it runs on. ``propagate-layouts``
            afterwards, which takes the copies between layouts away.
Guarantees: convolutions of images of known sizes in float32 or bfloat16 on the CPU are calls of oneDNN's on weights as they
            lie, which take and give images in channels_last, with a sum and an activation behind one where that changes no
            bit (a sum in bfloat16 is rounded once), if trials of all in a function at these sizes take less than ``gain`` of
            the time. Equal calls are tried once. Copies around them keep the types of what is around.
Keeps:      convolutions that need a gradient, since oneDNN's operator has none. Transposed ones. All of a function that
            normalises images by groups of channels, which takes longer in channels_last than convolutions gain. All where
            times cannot be measured, or a GPU is the target.
Cost:       a trial of a few milliseconds to a tenth of a second for each different call, kept on disk.

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

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.passes import ModulePass

from fxc.dialects.context import FxcContext
from fxc.dialects.target import GpuAttr, target_of
from fxc.dialects.torch_ops.base import TorchOp
from fxc.dialects.torch_ops.traits import is_convolution, is_group_norm
from fxc.passes.analysis.requires_grad import needs_gradient
from fxc.passes.analysis.statistics import count
from fxc.passes.library.autotuning import Choices
from fxc.passes.library.packings import PLAIN_CONVOLUTIONS, computed_behind


@dataclass(frozen=True)
class ChooseConvolutionsPass(ModulePass):
    name = "choose-convolutions"

    gain: float = 0.95

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        assert isinstance(ctx, FxcContext)
        if isinstance(target_of(op), GpuAttr):
            return
        choices = Choices(ctx, self.gain)
        for function in [inner for inner in op.walk() if isinstance(inner, FuncOp)]:
            calls = [call for call in function.walk() if isinstance(call, TorchOp)]
            if any(map(is_group_norm, calls)):
                continue
            convolutions = [call for call in calls if is_convolution(call) and not needs_gradient(call)]
            alone = [[call, *computed_behind(call)] for call in convolutions]
            count("convolutions in channels_last", choices.take_all(alone, PLAIN_CONVOLUTIONS))
