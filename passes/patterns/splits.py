"""Tensors that are split and concatenated again, or concatenated and split again."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, groupby

from xdsl.ir import SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from fxc.dialects.attributes.types import contiguous_strides, is_tensor, sizes, strides
from fxc.dialects.attributes.values import KnownTree, Tree, int_attr, isa
from fxc.dialects.torch_ops.base import TorchOp
from fxc.dialects.torch_ops.operators import torch_op
from fxc.passes.analysis.matching import integer, producer, rank, same_type
from fxc.passes.rewriting.matrix_products import dense_like, only_user, static_sizes
from fxc.passes.rewriting.patterns import Pattern, PatternRewriter

SPLITS = (
    "aten.split.Tensor", "aten.split.sizes", "aten.split_with_sizes.default", "aten.chunk.default",
    "aten.tensor_split.sections", "aten.unsafe_split.Tensor", "aten.unsafe_split_with_sizes.default",
)  # fmt: skip
_UNBIND, _STACK, _CAT = "aten.unbind.int", "aten.stack.default", "aten.cat.default"


class OneWaySplit(Pattern):
    """split(x, size of x) -> x"""

    ROOTS = SPLITS

    def rewrite(self, op: TorchOp, rewriter: PatternRewriter) -> None:
        if len(op.results) == 1 and same_type(op.results[0], op.operands[0]):
            rewriter.forward(op, op.operands[0], same_memory=True)


class SplitOfCat(Pattern):
    """split(cat([x, y], d), [size of x, size of y], d) -> x, y, where no piece is returned; also ``unbind`` of ``stack``"""

    ROOTS = (*SPLITS, _UNBIND)

    def rewrite(self, op: TorchOp, rewriter: PatternRewriter) -> None:
        whole = op.operands[0]
        joint = producer(whole, (_STACK,) if op.operator == _UNBIND else (_CAT,))
        if joint is None or op.is_packed or (axis := _axis(op, whole)) is None or axis != _axis(joint, whole):
            return
        parts = _joined(joint)
        if len(parts) != len(op.results) or rewriter.memory.reaches_output(whole):
            return
        if all(same_type(result, part) for result, part in zip(op.results, parts, strict=True)):
            rewriter.forward(op, *parts)


class CatOfSplit(Pattern):
    """cat(split(x, sizes, d), d) -> x, where all pieces are read in order; also ``stack`` of ``unbind``"""

    ROOTS = (_CAT, _STACK)

    def rewrite(self, op: TorchOp, rewriter: PatternRewriter) -> None:
        if not (parts := _joined(op)):
            return
        split = producer(parts[0], (_UNBIND,) if op.operator == _STACK else SPLITS)
        if split is None or split.is_packed or [*split.results] != parts or not same_type(op.results[0], split.operands[0]):
            return
        if (axis := _axis(op, op.results[0])) is not None and axis == _axis(split, split.operands[0]):
            rewriter.forward(op, split.operands[0])


class CatOfNeighbours(Pattern):
    """cat([p[0], p[1], y], d) -> cat([x[:a], y], d), where p = split(x, sizes, d) and a is the size of both"""

    ROOTS = (_CAT,)

    def rewrite(self, op: TorchOp, rewriter: PatternRewriter) -> None:
        parts, axis = _joined(op), _axis(op, op.results[0])
        if axis is None or len(static_sizes(op.results[0].type)) not in (1, 2, 3):
            return  # the layout of images may depend on that of their parts
        found, slices = list[SSAValue](), list[TorchOp]()
        for _, run in groupby(zip(parts, _places(parts), strict=True), key=lambda pair: pair[1]):
            pieces = [part for part, _ in run]
            merged = _slice(pieces, axis, op) if len(pieces) > 1 else None
            if merged is None:
                found += pieces
                continue
            slices.append(merged)
            found.append(merged.results[0])
        if slices:
            rewriter.replace(op, *slices, op.rebuilt({**op.bound(), "tensors": found}))


class SplitOfSplit(Pattern):
    """split(split(x, [a, b])[0], [c, d]) -> split(x, [c, d, b]), where the first piece has no other use"""

    ROOTS = SPLITS

    def rewrite(self, op: TorchOp, rewriter: PatternRewriter) -> None:
        piece = op.operands[0]
        outer = producer(piece, SPLITS)
        if outer is None or op.is_packed or outer.is_packed or only_user(piece) is not op or outer.parent is not op.parent:
            return
        if op.attributes or outer.attributes:
            return  # they may refer to results by index
        if (axis := _axis(op, piece)) is None or axis != _axis(outer, piece) or rewriter.memory.is_written(piece):
            return
        at = outer.results.index(piece)
        outputs = [*outer.results[:at], *op.results, *outer.results[at + 1 :]]
        widths = [_width(output, axis) for output in outputs]
        if None in widths:
            return
        args: list[Tree] = [outer.operands[0], [int_attr(width) for width in widths if width is not None], int_attr(axis)]
        kind = torch_op("aten.split_with_sizes.default")
        merged = kind.build_call(args, {}, [output.type for output in outputs], location=outer.location)
        for output, result in zip(outputs, merged.results, strict=True):
            result._name = output._name
        Rewriter.insert_op(merged, InsertPoint.before(outer))
        rewriter.replace_match([outer, op], outputs, merged.results)


def _joined(op: TorchOp) -> list[SSAValue]:
    """The tensors that ``op`` concatenates; none where they are one value."""
    parts: KnownTree | None = op.argument("tensors")
    return [part for part in parts if isa(part, SSAValue)] if isinstance(parts, list) else []


def _axis(op: TorchOp, whole: SSAValue) -> int | None:
    """The dimension of ``whole`` along which ``op`` splits or joins."""
    dim, count = op.argument("dim"), rank(whole)
    number = 0 if dim is None else integer(dim)
    return number % count if number is not None and count else None


def _width(value: SSAValue, axis: int) -> int | None:
    size = sizes(value.type)[axis] if is_tensor(value.type) else None
    return size if isinstance(size, int) else None


def _places(parts: Sequence[SSAValue]) -> list[tuple[object, int]]:
    """A key for each part that is equal for pieces which follow each other in one split."""
    found = list[tuple[object, int]]()
    for number, part in enumerate(parts):
        split = producer(part, SPLITS)
        if split is None or split.is_packed:
            found.append((part, number))
        else:
            found.append((split, [*split.results].index(part) - number))  # type: ignore[arg-type]
    return found


def _slice(pieces: Sequence[SSAValue], axis: int, before: TorchOp) -> TorchOp | None:
    """The slice that consists of ``pieces``, neighbours in one split along ``axis``; None if a size is not static."""
    split = pieces[0].owner
    assert isinstance(split, TorchOp)
    source, first = split.operands[0], split.results.index(pieces[0])
    shape, ends = static_sizes(source.type), list(accumulate(_width(result, axis) or 0 for result in split.results))
    if not is_tensor(source.type) or axis != _axis(split, source) or not shape or ends[-1] != shape[axis]:
        return None
    start, end = [0, *ends][first], ends[first + len(pieces) - 1]
    steps = strides(source.type) or contiguous_strides(shape)
    type = dense_like(source.type, (*shape[:axis], end - start, *shape[axis + 1 :]), steps)
    args: list[Tree] = [source, int_attr(axis), int_attr(start), int_attr(end)]
    return torch_op("aten.slice.Tensor").build_call(args, {}, [type], location=before.location)


PATTERNS: tuple[Pattern, ...] = (OneWaySplit(), SplitOfCat(), CatOfSplit(), CatOfNeighbours(), SplitOfSplit())
