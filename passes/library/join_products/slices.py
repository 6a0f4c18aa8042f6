"""One product in place of several of the same rows: their results are slices of its result."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, pairwise

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Block, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from fxc.dialects.attributes.values import Tree, enum_attr, int_attr
from fxc.dialects.context import FxcContext
from fxc.dialects.torch_ops.base import TorchOp
from fxc.passes.library.join_products.strided_reads import types_with_steps
from fxc.passes.library.packings import as_linear
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
