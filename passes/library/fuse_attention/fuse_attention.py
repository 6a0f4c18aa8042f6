"""Compute attention that is written as products and a softmax with PyTorch's fused operator.

Assumes  verified IR without writes, before autograd (``lower-to-torch``); ``gradients=false``: none is needed.
Ensures  ``softmax(scale * q @ k^T + masks) @ v`` on the CPU, with grouped heads too, is
         ``scaled_dot_product_attention``; rows without a key stay NaN, and a mask is never rounded. With
         ``gradients=false`` so is the unfused operator that PyTorch calls where a mask requires a gradient.
Leaves   scores or probabilities with another use, dropout that samples, masks that need a gradient, a fill that is not
         the lowest number beside another mask, 15 keys or maybe less, different widths of keys and values; it assumes
         that masked scores are finite and above the fill.
Cost     one walk; masks that depend on no input are evaluated, up to a million elements.

Before: fuse-attention{gradients=false}
    func.func @main(%q: tensor<2x4x32x8xf32>, %k: tensor<2x4x32x8xf32>, %v: tensor<2x4x32x8xf32>) {
      %t = torch.aten.transpose.int(%k, -2, -1)
         : (tensor<2x4x32x8xf32>) -> tensor<2x4x8x32xf32, #torch.meta<strides = [1024, 256, 1, 8]>>
      %s = torch.aten.matmul.default(%q, %t)
         : (tensor<2x4x32x8xf32>, tensor<2x4x8x32xf32, #torch.meta<strides = [1024, 256, 1, 8]>>) -> tensor<2x4x32x32xf32>
      %d = torch.aten.div.Tensor(%s, 4.0) : (tensor<2x4x32x32xf32>) -> tensor<2x4x32x32xf32>
      %p = torch.aten.softmax.int(%d, -1) : (tensor<2x4x32x32xf32>) -> tensor<2x4x32x32xf32>
      %o = torch.aten.matmul.default(%p, %v)
         : (tensor<2x4x32x32xf32>, tensor<2x4x32x8xf32>) -> tensor<2x4x32x8xf32>
      fx.output(%o) : (tensor<2x4x32x8xf32>) -> ()
    }
After:
    func.func @main(%q: tensor<2x4x32x8xf32>, %k: tensor<2x4x32x8xf32>, %v: tensor<2x4x32x8xf32>) {
      %o = torch.aten.scaled_dot_product_attention.default(%q, %k, %v, scale = 0.25)
         : (tensor<2x4x32x8xf32>, tensor<2x4x32x8xf32>, tensor<2x4x32x8xf32>) -> tensor<2x4x32x8xf32>
      fx.output(%o) : (tensor<2x4x32x8xf32>) -> ()
    }
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from fxc.dialects.autodiff import is_differentiable
from fxc.dialects.context import FxcContext
from fxc.dialects.torch_ops import torch_op
from fxc.dialects.torch_ops.base import TorchOp
from fxc.passes.analysis.memory import writes_anything
from fxc.passes.analysis.requires_grad import REQUIRES_GRAD, requires_grad
from fxc.passes.analysis.statistics import count
from fxc.passes.library.fuse_attention.masks import Biases
from fxc.passes.library.fuse_attention.recognition import SOFTMAXES, ClosedValues, recognize
from fxc.passes.library.fuse_attention.replacement import SDPA, Replacement, fitted, put
from fxc.passes.rewriting.insertion import built_before, insert_call
from fxc.passes.rewriting.remarks import remark


@dataclass(frozen=True)
class FuseAttentionPass(ModulePass):
    """The fused operator has no scores in memory (Dao et al., FlashAttention, 2022)."""

    name = "fuse-attention"

    gradients: bool = True

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        assert isinstance(ctx, FxcContext)
        for function in [inner for inner in op.walk() if isinstance(inner, FuncOp)]:
            calls = [op for op in function.walk() if isinstance(op, TorchOp)]
            for call in [op for op in calls if not self.gradients and _is_unfused(op)]:
                if (made := built_before(call, partial(_fused, ctx, call))) is not None:
                    put(ctx, made, call)
                    count("attentions fused")
            softmaxes = [op for op in calls if op.operator in SOFTMAXES]
            if softmaxes and not writes_anything(function):
                closed = ClosedValues(ctx)
                biases = Biases(ctx, closed)
                for softmax in softmaxes:
                    reason = self._fuse(ctx, softmax, closed, biases)
                    if reason is None:
                        count("attentions fused")
                    else:
                        remark(self.name, reason, softmax)

    def _fuse(self, ctx: FxcContext, softmax: TorchOp, closed: ClosedValues, biases: Biases) -> str | None:
        """Replace the attention around ``softmax``. Returns why not."""
        found = recognize(softmax, closed)
        if isinstance(found, str):
            return found
        if self.gradients and any(_may_need_gradient(mask.value) for mask in found.masks):
            return "the mask may need a gradient"
        replacement = Replacement(ctx, found, biases, self.gradients)
        built = built_before(found.output.op, replacement.build)
        if built is None:
            return replacement.reason
        put(ctx, built, found.output.op)
        return None


def _is_unfused(op: TorchOp) -> bool:
    """Whether ``op`` is PyTorch's unfused attention, of which only the first result is read."""
    is_it = op.operator == "aten._scaled_dot_product_attention_math.default" and not op.is_packed
    return is_it and op.results[1].first_use is None and op.argument("dropout_mask") is None


def _fused(ctx: FxcContext, call: TorchOp) -> SSAValue | None:
    """The result of the fused operator with the operands of ``call``, as its users accept it."""
    args, kwargs = torch_op(SDPA).divide(call.bound())
    return fitted(ctx, insert_call(ctx, SDPA, args, call, kwargs), call)


def _may_need_gradient(value: SSAValue) -> bool:
    """Whether ``value`` depends on a value that requires a gradient, by differentiable values."""
    waiting, seen = [value], set[SSAValue]()
    while waiting:
        each = waiting.pop()
        if each in seen or not is_differentiable(each.type):
            continue
        seen.add(each)
        op = each.owner
        if isinstance(op, Operation) and REQUIRES_GRAD not in op.attributes:
            waiting += op.operands
        elif requires_grad(each):
            return True
    return False
