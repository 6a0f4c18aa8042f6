"""Move a program captured on the CPU to another device, which this machine need not have.

Assumes  no weights on other devices: tensors on these stay there.
Ensures  no type of a tensor on the CPU and no argument ``device("cpu")`` remains. Idempotent.
Leaves   the values of weights, which a plan moves when it is loaded.
Cost     one walk.

Before: move-to-device{device=cuda:0}
    func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
      %ones = torch.aten.ones.default([4], device = device("cpu")) : () -> tensor<4xf32>
      fx.output(%ones) : (tensor<4xf32>) -> ()
    }
After:
    func.func @main(%x: tensor<4xf32, #torch.meta<device = "cuda:0">>) -> tensor<4xf32, #torch.meta<device = "cuda:0">> {
      %ones = torch.aten.ones.default([4], device = device("cuda:0")) : () -> tensor<4xf32, #torch.meta<device = "cuda:0">>
      fx.output(%ones) : (tensor<4xf32, #torch.meta<device = "cuda:0">>) -> ()
    }
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp
from xdsl.ir import Attribute, ParametrizedAttribute
from xdsl.passes import ModulePass
from xdsl.utils.hints import isa

from fxc.dialects.attributes.types import device, dtype_name, is_tensor, layout, sizes, strides, tensor_type
from fxc.dialects.attributes.values import device_attr

CPU = device_attr("cpu")


@dataclass(frozen=True)
class MoveToDevicePass(ModulePass):
    """The device to move to, as PyTorch names it.

    ``device``: ``cuda``, or a card, such as ``cuda:0``.
    """

    name = "move-to-device"

    device: str = "cuda"

    def __post_init__(self) -> None:
        if self.device not in ("cpu", "meta") and ":" not in self.device:
            object.__setattr__(self, "device", f"{self.device}:0")  # as in the types of tensors

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for inner in op.walk():
            for attributes in (inner.attributes, inner.properties):
                attributes.update({name: self._moved(each) for name, each in attributes.items()})
            for value in (*inner.results, *(arg for region in inner.regions for block in region.blocks for arg in block.args)):
                value._type = self._moved(value.type)

    def _moved(self, attribute: Attribute) -> Attribute:
        if is_tensor(attribute) and device(attribute) == "cpu":
            known = dtype_name(attribute.element_type), sizes(attribute), strides(attribute)
            return tensor_type(*known, self.device, layout(attribute))
        if attribute == CPU:
            return device_attr(self.device)
        if isa(attribute, ArrayAttr[Attribute]):
            return ArrayAttr([self._moved(each) for each in attribute])
        if isa(attribute, DictionaryAttr):
            return DictionaryAttr({name: self._moved(each) for name, each in attribute.data.items()})
        if isinstance(attribute, ParametrizedAttribute) and not is_tensor(attribute):
            return type(attribute).new([self._moved(each) for each in attribute.parameters])
        return attribute
