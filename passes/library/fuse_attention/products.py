"""Batched products of matrices, in every form that a model writes: operands with the order of their dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import SSAValue

from fxc.dialects.attributes.types import Dim, dims_of
from fxc.dialects.attributes.values import int_attr
from fxc.dialects.context import FxcContext
from fxc.dialects.torch_ops.base import TorchOp
from fxc.passes.analysis.matching import PERMUTES, number, permutation, producer
from fxc.passes.operators.table import operator_of
from fxc.passes.rewriting.insertion import insert_call

_EINSUM, _ADDED = "aten.einsum.default", "aten.baddbmm.default"


@dataclass(frozen=True)
class Ordered:
    """``value`` with its dimensions in another order."""

    value: SSAValue
    order: tuple[int, ...]

    @property
    def sizes(self) -> tuple[Dim, ...]:
        found = dims_of(self.value)
        return tuple(found[i] for i in self.order)

    @property
    def is_plain(self) -> bool:
        return self.order == tuple(range(len(self.order)))

    def swapped(self) -> Ordered:
        """The transposed matrices."""
        return Ordered(self.value, (*self.order[:-2], self.order[-1], self.order[-2]))

    def behind_permutes(self) -> Ordered:
        """The same dimensions of the value that is permuted to ``value``."""
        found = self
        while (op := producer(found.value, PERMUTES)) is not None and (inner := permutation(op)) is not None:
            found = Ordered(op.operands[0], tuple(inner[i] for i in found.order))
        return found

    def insert(self, ctx: FxcContext, before: TorchOp) -> SSAValue:
        """The reordered value, computed before ``before``."""
        if self.is_plain:
            return self.value
        return insert_call(ctx, "aten.permute.default", [self.value, [int_attr(i) for i in self.order]], before)


@dataclass(frozen=True)
class Product:
    """``left @ right`` for each index of the leading dimensions, with the dimensions of the result in ``order``.

    ``added`` is a term of the result, and ``factor`` a factor of the product.
    """

    op: TorchOp
    left: Ordered
    right: Ordered
    order: tuple[int, ...]
    factor: float = 1.0
    added: SSAValue | None = None


def product_of(op: TorchOp, left: SSAValue | None = None) -> Product | None:
    """The product that ``op`` computes, with the left factor ``left`` if that is given; None for another operator."""
    if op.operator == _EINSUM:
        return _einsum(op, left)
    bound, factor, added = op.bound(), 1.0, None
    if op.operator == _ADDED:
        if number(bound.get("beta", int_attr(1))) != 1 or (alpha := number(bound.get("alpha", int_attr(1)))) is None:
            return None
        factors, factor, added = (bound["batch1"], bound["batch2"]), float(alpha), bound["self"]
    else:
        record = operator_of(op).factors
        if record is None or not (record.is_stacked or (record.left == "self" and not record.added)):
            return None
        factors = bound[record.left], bound[record.right]
    counts = [len(dims_of(value)) for value in factors]
    if min(counts) < 2 or (left is not None and factors[0] is not left):
        return None
    one, other = (Ordered(value, tuple(range(count))) for value, count in zip(factors, counts, strict=True))
    return Product(op, one, other, tuple(range(max(counts))), factor, added)


def _einsum(op: TorchOp, left: SSAValue | None) -> Product | None:
    """An einsum of two tensors that contracts one label, with one label of each tensor in the result besides the batch."""
    equation, tensors = op.argument("equation"), op.argument("tensors")
    text = equation.data.replace(" ", "") if isinstance(equation, StringAttr) else ""
    if text.count("->") != 1 or text.count(",") != 1 or "." in text or not isinstance(tensors, (list, tuple)):
        return None
    (*labels, result) = text.replace("->", ",").split(",")
    if any(len(set(each)) < len(each) for each in (*labels, result)):
        return None
    a, b = [(each, [x for x in each if x not in other]) for each, other in (labels, labels[::-1])]
    if len(a[1]) != 1 or len(b[1]) != 1 or not {*a[1], *b[1]} <= set(result):
        return None
    values = cast(Sequence[SSAValue], tensors)
    one, other = (*a, values[0]), (*b, values[1])
    is_turned = result.index(b[1][0]) < result.index(a[1][0]) if left is None else values[0] is not left
    if is_turned:
        one, other = other, one
    if left is not None and one[2] is not left:
        return None
    batch = [x for x in result if x in one[0] and x in other[0]]
    summed = [x for x in one[0] if x in other[0] and x not in result]
    if len(summed) != 1:
        return None
    natural = [*batch, *one[1], *other[1]]
    first = Ordered(one[2], tuple(map(one[0].index, (*batch, *one[1], *summed))))
    second = Ordered(other[2], tuple(map(other[0].index, (*batch, *summed, *other[1]))))
    return Product(op, first, second, tuple(map(natural.index, result)))


def static(dims: Sequence[Dim]) -> list[int] | None:
    """``dims`` if all are known."""
    known = [dim for dim in dims if isinstance(dim, int)]
    return known if len(known) == len(dims) else None


def expanded(ctx: FxcContext, value: SSAValue, batch: Sequence[Dim], before: TorchOp) -> SSAValue | None:
    """The matrices of ``value`` for each index of ``batch``; None where a size is symbolic."""
    shape = (*batch, *dims_of(value)[-2:])
    if dims_of(value) == shape:
        return value
    wide = static(shape)
    return None if wide is None else insert_call(ctx, "aten.expand.default", [value, list(map(int_attr, wide))], before)


def regrouped(ctx: FxcContext, value: SSAValue, target: Sequence[Dim], before: TorchOp) -> SSAValue | None:
    """``value`` with the leading sizes ``target``, which count as many matrices; None where a size must be known."""
    batch, target = dims_of(value)[:-2], tuple(target)
    more = len(target) - len(batch)
    if target == (1,) * more + batch or batch == (1,) * -more + target:
        for _ in range(abs(more)):
            name = "aten.unsqueeze.default" if more > 0 else "aten.squeeze.dim"
            value = insert_call(ctx, name, [value, int_attr(0)], before)
        return value
    shape = static((*target, *dims_of(value)[-2:]))
    if shape is None or static(batch) is None:
        return None
    return insert_call(ctx, "aten.reshape.default", [value, list(map(int_attr, shape))], before)
