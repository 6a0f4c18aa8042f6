"""Fold a batch norm into the weights of the convolution before it.

Assumes  unpacked results (``lower-simple-tuples``); inference; ``freeze-parameters`` follows, else weights are computed
         in every call.
Ensures  no batch norm with given statistics follows a convolution without other uses, if weights and statistics are
         parameters or buffers of the model, in float32 or float64.
Leaves   batch norms in training mode, without statistics, of other dtypes (weights would be rounded twice), or whose
         saved statistics are read; transposed convolutions.
Cost     one walk.

Before:
    func.func @main(
      %x: tensor<1x2x4xf64>, %w: tensor<3x2x1xf64> {fx.kind = "parameter", fx.name = "w"},
      %m: tensor<3xf64> {fx.kind = "buffer", fx.name = "m"}, %v: tensor<3xf64> {fx.kind = "buffer", fx.name = "v"}
    ) {
      %c = torch.aten.conv1d.default(%x, %w) : (tensor<1x2x4xf64>, tensor<3x2x1xf64>) -> tensor<1x3x4xf64>
      %y, %a, %b = torch.aten._native_batch_norm_legit_no_training.default(%c, none, none, %m, %v, 0.1, 1.0e-05)
        : (tensor<1x3x4xf64>, tensor<3xf64>, tensor<3xf64>) -> (tensor<1x3x4xf64>, tensor<0xf64>, tensor<0xf64>)
      fx.output(%y) : (tensor<1x3x4xf64>) -> ()
    }
After:
    func.func @main(
      %x: tensor<1x2x4xf64>, %w: tensor<3x2x1xf64> {fx.kind = "parameter", fx.name = "w"},
      %m: tensor<3xf64> {fx.kind = "buffer", fx.name = "m"}, %v: tensor<3xf64> {fx.kind = "buffer", fx.name = "v"}
    ) {
      %0 = torch.aten.add.Scalar(%v, 1.0e-05) : (tensor<3xf64>) -> tensor<3xf64>
      %1 = torch.aten.rsqrt.default(%0) : (tensor<3xf64>) -> tensor<3xf64>
      %2 = torch.aten.neg.default(%m) : (tensor<3xf64>) -> tensor<3xf64>
      %3 = torch.aten.view.default(%1, [3, 1, 1]) : (tensor<3xf64>) -> tensor<3x1x1xf64>
      %4 = torch.aten.mul.Tensor(%w, %3) : (tensor<3x2x1xf64>, tensor<3x1x1xf64>) -> tensor<3x2x1xf64>
      %5 = torch.aten.mul.Tensor(%2, %1) : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xf64>
      %y = torch.aten.conv1d.default(%x, %4, %5) : (tensor<1x2x4xf64>, tensor<3x2x1xf64>, tensor<3xf64>) -> tensor<1x3x4xf64>
      fx.output(%y) : (tensor<1x3x4xf64>) -> ()
    }
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from fxc.dialects.attributes.values import bool_attr, isa
from fxc.dialects.context import FxcContext
from fxc.dialects.torch_ops.base import TorchOp
from fxc.passes.analysis.constants import readable_entry, unchanging_ops
from fxc.passes.analysis.statistics import count
from fxc.passes.library.affine_folds import AffineFold, foldable_product, is_foldable
from fxc.passes.operators.record import Role
from fxc.passes.operators.table import role_of


@dataclass(frozen=True)
class FoldBatchNormPass(ModulePass):
    """``(conv(x, w) + b - mean) / sqrt(var + eps) * scale + shift`` is ``conv(x, w * s) + ((b - mean) * s + shift)`` with
    ``s = scale / sqrt(var + eps)``. (Jacob et al., Quantization and Training of Neural Networks, 2018, section 3.2.)
    """

    name = "fold-batch-norm"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        assert isinstance(ctx, FxcContext)
        entry = readable_entry(op)
        if entry is None:
            return
        _, own = unchanging_ops(entry)
        for norm in list(entry.body.block.ops):
            if isinstance(norm, TorchOp) and (convolution := _convolution_before(norm, own)) is not None:
                _fold(AffineFold(ctx, convolution, norm, own), norm)
                count("batch norms folded")


def _convolution_before(norm: TorchOp, own: set[SSAValue]) -> TorchOp | None:
    """The convolution before ``norm`` into which it can be folded; None if there is none."""
    if role_of(norm) is not Role.BATCH_NORM or any(result.uses for result in norm.results[1:]) or norm.is_packed:
        return None
    given = norm.bound()
    convolution = foldable_product(given["input"], norm, own)
    if convolution is None or role_of(convolution) is not Role.CONVOLUTION:
        return None
    if given.get("training", bool_attr(False)) != bool_attr(False):
        return None
    statistics = [given["running_mean"], given["running_var"]]
    fits = all(isa(value, SSAValue) for value in statistics)
    return convolution if fits and is_foldable([*statistics, given["weight"], given["bias"]], convolution, own) else None


def _fold(fold: AffineFold, norm: TorchOp) -> None:
    given = norm.bound()
    factor = fold.insert("aten.rsqrt.default", fold.insert("aten.add.Scalar", given["running_var"], given["eps"]))
    if isinstance(given["weight"], SSAValue):
        factor = fold.insert("aten.mul.Tensor", factor, given["weight"])
    fold.add(given["running_mean"], "aten.sub.Tensor")
    fold.multiply(factor)
    if isinstance(given["bias"], SSAValue):
        fold.add(given["bias"])
    fold.replace()
