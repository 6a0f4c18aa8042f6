"""Insert the fused operator for an attention that was recognized."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.ir import Attribute, SSAValue
from xdsl.rewriter import Rewriter

from fxc.dialects.attributes.types import Dim, dims_of, is_tensor, strides, tensor_of
from fxc.dialects.attributes.values import bool_attr, enum_attr, float_attr
from fxc.dialects.context import FxcContext
from fxc.dialects.torch_ops.base import TorchOp
from fxc.passes.analysis.matching import RESHAPES, dtype, integer, number, producer
from fxc.passes.library.fuse_attention.masks import Biases, guard
from fxc.passes.library.fuse_attention.products import Ordered, expanded, regrouped, static
from fxc.passes.library.fuse_attention.recognition import SAFE, Attention
from fxc.passes.library.strided_users import types_with_steps
from fxc.passes.rewriting.insertion import insert_call
from fxc.passes.rewriting.patterns import PatternRewriter

SDPA = "aten.scaled_dot_product_attention.default"


class Replacement:
    """Builds the operands, the call and the result. ``reason`` states why that failed."""

    def __init__(self, ctx: FxcContext, found: Attention, biases: Biases, gradients: bool) -> None:
        self.ctx, self.found, self.biases, self.gradients = ctx, found, biases, gradients
        self.op, self.reason = found.output.op, "a size that must be known is symbolic"

    def call(self, operator: str, *args: object, **kwargs: object) -> SSAValue:
        return insert_call(self.ctx, operator, list(args), self.op, kwargs)

    def build(self) -> SSAValue | None:
        found = self.found
        batches = [*found.batches]
        target = next((batch for batch in batches if len(batch) == 2), None) or _two(batches[0])
        if target is None:
            return None
        inner, outer = batches[0], batches[-1]
        heads = [found.key.behind_permutes(), found.value.behind_permutes()]
        grouped = [_ungrouped(each) for each in heads] if inner == outer == target else []
        groups = {count for _, count in grouped}
        shared = len(groups) == 1 and None not in groups
        query = self.operand(found.query.behind_permutes(), inner, target)
        if shared:
            key, value = (self.rows(each.insert(self.ctx, self.op)) for each, _ in grouped)
        else:
            key, value = (self.operand(each, batch, target) for each, batch in zip(heads, (inner, outer), strict=True))
        bias = self.biases.of(found, target, self.op)
        if query is None or key is None or value is None or bias is None:
            return None
        options: dict[str, Attribute] = {"scale": float_attr(found.scale)}
        if bias.is_causal:
            options["is_causal"] = bool_attr(True)
        if shared:
            options["enable_gqa"] = bool_attr(True)
        made = self.call(SDPA, query, key, value, *([] if bias.value is None else [bias.value]), **options)
        is_safe = found.softmax.operator == SAFE
        if bias.value is not None and self.gradients and bias.may_be_filled:
            if is_safe or shared or any(mask.fill is None for mask in found.masks) or len({m.fill for m in found.masks}) > 1:
                self.reason = "a row may be filled entirely, and its gradients cannot be reproduced"
                return None
            made = guard(self.ctx, self.op, bias, made, value)
        elif bias.value is not None and bias.may_be_empty and not is_safe:
            made = guard(self.ctx, self.op, bias, made, None)
        return self.result(made, outer)

    def operand(self, ordered: Ordered, batch: Sequence[Dim], target: Sequence[Dim]) -> SSAValue | None:
        """The matrices of ``ordered`` for each index of ``batch``, as a tensor with the leading sizes ``target``."""
        value = expanded(self.ctx, ordered.insert(self.ctx, self.op), batch, self.op)
        moved = None if value is None else regrouped(self.ctx, value, target, self.op)
        return None if moved is None else self.rows(moved)

    def rows(self, value: SSAValue) -> SSAValue:
        """``value`` with adjacent elements in its last dimension, which the fused kernel needs."""
        steps = strides(tensor_of(value))
        if steps is None or steps[-1] == 1:
            return value
        return self.call("aten.clone.default", value, memory_format=enum_attr("contiguous_format"))

    def result(self, made: SSAValue, batch: Sequence[Dim]) -> SSAValue | None:
        """``made`` with the leading sizes ``batch``, in the order and with the type of the result that it replaces.

        Strides may differ where users accept them.
        """
        old = self.op.results[0].type
        moved = regrouped(self.ctx, made, batch, self.op)
        if moved is None:
            return None
        made = Ordered(moved, self.found.output.order).insert(self.ctx, self.op)
        assert is_tensor(old)
        if dims_of(made) != dims_of(self.op.results[0]) or dtype(made.type) != dtype(old):
            self.reason = "the fused operator has a result of another type"
            return None
        self.reason = "the strides of the result would change"
        return fitted(self.ctx, made, self.op)


def fitted(ctx: FxcContext, made: SSAValue, op: TorchOp) -> SSAValue | None:
    """``made``, or a copy of it before ``op`` where users of the first result of ``op`` do not accept its strides."""
    old = op.results[0]
    if made.type == old.type or types_with_steps(ctx, {old: made.type}, copies=True) is not None:
        return made
    steps = static(strides(tensor_of(old)) or ())
    if steps is None:
        return None
    order = sorted(range(len(steps)), key=lambda dim: -steps[dim]) if steps else list(range(len(dims_of(made))))
    made = Ordered(made, tuple(order)).insert(ctx, op)
    made = insert_call(ctx, "aten.clone.default", [made], op, {"memory_format": enum_attr("contiguous_format")})
    made = Ordered(made, tuple(map(order.index, range(len(order))))).insert(ctx, op)
    return made if made.type == old.type else None


def put(ctx: FxcContext, made: SSAValue, op: TorchOp) -> None:
    """Let users of the first result of ``op`` use ``made``, and erase what only computed the former one."""
    old = op.results[0]
    types = {} if made.type == old.type else types_with_steps(ctx, {old: made.type}, copies=True) or {}
    made._name = old._name
    old.replace_all_uses_with(made)
    for view, type in types.items():
        if view is not old:
            Rewriter.replace_value_with_new_type(view, type)
    PatternRewriter.erase_unused(op)


def _two(batch: Sequence[Dim]) -> tuple[Dim, ...] | None:
    """Leading sizes ``batch`` as two; None where that needs symbolic arithmetic."""
    if len(batch) <= 2:
        return (*(1,) * (2 - len(batch)), *batch)
    first = static(batch[:-1])
    return None if first is None else (prod(first), batch[-1])


def _ungrouped(heads: Ordered) -> tuple[Ordered, int | None]:
    """The heads of which ``heads`` are repetitions, each one several times in a row, and how many times."""
    repeat = producer(heads.value, ("aten.repeat_interleave.self_int",))
    if repeat is not None:
        times, dim = number(repeat.argument("repeats")), integer(repeat.argument("dim"))
        if isinstance(times, int) and dim is not None and heads.order[1:2] == (dim % 4,) and heads.order[0] == 0:
            return Ordered(repeat.operands[0], heads.order), times
    view = producer(heads.value, (*RESHAPES, "aten.flatten.using_ints"))
    inner = None if view is None else producer(view.operands[0], ("aten.clone.default",))
    wide = None if view is None else producer((inner or view).operands[0], ("aten.expand.default",))
    added = None if wide is None else producer(wide.operands[0], ("aten.unsqueeze.default",))
    if wide is None or added is None or heads.order[:2] != (0, 1):
        return heads, None
    (batch, count, *rest), shape = dims_of(added.operands[0]) or ("", "", ""), dims_of(wide.results[0])
    whole, times = dims_of(heads.value), shape[2] if len(shape) == 5 else None
    if integer(added.argument("dim")) not in (2, -3) or not isinstance(count, int) or not isinstance(times, int):
        return heads, None
    if shape != (batch, count, times, *rest) or whole != (batch, count * times, *rest) or "" in shape:
        return heads, None
    return Ordered(added.operands[0], heads.order), times
