"""Annotate operations with their estimated costs.

Assumes  the torch level, with groups or without. ``fxc.target`` is the machine; without it, each operation runs on the
         first preset for its device.
Ensures  each operator call, call and group has ``cost.flops``, ``cost.bytes`` (read and written) and ``cost.time_us``,
         the time that it takes alone; each function has their sums. Symbolic sizes have their hints. Idempotent.
Leaves   everything else; constants, and operations that a body is left with.
Cost     one walk.

Before:
    func.func @main(%x: tensor<128x64xf32>, %w: tensor<64x32xf32>) -> tensor<128x32xf32> {
      %0 = torch.aten.mm.default(%x, %w) : (tensor<128x64xf32>, tensor<64x32xf32>) -> tensor<128x32xf32>
      %1 = torch.aten.relu.default(%0) : (tensor<128x32xf32>) -> tensor<128x32xf32>
      func.return %1 : tensor<128x32xf32>
    }
After:
    func.func @main(%x: tensor<128x64xf32>, %w: tensor<64x32xf32>) -> tensor<128x32xf32> attributes {
      cost.flops = 528384 : i64, cost.bytes = 90112 : i64, cost.time_us = 22.199 : f64
    } {
      %0 = torch.aten.mm.default(%x, %w) {
        cost.flops = 524288 : i64, cost.bytes = 57344 : i64, cost.time_us = 14.923 : f64
      } : (tensor<128x64xf32>, tensor<64x32xf32>) -> tensor<128x32xf32>
      %1 = torch.aten.relu.default(%0) {
        cost.flops = 4096 : i64, cost.bytes = 32768 : i64, cost.time_us = 7.277 : f64
      } : (tensor<128x32xf32>) -> tensor<128x32xf32>
      func.return %1 : tensor<128x32xf32>
    }
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import CallOp, FuncOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from fxc.dialects.attributes.values import float_attr, int_attr
from fxc.dialects.base.effects import inner_operations
from fxc.dialects.fusion import GroupOp
from fxc.dialects.torch_ops.base import TorchOp
from fxc.dialects.torch_ops.operators import HigherOrderOp
from fxc.passes.operators.costs import Cost, Costs

FLOPS, BYTES, TIME = "cost.flops", "cost.bytes", "cost.time_us"


@dataclass(frozen=True)
class AnnotateCostsPass(ModulePass):
    name = "annotate-costs"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        costs = Costs(op)
        for inner in op.walk():
            if isinstance(inner, (TorchOp, HigherOrderOp, GroupOp, CallOp)):
                _annotate(inner, costs.of(inner))
            elif isinstance(inner, FuncOp):
                _annotate(inner, costs.total(inner_operations(inner)))


def _annotate(op: Operation, cost: Cost) -> None:
    op.attributes |= {FLOPS: int_attr(cost.flops), BYTES: int_attr(cost.bytes), TIME: float_attr(round(cost.time, 3))}
