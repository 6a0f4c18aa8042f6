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
      %2 = torch.aten.view.default(%1, [3, 1, 1]) : (tensor<3xf64>) -> tensor<3x1x1xf64>
      %3 = torch.aten.mul.Tensor(%w, %2) : (tensor<3x2x1xf64>, tensor<3x1x1xf64>) -> tensor<3x2x1xf64>
      %4 = torch.aten.neg.default(%m) : (tensor<3xf64>) -> tensor<3xf64>
      %5 = torch.aten.mul.Tensor(%4, %1) : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xf64>
      %y = torch.aten.conv1d.default(%x, %3, %5) : (tensor<1x2x4xf64>, tensor<3x2x1xf64>, tensor<3xf64>) -> tensor<1x3x4xf64>
      fx.output(%y) : (tensor<1x3x4xf64>) -> ()
    }
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import Float32Type, Float64Type, ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from fxc.dialects.attributes.types import is_tensor
from fxc.dialects.attributes.values import Tree, bool_attr, int_attr, isa
from fxc.dialects.context import FxcContext
from fxc.dialects.torch_ops.base import TorchOp
from fxc.passes.analysis.constants import readable_entry, unchanging_ops
from fxc.passes.analysis.statistics import count
from fxc.passes.operators.record import Role
from fxc.passes.operators.table import role_of
from fxc.passes.rewriting.insertion import insert_call
from fxc.passes.rewriting.matrix_products import only_user


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
                _fold(ctx, convolution, norm)
                count("batch norms folded")


def _convolution_before(norm: TorchOp, own: set[SSAValue]) -> TorchOp | None:
    """The convolution before ``norm`` into which it can be folded; None if there is none."""
    if role_of(norm) is not Role.BATCH_NORM or any(result.uses for result in norm.results[1:]) or norm.is_packed:
        return None
    given = norm.bound()
    source, training = given["input"], given.get("training", bool_attr(False))
    convolution = source.owner if isinstance(source, SSAValue) else None
    if not isinstance(convolution, TorchOp) or role_of(convolution) is not Role.CONVOLUTION or training != bool_attr(False):
        return None
    passed = convolution.bound()
    if passed.get("transposed", bool_attr(False)) != bool_attr(False) or only_user(convolution.results[0]) is not norm:
        return None
    needed = [passed["weight"], given["running_mean"], given["running_var"]]
    optional = [value for value in (passed.get("bias"), given["weight"], given["bias"]) if isa(value, SSAValue)]
    fits = all(isa(value, SSAValue) and value in own and _is_precise(value) for value in (*needed, *optional))
    return convolution if fits and len({_element(value) for value in (*needed, *optional)}) == 1 else None


def _element(value: Tree) -> object:
    return value.type.element_type if isa(value, SSAValue) and is_tensor(value.type) else None


def _is_precise(value: Tree) -> bool:
    return isinstance(_element(value), (Float32Type, Float64Type))


def _fold(ctx: FxcContext, convolution: TorchOp, norm: TorchOp) -> None:
    passed, given = convolution.bound(), norm.bound()

    def insert(operator: str, *args: Tree) -> SSAValue:
        return insert_call(ctx, operator, args, convolution)

    weight, scale, shift, bias = passed["weight"], given["weight"], given["bias"], passed.get("bias")
    assert isa(weight, SSAValue) and is_tensor(weight.type)
    factor = insert("aten.rsqrt.default", insert("aten.add.Scalar", given["running_var"], given["eps"]))
    if isinstance(scale, SSAValue):
        factor = insert("aten.mul.Tensor", factor, scale)
    sizes = [int_attr(size if i == 0 else 1) for i, size in enumerate(weight.type.get_shape())]
    passed["weight"] = insert("aten.mul.Tensor", weight, insert("aten.view.default", factor, sizes))
    mean = given["running_mean"]
    centre = insert("aten.sub.Tensor", bias, mean) if isinstance(bias, SSAValue) else insert("aten.neg.default", mean)
    passed["bias"] = insert("aten.mul.Tensor", centre, factor)
    if isinstance(shift, SSAValue):
        passed["bias"] = insert("aten.add.Tensor", passed["bias"], shift)
    folded = convolution.rebuilt(passed)
    folded.results[0]._name = norm.results[0]._name
    Rewriter.insert_op(folded, InsertPoint.before(convolution))
    norm.results[0].replace_all_uses_with(folded.results[0])
    Rewriter.erase_op(norm)
    Rewriter.erase_op(convolution)
