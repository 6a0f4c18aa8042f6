"""Fold sums and products with constants into the weights of the convolution or linear before them.

Assumes  inference; factors of the model are finite and not extreme; ``freeze-parameters`` follows, else weights are
         computed in every call.
Ensures  a sum, difference, product or quotient of such a result, if it has no other use, and a number or a tensor of
         the model with one number per channel, is the convolution or ``linear`` with another weight and bias.
Leaves   other shapes, such as a row along the width of images; ``alpha``; weights with other uses; transposed
         convolutions; dtypes other than float32 and float64; quotients by tensors, which may hold zeros; numbers
         beyond 1e20 or below 1e-20.
Cost     one walk.

Before:
    func.func @main(%x: tensor<1x2x4xf64>, %w: tensor<3x2x1xf64> {fx.kind = "parameter", fx.name = "w"},
                    %k: tensor<3x1xf64> {fx.kind = "parameter", fx.name = "k"}) {
      %c = torch.aten.conv1d.default(%x, %w) : (tensor<1x2x4xf64>, tensor<3x2x1xf64>) -> tensor<1x3x4xf64>
      %a = torch.aten.add.Tensor(%c, %k) : (tensor<1x3x4xf64>, tensor<3x1xf64>) -> tensor<1x3x4xf64>
      %y = torch.aten.mul.Tensor(%a, 2.0) : (tensor<1x3x4xf64>) -> tensor<1x3x4xf64>
      fx.output(%y) : (tensor<1x3x4xf64>) -> ()
    }
After:
    func.func @main(%x: tensor<1x2x4xf64>, %w: tensor<3x2x1xf64> {fx.kind = "parameter", fx.name = "w"},
                    %k: tensor<3x1xf64> {fx.kind = "parameter", fx.name = "k"}) {
      %0 = torch.aten.view.default(%k, [3]) : (tensor<3x1xf64>) -> tensor<3xf64>
      %1 = torch.aten.mul.Tensor(%w, 2.0) : (tensor<3x2x1xf64>) -> tensor<3x2x1xf64>
      %2 = torch.aten.mul.Tensor(%0, 2.0) : (tensor<3xf64>) -> tensor<3xf64>
      %y = torch.aten.conv1d.default(%x, %1, %2) : (tensor<1x2x4xf64>, tensor<3x2x1xf64>, tensor<3xf64>) -> tensor<1x3x4xf64>
      fx.output(%y) : (tensor<1x3x4xf64>) -> ()
    }
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from fxc.dialects.attributes.types import tensor_of
from fxc.dialects.attributes.values import Tree, int_attr, isa
from fxc.dialects.context import FxcContext
from fxc.dialects.torch_ops.base import TorchOp
from fxc.passes.analysis.constants import readable_entry, unchanging_ops
from fxc.passes.analysis.matching import number
from fxc.passes.analysis.statistics import count
from fxc.passes.library.affine_folds import AffineFold, foldable_product, is_foldable
from fxc.passes.operators.record import Role
from fxc.passes.operators.table import role_of
from fxc.passes.rewriting.matrix_products import only_user, static_sizes

_SUMS, _PRODUCTS = ("aten.add.Tensor", "aten.sub.Tensor"), ("aten.mul.Tensor", "aten.div.Tensor")
_LARGEST = 1e20


@dataclass(frozen=True)
class FoldAffinePass(ModulePass):
    name = "fold-affine"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        assert isinstance(ctx, FxcContext)
        entry = readable_entry(op)
        if entry is None:
            return
        made, own = unchanging_ops(entry)
        own_ops = set(made)
        for last in list(entry.body.block.ops):
            if not isinstance(last, TorchOp) or last.operator not in (*_SUMS, *_PRODUCTS) or last in own_ops:
                continue
            bound, commutes = last.bound(), last.operator in ("aten.add.Tensor", "aten.mul.Tensor")
            sides = [(bound["self"], bound["other"]), (bound["other"], bound["self"])]
            if any(_fold(ctx, last, value, other, own) for value, other in sides[: 1 + commutes]):
                count("operations folded")


def _fold(ctx: FxcContext, last: TorchOp, value: Tree, other: Tree, own: set[SSAValue]) -> bool:
    """Fold ``last``, which combines the product ``value`` with the constant ``other``; returns whether that is possible."""
    product, alpha = foldable_product(value, last, own), last.argument("alpha")
    if product is None or product.results[0].type != last.results[0].type or (alpha is not None and number(alpha) != 1):
        return False
    weight = product.argument("weight")
    if not isa(weight, SSAValue) or only_user(weight) is not product or not is_foldable([other], product, own):
        return False
    is_sum, has_bias = last.operator in _SUMS, isa(product.argument("bias"), SSAValue)
    fold = AffineFold(ctx, product, last, own)
    if isa(other, SSAValue):
        rank = len(static_sizes(weight.type))
        shape = _per_channel(other, rank - 1 if role_of(product) is Role.CONVOLUTION else 1, weight)
        if shape is None or last.operator == "aten.div.Tensor" or (is_sum and not shape and not has_bias):
            return False
        if static_sizes(other.type) != shape:
            other = fold.insert("aten.view.default", other, [int_attr(size) for size in shape])
    elif (is_sum and not has_bias) or not 1 / _LARGEST < abs(number(other) or 0) < _LARGEST:
        return False  # a weight could be infinite where the result is not
    (fold.add if is_sum else fold.multiply)(other, last.operator)
    fold.replace()
    return True


def _per_channel(other: SSAValue, place: int, weight: SSAValue) -> tuple[int, ...] | None:
    """The shape [channels] or [] to which ``other`` can be viewed; None if it varies along another dimension.

    ``place``: the dimension of the channels, counted from the last one, which is 1.
    """
    sizes, channels = tensor_of(other).get_shape(), static_sizes(weight.type)[:1]
    rest = [size for number, size in enumerate(reversed(sizes), 1) if number != place]
    if not channels or any(size != 1 for size in rest):
        return None
    if len(sizes) < place or sizes[-place] == 1 != channels[0]:
        return ()
    return channels if sizes[-place] == channels[0] else None
