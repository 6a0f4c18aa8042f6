"""Replace several products of the same rows by one product, whose slices are their results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, pairwise

from xdsl.ir import Attribute, Block, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.utils.exceptions import VerifyException

from fxc.dialects.attributes.types import is_tensor
from fxc.dialects.attributes.values import Tree, enum_attr, int_attr
from fxc.dialects.base.effects import aliases, is_pure, is_view, may_retain
from fxc.dialects.context import FxcContext
from fxc.dialects.torch_ops.base import TorchOp
from fxc.passes.library.packings import as_linear, is_product
from fxc.passes.rewriting.insertion import insert_call, result_types
from fxc.passes.rewriting.matrix_products import dense_like

CAT, SLICE = "aten.cat.default", "aten.slice.Tensor"

SliceTypes = Mapping[SSAValue, Attribute]
"""Results of products that may be slices, and their views -> the types of the slices."""


def types_of_slices(ctx: FxcContext, products: Sequence[TorchOp]) -> SliceTypes:
    """The results that may be slices of the result of one product, since all their users accept slices."""
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
    """The arguments of adjacent slices of ``whole`` along its last dimension."""
    for end, width in zip(accumulate(widths), widths, strict=True):
        yield [whole, *map(int_attr, (len(_sizes(whole)) - 1, end - width, end))]


def _sizes(value: SSAValue) -> tuple[int, ...]:
    assert is_tensor(value.type)
    return value.type.get_shape()


def join(ctx: FxcContext, products: Sequence[TorchOp], types: SliceTypes) -> None:
    """Replace the results of ``products`` by slices of one product. Slices for results not in ``types`` are copied."""
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


# which users can read a strided value, such as a slice, without copying it


def types_with_steps(ctx: FxcContext, steps: Mapping[SSAValue, Attribute]) -> Mapping[SSAValue, Attribute] | None:
    """The types of values and their views if the values had the types ``steps``, which differ in strides only.

    None if a user copies a value, rejects it, returns a result of another type, or is unknown, such as a return.
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
    """Whether type inference shows how ``op`` handles strided operands. Packed products need contiguous rows."""
    plain = not op.regions and not is_product(op) and is_pure(op) and not may_retain(op)
    return plain and op.parent is value.owner.parent and all(is_tensor(type) for type in op.result_types)


def _value_of(type: Attribute) -> SSAValue:
    return Block(arg_types=[type]).args[0]


def _types(ctx: FxcContext, op: TorchOp, stands: Mapping[SSAValue, SSAValue]) -> Sequence[Attribute] | None:
    """The result types that PyTorch infers for ``op`` with operands replaced by ``stands``; None if it rejects them."""
    new = op.rebuilt(op.bound())
    for index, operand in enumerate(new.operands):
        new.operands[index] = stands.get(operand, operand)
    try:
        return tuple(ctx.semantics.infer(new))
    except VerifyException:
        return None
    finally:
        new.erase()  # otherwise it remains a user of its operands
