"""Call oneDNN and MKL with packed weights for convolutions and products if that is measured to be faster.

Assumes  inference; ``freeze-parameters`` follows, which packs once: without it weights are packed in every call.
Ensures  a convolution or product with a weight of the model uses a packed weight, fused with the following activation
         if that changes no bit, and with the image added to a convolution, if that is measured to take less than
         ``gain`` of the time; convolutions are measured together. Copies around them preserve the types of their users.
Leaves   weights that are inputs or change; dtypes other than float32 and bfloat16; dynamic sizes; devices other than
         the CPU; everything if no measurement is possible.
Cost     a measurement of a few milliseconds to a tenth of a second for each different call, cached on disk.

Before: pack-weights{gain=1.0e30}
    func.func @main(%x: tensor<1x2x4x4xf32>, %w: tensor<3x2x1x1xf32> {fx.kind = "parameter", fx.name = "w"}) {
      %y = torch.aten.conv2d.default(%x, %w) : (tensor<1x2x4x4xf32>, tensor<3x2x1x1xf32>) -> tensor<1x3x4x4xf32>
      %r = torch.aten.relu.default(%y) : (tensor<1x3x4x4xf32>) -> tensor<1x3x4x4xf32>
      fx.output(%r) : (tensor<1x3x4x4xf32>) -> ()
    }
After:
    func.func @main(%x: tensor<1x2x4x4xf32>, %w: tensor<3x2x1x1xf32> {fx.kind = "parameter", fx.name = "w"}) {
      %p = torch.mkldnn._reorder_convolution_weight.default(%w, [0, 0], [1, 1], [1, 1], 1, [1, 2, 4, 4])
        : (tensor<3x2x1x1xf32>) -> !fx.value
      %l = torch.aten.clone.default(%x, memory_format = torch.channels_last)
        : (tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32, #torch.meta<strides = [32, 1, 8, 2]>>
      %c = torch.mkldnn._convolution_pointwise.default(%l, %p, none, [0, 0], [1, 1], [1, 1], 1, "relu", [], "")
        : (tensor<1x2x4x4xf32, #torch.meta<strides = [32, 1, 8, 2]>>, !fx.value)
        -> tensor<1x3x4x4xf32, #torch.meta<strides = [48, 1, 12, 3]>>
      %r = torch.aten.clone.default(%c, memory_format = torch.contiguous_format)
        : (tensor<1x3x4x4xf32, #torch.meta<strides = [48, 1, 12, 3]>>) -> tensor<1x3x4x4xf32>
      fx.output(%r) : (tensor<1x3x4x4xf32>) -> ()
    }
"""

from __future__ import annotations

from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from fxc.dialects.context import FxcContext
from fxc.dialects.torch_ops.base import TorchOp
from fxc.passes.analysis.constants import readable_entry
from fxc.passes.analysis.statistics import count
from fxc.passes.library.autotuning import Choices
from fxc.passes.library.frozen_ops import frozen_ops
from fxc.passes.library.packings import PACKED_CONVOLUTIONS, PACKED_PRODUCTS, computed_behind, is_product, weight_of
from fxc.passes.operators.record import Role
from fxc.passes.operators.table import role_of


@dataclass(frozen=True)
class PackWeightsPass(ModulePass):
    """A packed convolution reads and returns images in channels_last; ``propagate-layouts`` removes the copies around it.
    An image added in bfloat16 is rounded once. Equal calls are measured once.
    """

    name = "pack-weights"

    gain: float = field(default=0.97, metadata={"minimum": 0})

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        assert isinstance(ctx, FxcContext)
        entry = readable_entry(op)
        if entry is None:
            return
        own = frozen_ops(entry)[1]
        choices = Choices(ctx, self.gain, own)
        calls = [op for op in entry.body.block.ops if isinstance(op, TorchOp) and weight_of(op) in own]
        convolutions = [[call, *computed_behind(call)] for call in calls if role_of(call) is Role.CONVOLUTION]
        count("weights packed", choices.take_all(convolutions, PACKED_CONVOLUTIONS))
        for call in [call for call in calls if is_product(call)]:
            if choices.take([call, *computed_behind(call)], PACKED_PRODUCTS):
                count("weights packed")
