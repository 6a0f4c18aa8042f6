"""Pad matrix products to sizes that the GPU multiplies faster.

Assumes  static types that are up to date (``propagate-shapes``); the module has the target in ``fxc.target``.
Ensures  on a GPU, a product whose depth or columns are no multiple of 8 (half precision) or 4 (float32) is one of
         matrices padded with zeros, if that is measured to take less than 1/1.1 of the time. Strides are unchanged.
Leaves   CPUs, symbolic and empty sizes, sizes of 1, the number of rows, on which no alignment depends, other dtypes,
         and modules with ``fxc.deterministic``, in which a measurement must not select the numbers.
Cost     one walk, and a measurement for each different product, cached on disk.

Before: pad-matmul{choose=all}
    builtin.module attributes {fxc.target = #target.gpu} {
      func.func @main(%x: tensor<3x6xf32, #torch.meta<device = "cuda:0">>,
                      %y: tensor<6x4xf32, #torch.meta<device = "cuda:0">>) {
        %z = torch.aten.mm.default(%x, %y)
           : (tensor<3x6xf32, #torch.meta<device = "cuda:0">>, tensor<6x4xf32, #torch.meta<device = "cuda:0">>)
          -> tensor<3x4xf32, #torch.meta<device = "cuda:0">>
        fx.output(%z) : (tensor<3x4xf32, #torch.meta<device = "cuda:0">>) -> ()
      }
    }
After:
    builtin.module attributes {fxc.target = #target.gpu} {
      func.func @main(%x: tensor<3x6xf32, #torch.meta<device = "cuda:0">>,
                      %y: tensor<6x4xf32, #torch.meta<device = "cuda:0">>) {
        %0 = torch.aten.constant_pad_nd.default(%x, [0, 2, 0, 0])
           : (tensor<3x6xf32, #torch.meta<device = "cuda:0">>) -> tensor<3x8xf32, #torch.meta<device = "cuda:0">>
        %1 = torch.aten.constant_pad_nd.default(%y, [0, 0, 0, 2])
           : (tensor<6x4xf32, #torch.meta<device = "cuda:0">>) -> tensor<8x4xf32, #torch.meta<device = "cuda:0">>
        %z = torch.aten.mm.default(%0, %1)
           : (tensor<3x8xf32, #torch.meta<device = "cuda:0">>, tensor<8x4xf32, #torch.meta<device = "cuda:0">>)
          -> tensor<3x4xf32, #torch.meta<device = "cuda:0">>
        fx.output(%z) : (tensor<3x4xf32, #torch.meta<device = "cuda:0">>) -> ()
      }
    }
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from fxc.dialects.attributes.types import device, is_tensor, tensor_of
from fxc.dialects.attributes.values import int_attr, isa
from fxc.dialects.context import FxcContext
from fxc.dialects.target import GpuAttr, is_deterministic, target_of
from fxc.dialects.torch_ops.base import TorchOp
from fxc.passes.analysis.matching import dtype
from fxc.passes.analysis.statistics import count
from fxc.passes.library.autotuning import Choices
from fxc.passes.library.packings import Packed
from fxc.passes.operators.table import operator_of
from fxc.passes.rewriting.insertion import insert_call
from fxc.passes.rewriting.matrix_products import static_sizes

ALIGNMENT: Mapping[str, int] = MappingProxyType({"float16": 8, "bfloat16": 8, "float32": 4})
GAIN = 1 / 1.1


@dataclass(frozen=True)
class PadMatmulPass(ModulePass):
    """``choose="measured"`` pads where that was measured to be faster on this GPU, ``"all"`` wherever a size is not aligned."""

    name = "pad-matmul"

    choose: str = "measured"

    def __post_init__(self) -> None:
        if self.choose not in ("measured", "all"):
            raise ValueError(f"choose is one of measured, all, not {self.choose!r}")

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        assert isinstance(ctx, FxcContext)
        if not isinstance(target_of(op), GpuAttr) or is_deterministic(op):
            return
        choices = Choices(ctx, GAIN)
        for product in [inner for inner in op.walk() if isinstance(inner, TorchOp) and _added(inner) is not None]:
            replaced = choices.put([product], [_pad]) if self.choose == "all" else choices.take([product], [_pad])
            count("products padded", replaced)


def _added(op: TorchOp) -> tuple[int, int] | None:
    """How much depth and how many columns the product ``op`` lacks; None if nothing is to be padded."""
    factors = operator_of(op).factors
    if factors is None or factors.is_turned:
        return None
    left, right, result = op.argument(factors.left), op.argument(factors.right), op.results[0]
    if not isa(left, SSAValue) or not isa(right, SSAValue) or not is_tensor(result.type):
        return None
    shapes = [static_sizes(value.type) for value in (left, right, result)]
    if len({len(shape) for shape in shapes}) != 1 or len(shapes[0]) not in (2, 3) or any(0 in shape for shape in shapes):
        return None
    if shapes[0][:-2] != shapes[1][:-2] or any(device(tensor_of(v)).split(":")[0] != "cuda" for v in (left, right)):
        return None
    align = ALIGNMENT.get(dtype(result.type) or "")
    if align is None or any(dtype(value.type) != dtype(result.type) for value in (left, right)):
        return None
    depth, columns = (0 if size == 1 else -size % align for size in shapes[1][-2:])
    return (depth, columns) if depth or columns else None


def _pad(ctx: FxcContext, op: TorchOp) -> Packed | None:
    """The padded product; its result is sliced to the original columns."""
    factors, added = operator_of(op).factors, _added(op)
    if factors is None or added is None:
        return None
    depth, columns = added
    bound, shape = op.bound(), static_sizes(op.results[0].type)

    def padded(value: SSAValue, last: int, second_last: int) -> SSAValue:
        pad = [int_attr(number) for number in (0, last, 0, second_last)[: 2 * len(static_sizes(value.type))]]
        return insert_call(ctx, "aten.constant_pad_nd.default", [value, pad], op) if last or second_last else value

    bound[factors.left] = padded(bound[factors.left], depth, 0)
    bound[factors.right] = padded(bound[factors.right], columns, depth)
    bias = bound.get(factors.added) if factors.added else None
    if isa(bias, SSAValue) and static_sizes(bias.type)[-1:] == shape[-1:]:
        bound[factors.added] = padded(bias, columns, 0)
    product = insert_call(ctx, op.operator, *op.divide(bound)[:1], op, op.divide(bound)[1])
    if columns:
        ends = [product, int_attr(len(shape) - 1), int_attr(0), int_attr(shape[-1])]
        product = insert_call(ctx, "aten.slice.Tensor", ends, op)
    return Packed(product, op)
