"""The masks of an attention as one tensor that is added to the scores, and the rows in which it leaves nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from xdsl.ir import SSAValue

from fxc.dialects.attributes.types import Dim, dims_of
from fxc.dialects.attributes.values import bool_attr, dtype_attr, float_attr, int_attr
from fxc.dialects.context import FxcContext
from fxc.dialects.torch_ops.base import TorchOp
from fxc.passes.analysis.matching import dtype
from fxc.passes.library.fuse_attention.products import expanded, regrouped
from fxc.passes.library.fuse_attention.recognition import Attention, ClosedValues, Mask
from fxc.passes.operators.scalars import LARGEST
from fxc.passes.rewriting.insertion import insert_call


@dataclass(frozen=True)
class Bias:
    """What is added to the scores. ``is_causal``: the operator computes it. ``low``: where they are filled.

    ``may_be_empty``: a row may be of -inf only. ``may_be_filled``: a row may be of ``low`` only, or of -inf.
    """

    value: SSAValue | None = None
    is_causal: bool = False
    may_be_empty: bool = False
    may_be_filled: bool = False
    low: float = -math.inf


@dataclass
class Biases:
    """Inserts masks; equal masks of one block are computed once."""

    ctx: FxcContext
    closed: ClosedValues
    _known: dict[tuple[object, ...], Bias] = field(default_factory=dict[tuple[object, ...], Bias])

    def of(self, found: Attention, batch: Sequence[Dim], before: TorchOp) -> Bias | None:
        """The bias of ``found`` for operands with these leading sizes, computed before ``before``; None where there is none."""
        name = "float64" if dtype(found.output.op.results[0].type) == "float64" else "float32"
        key = (before.parent, tuple(batch), name, *(mask.key for mask in found.masks))
        if key not in self._known:
            value: SSAValue | None = None
            for mask in found.masks:
                part = self._shaped(mask, batch, before)
                if part is None:
                    return None
                value = self._joined(value, mask, part, name, before)
            self._known[key] = self._described(found, value)
        return self._known[key]

    def _shaped(self, mask: Mask, batch: Sequence[Dim], before: TorchOp) -> SSAValue | None:
        """The mask with four dimensions that broadcast with scores of the leading sizes ``batch``."""
        value = mask.unexpanded
        while len(dims_of(value)) < 2:
            value = insert_call(self.ctx, "aten.unsqueeze.default", [value, int_attr(0)], before)
        leading = dims_of(value)[:-2]
        if any(size != 1 for size in leading) and (1,) * (len(batch) - len(mask.batch)) + mask.batch != tuple(batch):
            value = expanded(self.ctx, value, mask.batch, before)
            return None if value is None else regrouped(self.ctx, value, batch, before)
        return regrouped(self.ctx, value, ((1,) * len(batch) + leading)[-len(batch) :], before)

    def _joined(self, bias: SSAValue | None, mask: Mask, part: SSAValue, name: str, before: TorchOp) -> SSAValue:
        """``bias`` after the scores with it are filled, or ``part`` is added to them."""

        def call(operator: str, *args: object) -> SSAValue:
            return insert_call(self.ctx, operator, list(args), before)

        if mask.low is None:
            if dtype(part.type) != name:
                part = call("aten.to.dtype", part, dtype_attr(name))
            if bias is None:
                return call("aten.neg.default", part) if mask.is_negated else part
            return call("aten.sub.Tensor" if mask.is_negated else "aten.add.Tensor", bias, part)
        low = float_attr(mask.low)
        if bias is not None:
            scalar = (
                ("aten.where.ScalarOther", part, bias, low) if mask.is_inverted else ("aten.where.ScalarSelf", part, low, bias)
            )
            return call(*scalar)
        choices = (float_attr(0.0), low) if mask.is_inverted else (low, float_attr(0.0))
        made = call("aten.where.Scalar", part, *choices)
        return made if dtype(made.type) == name else call("aten.to.dtype", made, dtype_attr(name))

    def _described(self, found: Attention, value: SSAValue | None) -> Bias:
        if value is None:
            return Bias()
        elements, fills = self.closed.elements(value), {mask.low for mask in found.masks}
        lows = [low for low in fills if low is not None]
        if elements is not None and elements.size:
            rows, columns = elements.shape[-2:]
            if rows == columns and (rows, columns) == (found.query.sizes[-2], found.key.sizes[-2]):
                for low in (-math.inf, -LARGEST["float32"], *lows):
                    if (elements == np.where(np.tri(rows, dtype=bool), 0.0, low)).all():
                        return Bias(is_causal=True)
            is_empty, *filled = (bool((elements == low).all(-1).any()) for low in (-math.inf, *lows))
            return Bias(value, False, is_empty, any(filled) or len(fills) > 1, *lows[:1])
        return Bias(value, False, not fills.isdisjoint((None, -math.inf)), bool(lows), *lows[:1])


def guard(ctx: FxcContext, op: TorchOp, bias: Bias, result: SSAValue, value: SSAValue | None) -> SSAValue:
    """``result`` with NaN in the rows that ``bias`` leaves empty, as a softmax of -inf has; the fused operator has 0 there.

    A mask that is added passes a gradient of NaN to the scores. A fill passes none: with ``value``, rows that are filled
    entirely are the mean of the values, or NaN where they are filled with -inf.
    """

    def call(operator: str, *args: object) -> SSAValue:
        return insert_call(ctx, operator, list(args), op)

    highest = call("aten.amax.default", bias.value, [int_attr(-1)], bool_attr(True))
    factor = call("aten.add.Tensor", call("aten.mul.Tensor", highest, float_attr(0.0)), float_attr(1.0))
    name = dtype(result.type)
    if name is not None and dtype(factor.type) != name:
        factor = call("aten.to.dtype", factor, dtype_attr(name))
    if value is None:
        return call("aten.mul.Tensor", result, factor)
    is_filled = call("aten.le.Scalar", highest, float_attr(bias.low))
    mean = call("aten.mean.dim", value, [int_attr(-2)], bool_attr(True))
    return call("aten.where.self", is_filled, call("aten.mul.Tensor", mean, factor), result)
