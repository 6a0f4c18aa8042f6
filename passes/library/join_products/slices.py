"""One product in place of several of the same rows: their results are slices of its result."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, pairwise

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Block, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.utils.exceptions import VerifyException

from fxc.dialects.attributes.values import Tree, enum_attr, int_attr
from fxc.dialects.base.effects import aliases, is_pure, is_view, may_keep
from fxc.dialects.context import FxcContext
from fxc.dialects.torch_ops.base import TorchOp
from fxc.passes.library.packings import as_linear, is_product
from fxc.passes.rewriting.insertion import insert_call, result_types
from fxc.passes.rewriting.matrix_products import dense_like

CAT, SLICE = "aten.cat.default", "aten.slice.Tensor"

SliceTypes = Mapping[SSAValue, Attribute]
"""Results of products that may be slices, and views of them -> their types then."""


def types_of_slices(ctx: FxcContext, products: Sequence[TorchOp]) -> SliceTypes:
    """Which results may be slices of the result of one product: what reads them reads these as well."""
    results = [op.results[0] for op in products]
    widths = [_sizes(result)[-1] for result in results]
    whole = Block(arg_types=[dense_like(results[0].type, (*_sizes(results[0])[:-1], sum(widths)))]).args[0]
    chosen, found = dict[SSAValue, Attribute](), dict[SSAValue, Attribute]()
    for result, args in zip(results, _slices(whole, widths), strict=True):
        tried = {**chosen, result: result_types(ctx, SLICE, args)[0]}
        if (types := types_with_steps(ctx, tried)) is not None:
            chosen, found = tried, dict(types)
    return found


def _slices(whole: SSAValue, widths: Sequence[int]) -> Iterator[list[Tree]]:
    """The arguments of slices of ``whole`` along its last dimension, one behind the other."""
    for end, width in zip(accumulate(widths), widths, strict=True):
        yield [whole, *map(int_attr, (len(_sizes(whole)) - 1, end - width, end))]


def _sizes(value: SSAValue) -> tuple[int, ...]:
    assert isinstance(value.type, TensorType)
    return value.type.get_shape()


def join(ctx: FxcContext, products: Sequence[TorchOp], types: SliceTypes) -> None:
    """Let slices of one product stand for the results of ``products``; those that are not in ``types`` are copied."""
    last = products[-1]
    for before, op in pairwise(products):
        op.detach()
        Rewriter.insert_op(op, InsertPoint.after(before))
    given = [found for op in products if (found := as_linear(ctx, op)) is not None]
    args: list[Tree] = [given[0][0], insert_call(ctx, CAT, [[weight for _, weight, _ in given]], last)]
    if isinstance(given[0][2], SSAValue):
        args.append(insert_call(ctx, CAT, [[bias for _, _, bias in given]], last))
    whole = insert_call(ctx, "aten.linear.default", args, last)
    results = [op.results[0] for op in products]
    for result, args in zip(results, _slices(whole, [_sizes(result)[-1] for result in results]), strict=True):
        part = insert_call(ctx, SLICE, args, last)
        if result not in types:
            part = insert_call(ctx, "aten.clone.default", [part], last, {"memory_format": enum_attr("contiguous_format")})
        part._name = result._name
        result.replace_all_uses_with(part)
    for view in [value for value in types if value not in results]:
        Rewriter.replace_value_with_new_type(view, types[view])
    for op in products:
        Rewriter.erase_op(op)


# who could read a value that lies in memory with steps, as a part of a larger one does, and would not copy it first


def types_with_steps(ctx: FxcContext, steps: Mapping[SSAValue, Attribute]) -> Mapping[SSAValue, Attribute] | None:
    """The types of values and of their views if they were of the types ``steps``, which differ from theirs in strides.

    None where something reads one of them that copies it, refuses it, gives a result of another type, or is not known: where
    it is returned, say.
    """
    stands = {value: _value_of(type) for value, type in steps.items()}
    waiting, readers = list(steps), list[TorchOp]()
    while waiting:
        read = waiting.pop()
        for op in dict.fromkeys(use.operation for use in read.uses):
            if not isinstance(op, TorchOp) or not _may_read(op, read) or (found := _types(ctx, op, stands)) is None:
                return None
            if all(source is not read for _, source in aliases(op)):
                readers.append(op)
                continue
            changed = [(result, new) for result, new in zip(op.results, found, strict=True) if new != result.type]
            if len(changed) < len(op.results) and not is_view(op):
                return None
            stands |= {result: _value_of(new) for result, new in changed}
            waiting += [result for result, _ in changed]
    if any(_types(ctx, op, stands) != op.result_types for op in readers):
        return None
    return {old: stand.type for old, stand in stands.items()}


def _may_read(op: TorchOp, value: SSAValue) -> bool:
    """Whether the types of its operands tell what ``op`` does with them. A product's rows are contiguous where it is packed."""
    plain = not op.regions and not is_product(op) and is_pure(op) and not may_keep(op)
    return plain and op.parent is value.owner.parent and all(isinstance(type, TensorType) for type in op.result_types)


def _value_of(type: Attribute) -> SSAValue:
    return Block(arg_types=[type]).args[0]


def _types(ctx: FxcContext, op: TorchOp, stands: Mapping[SSAValue, SSAValue]) -> Sequence[Attribute] | None:
    """What PyTorch gives ``op`` of what stands for its operands; None where it refuses."""
    new = op.rebuilt(op.bound())
    for index, operand in enumerate(new.operands):
        new.operands[index] = stands.get(operand, operand)
    try:
        return tuple(ctx.semantics.infer(new))
    except VerifyException:
        return None
    finally:
        new.erase()  # it counts as a reader of its operands
