"""Matrix products, convolutions and matrix operators, which are library calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from fxc.dialects.context import FxcContext
from fxc.dialects.torch_ops.base import TorchOp
from fxc.passes.operators.bias import split_addmm
from fxc.passes.operators.record import Factors, Operator, Parts, Role, When, each
from fxc.passes.operators.row_products import split_row_product
from fxc.passes.operators.stacked_products import split_stacked_product

_OTHERS = (
    "mm.out mm.dtype mm.dtype_out bmm.out bmm.dtype bmm.dtype_out addmm.out addmm.dtype addmm.dtype_out "
    "baddbmm.default baddbmm.out baddbmm.dtype baddbmm.dtype_out matmul.out linear.out mv.default mv.out "
    "addmv.default addmv.out dot.default dot.out _convolution.default _convolution.deprecated _convolution.out convolution.out "
    "cudnn_convolution.default cudnn_convolution.out miopen_convolution.default miopen_convolution.out "
    "conv_transpose1d.default conv_transpose2d.input conv_transpose3d.input"
)


def _split_matmul(ctx: FxcContext, op: TorchOp) -> Sequence[TorchOp]:
    return split_stacked_product(ctx, op) or split_row_product(ctx, op)


RECORDS: Mapping[str, Operator] = MappingProxyType(
    {
        **each(
            "mm.default", role=Role.CONTRACTION, factors=Factors("self", "mat2"), parts=Parts(When.KERNELS, split_row_product)
        ),
        **each(
            "addmm.default",
            role=Role.CONTRACTION,
            factors=Factors("mat1", "mat2", "self"),
            parts=Parts(When.ALWAYS, split_addmm),
        ),
        **each(
            "linear.default",
            role=Role.CONTRACTION,
            factors=Factors("input", "weight", "bias", is_turned=True),
            parts=Parts(When.ALWAYS),
        ),
        **each("bmm.default", role=Role.CONTRACTION, factors=Factors("self", "mat2", is_stacked=True)),
        **each(
            "matmul.default",
            role=Role.CONTRACTION,
            factors=Factors("self", "other", is_stacked=True),
            parts=Parts(When.KERNELS, _split_matmul),
        ),
        **each(_OTHERS, role=Role.CONTRACTION),
        **each("conv1d.default conv2d.default conv3d.default convolution.default", role=Role.CONVOLUTION),
        **each("conv1d.padding conv2d.padding conv3d.padding", role=Role.CONVOLUTION),
    }
)
"""Operator -> its record."""
