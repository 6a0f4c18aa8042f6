"""Fold tensors whose elements all are one number, and arithmetic with those that are neutral.

Assumes  verified IR.
Ensures  calls that compute a contiguous tensor of one known number are ``full``; ``x * 1``, ``x / 1``, ``x + 0`` and
         ``x - 0`` with tensors of ones and zeros are x, or x converted where only the dtype differs. Idempotent.
Leaves   sums in which the sign of a zero could change, products with zero (x may be NaN), sums with ``alpha``,
         broadcasts of x, complex and written tensors, symbolic sizes that no operand states, copies that a caller can
         tell from x.
Cost     one walk. PyTorch is loaded only where a number must be computed.

Before:
    func.func @main(%x: tensor<2x3xf16>) {
      %o = torch.aten.ones.default([2, 3]) : () -> tensor<2x3xf32>
      %a = torch.aten.mul.Tensor(%o, 2) : (tensor<2x3xf32>) -> tensor<2x3xf32>
      %b = torch.aten.sub.Tensor(%a, %o) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
      %y = torch.aten.mul.Tensor(%x, %b) : (tensor<2x3xf16>, tensor<2x3xf32>) -> tensor<2x3xf32>
      %z = torch.aten.pow.Tensor_Tensor(%y, %a) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
      fx.output(%z) : (tensor<2x3xf32>) -> ()
    }
After:
    func.func @main(%x: tensor<2x3xf16>) {
      %a = torch.aten.full.default([2, 3], 2.0, dtype = torch.float32) : () -> tensor<2x3xf32>
      %y = torch.aten._to_copy.default(%x, dtype = torch.float32) : (tensor<2x3xf16>) -> tensor<2x3xf32>
      %z = torch.aten.pow.Tensor_Tensor(%y, %a) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
      fx.output(%z) : (tensor<2x3xf32>) -> ()
    }
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, SSAValue
from xdsl.passes import ModulePass

from fxc.dialects.attributes.types import device, dtype_name, is_tensor, sizes, strides, tensor_type
from fxc.dialects.attributes.values import dtype_attr
from fxc.dialects.context import FxcContext
from fxc.dialects.torch_ops.base import TorchOp
from fxc.dialects.torch_ops.operators import torch_op
from fxc.passes.analysis.matching import is_floating, is_integral, number
from fxc.passes.analysis.memory import scopes
from fxc.passes.rewriting.patterns import Pattern, PatternRewriter, dispatch_table
from fxc.passes.simplify.fold_uniform_values.uniform_values import CONVERT, UniformValues


@dataclass(frozen=True)
class FoldUniformValuesPass(ModulePass):
    name = "fold-uniform-values"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        assert isinstance(ctx, FxcContext)
        for scope in scopes(op):
            numbers = dict[SSAValue, Attribute]()
            rewriter = PatternRewriter(scope, dispatch_table([NeutralTensor(numbers)]))
            uniform = UniformValues(ctx, rewriter, numbers)
            uniform.visit(scope)
            uniform.fold()
            if numbers:
                rewriter.run()


class NeutralTensor(Pattern):
    """x * ones -> x, x / ones -> x, x - zeros -> x, x + -zeros -> x; zeros of any sign where x is an integer"""

    ROOTS = ("aten.add.Tensor", "aten.sub.Tensor", "aten.mul.Tensor", "aten.div.Tensor")

    def __init__(self, numbers: Mapping[SSAValue, Attribute]) -> None:
        self.numbers = numbers

    def rewrite(self, op: TorchOp, rewriter: PatternRewriter) -> None:
        alpha = op.argument("alpha")
        if len(op.operands) != 2 or (alpha is not None and number(alpha) != 1):
            return
        commutes = op.operator in ("aten.add.Tensor", "aten.mul.Tensor")
        for value, other in list(zip(op.operands, reversed(op.operands), strict=True))[: 1 + commutes]:
            known = number(self.numbers.get(other))
            if known is not None and _is_neutral(known, op, value.type):
                _forward_or_convert(op, value, rewriter)
                return


def _is_neutral(known: float, op: TorchOp, type: Attribute) -> bool:
    """Whether ``op`` of a number of ``type`` and ``known`` is that number, for each number."""
    if not is_integral(type) and not is_floating(type):
        return False
    if op.operator in ("aten.mul.Tensor", "aten.div.Tensor"):
        return known == 1
    is_negative = math.copysign(1.0, known) < 0
    return known == 0 and (is_integral(type) or is_negative == (op.operator == "aten.add.Tensor"))


def _forward_or_convert(op: TorchOp, value: SSAValue, rewriter: PatternRewriter) -> None:
    """Replace ``op`` by ``value``, or by its conversion if only the dtype of the result differs."""
    old, new = value.type, op.results[0].type
    if not is_tensor(old) or not is_tensor(new) or "" in sizes(old):
        return
    if old == new:
        rewriter.forward(op, value)
    elif strides(old) is None and old == tensor_type(dtype_name(old.element_type), sizes(new), strides(new), device(new)):
        given = {"dtype": dtype_attr(dtype_name(new.element_type))}
        rewriter.replace(op, torch_op(CONVERT).build_call([value], given, [new], location=op.location))
