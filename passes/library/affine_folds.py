"""Folding sums and products with one number per channel into the weight and the bias of the product before them."""

from __future__ import annotations

from collections.abc import Set

from xdsl.dialects.builtin import Float32Type, Float64Type
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from fxc.dialects.attributes.types import is_tensor
from fxc.dialects.attributes.values import Tree, bool_attr, int_attr, isa
from fxc.dialects.context import FxcContext
from fxc.dialects.torch_ops.base import TorchOp
from fxc.passes.operators.record import Role
from fxc.passes.operators.table import operator_of
from fxc.passes.rewriting.insertion import insert_call
from fxc.passes.rewriting.matrix_products import only_user


class AffineFold:
    """A convolution or a ``linear``, and the weight and bias with which it computes ``last``, its only user.

    ``own``: the values of the model, to which new weights are added. Each change is a vector with one number per channel, or a
    tensor or number for all channels.
    """

    def __init__(self, ctx: FxcContext, product: TorchOp, last: TorchOp, own: set[SSAValue]) -> None:
        self._ctx, self._product, self._last, self._own = ctx, product, last, own
        self._arguments = product.bound()

    def insert(self, operator: str, *args: Tree) -> SSAValue:
        made = insert_call(self._ctx, operator, args, self._last)
        self._own.add(made)
        return made

    def add(self, shift: Tree, operator: str = "aten.add.Tensor") -> None:
        bias = self._arguments.get("bias")
        if isinstance(bias, SSAValue):
            self._arguments["bias"] = self.insert(operator, bias, shift)
        else:
            self._arguments["bias"] = self.insert("aten.neg.default", shift) if "sub" in operator else shift

    def multiply(self, factor: Tree, operator: str = "aten.mul.Tensor") -> None:
        weight, bias, column = self._arguments["weight"], self._arguments.get("bias"), factor
        if isa(factor, SSAValue) and is_tensor(factor.type) and factor.type.get_shape():
            sizes = [int_attr(size if i == 0 else 1) for i, size in enumerate(weight.type.get_shape())]
            column = self.insert("aten.view.default", factor, sizes)
        self._arguments["weight"] = self.insert(operator, weight, column)
        if isinstance(bias, SSAValue):
            self._arguments["bias"] = self.insert(operator, bias, factor)

    def replace(self) -> None:
        """Replace ``last`` by the product with the new weight and bias."""
        folded = self._product.rebuilt(self._arguments)
        folded.results[0]._name = self._last.results[0]._name
        Rewriter.insert_op(folded, InsertPoint.before(self._last))
        self._last.results[0].replace_all_uses_with(folded.results[0])
        Rewriter.erase_op(self._last)
        Rewriter.erase_op(self._product)


def foldable_product(value: Tree, user: Operation, own: Set[SSAValue]) -> TorchOp | None:
    """The product that computes ``value`` for ``user`` only, with weight and bias in ``own``, so that they can be changed.

    A convolution that is not transposed, or a ``linear``, in float32 or float64: in half precision, weights would be rounded
    twice.
    """
    product = value.owner if isinstance(value, SSAValue) else None
    if not isinstance(product, TorchOp) or only_user(product.results[0]) is not user or product.parent is not user.parent:
        return None
    record, passed = operator_of(product), product.bound()
    if record.role is not Role.CONVOLUTION and (record.factors is None or record.factors.right != "weight"):
        return None
    if passed.get("transposed", bool_attr(False)) != bool_attr(False):
        return None
    return product if is_foldable([passed["weight"], passed.get("bias")], product, own) else None


def is_foldable(values: list[Tree | None], product: TorchOp, own: Set[SSAValue]) -> bool:
    """Whether all of ``values`` that are tensors are in ``own``, and have the dtype of ``product``."""
    tensors = [value for value in values if isa(value, SSAValue)]
    element = _element(product.results[0])
    is_precise = isinstance(element, (Float32Type, Float64Type))
    return is_precise and all(value in own and _element(value) == element for value in tensors)


def _element(value: SSAValue) -> object:
    return value.type.element_type if is_tensor(value.type) else None
