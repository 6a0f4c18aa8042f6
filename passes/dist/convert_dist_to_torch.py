"""Convert collectives of the dialect ``dist`` to calls of PyTorch's functional collectives.

Assumes  verified IR.
Ensures  no collective and no wait of ``dist`` is left: each is a call that names the process group of this rank.
         Kernels and host programs know such calls. Idempotent.
Leaves   meshes, groups and layouts.
Cost     one walk.

Before:
    dist.group @dp "0" ranks [0, 1]
    func.func @main(%x: tensor<4xf32>) -> tensor<8xf32> {
      %r = dist.all_gather over @dp (%x) : (tensor<4xf32>) -> tensor<8xf32>
      %y = dist.wait %r : tensor<8xf32>
      fx.output(%y) : (tensor<8xf32>) -> ()
    }
After:
    dist.group @dp "0" ranks [0, 1]
    func.func @main(%x: tensor<4xf32>) -> tensor<8xf32> {
      %r = torch._c10d_functional.all_gather_into_tensor.default(%x, 2, "0") : (tensor<4xf32>) -> tensor<8xf32>
      %y = torch._c10d_functional.wait_tensor.default(%r) : (tensor<8xf32>) -> tensor<8xf32>
      fx.output(%y) : (tensor<8xf32>) -> ()
    }
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from fxc.dialects.dist import CollectiveOp, WaitOp
from fxc.dialects.text.syntax import copy_names
from fxc.dialects.torch_ops.operators import torch_op


@dataclass(frozen=True)
class ConvertDistToTorchPass(ModulePass):
    name = "convert-dist-to-torch"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for each in reversed(list(op.walk())):  # a wait before its start: the start checks its users
            if isinstance(each, (CollectiveOp, WaitOp)):
                operator, args = each.operator_call()
                more = {"attributes": each.attributes, "location": each.location}
                made = torch_op(operator).build_call(args, {}, each.result_types, **more)
                copy_names(each.results, made.results)
                Rewriter.replace_op(each, made)
