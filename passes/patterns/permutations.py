"""Sums at distinct positions. No position is updated twice, so no order of additions and no atomic addition is needed."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from fxc.dialects.attributes.types import Dim, device, dims_of, is_tensor, sizes, strides
from fxc.dialects.attributes.values import Tree, bool_attr, int_attr, isa
from fxc.dialects.torch_ops.base import TorchOp
from fxc.dialects.torch_ops.operators import torch_op
from fxc.passes.analysis.matching import dtype, integer, number, producer, rank
from fxc.passes.patterns.splits import SPLITS
from fxc.passes.rewriting.matrix_products import dense_like
from fxc.passes.rewriting.patterns import Pattern, PatternRewriter

_PERMUTATIONS = ("aten.randperm.default", "aten.randperm.generator")
_PARTS = ("aten.slice.Tensor", "aten.clone.default", "aten.alias.default", "aten.detach.default", *SPLITS)
"""Operators whose results hold different elements of their argument, in one dimension."""


class AddAtDistinct(Pattern):
    """index_add(x, d, i, y) -> index_copy(x, d, i, index_select(x, d, i) + y), where i is part of a random permutation

    Not on a CPU, where no sum is atomic.
    """

    ROOTS = ("aten.index_add.default",)

    def rewrite(self, op: TorchOp, rewriter: PatternRewriter) -> None:
        bound = op.bound()
        tensor, index, source, dim = bound["self"], bound["index"], bound["source"], integer(bound["dim"])
        if (
            dim is None
            or device(tensor.type) == "cpu"
            or number(bound.get("alpha", int_attr(1))) != 1
            or not _is_distinct(index, rewriter)
        ):
            return
        if (count := rank(tensor)) and _is_update(op, tensor, source, dim % count, sizes(index.type)):
            gathered, added = _sum(op, tensor, dim, index, source)
            args: list[Tree] = [tensor, int_attr(dim), index, added.results[0]]
            copy = torch_op("aten.index_copy.default").build_call(args, {}, op.result_types, location=op.location)
            rewriter.replace(op, gathered, added, copy)


class PutAtDistinct(Pattern):
    """index_put(x, [i], y, true) -> index_put(x, [i], x[i] + y), where i is part of a random permutation"""

    ROOTS = ("aten.index_put.default", "aten._unsafe_index_put.default")

    def rewrite(self, op: TorchOp, rewriter: PatternRewriter) -> None:
        bound = op.bound()
        tensor, indices, source = bound["self"], bound["indices"], bound["values"]
        if bound.get("accumulate") != bool_attr(True) or len(indices) != 1 or not isa(indices[0], SSAValue):
            return
        if _is_distinct(indices[0], rewriter) and _is_update(op, tensor, source, 0, sizes(indices[0].type)):
            gathered, added = _sum(op, tensor, 0, indices[0], source)
            bound |= {"values": added.results[0], "accumulate": bool_attr(False)}
            rewriter.replace(op, gathered, added, op.rebuilt(bound))


def _is_distinct(index: SSAValue, rewriter: PatternRewriter) -> bool:
    """Whether no number occurs twice in the vector ``index``."""
    value = index
    while rank(value) == 1 and dtype(value.type) == "int64" and not rewriter.memory.is_written(value):
        if producer(value, _PERMUTATIONS) is not None:
            return True
        if (op := producer(value, _PARTS)) is None:
            return False
        value = op.operands[0]
    return False


def _is_update(op: TorchOp, tensor: SSAValue, source: SSAValue, dim: int, count: Sequence[Dim]) -> bool:
    """Whether ``source`` has the shape of ``count`` elements of ``tensor`` along ``dim``, and all types are contiguous."""
    types = [value.type for value in (tensor, source, op.results[0])]
    if not rank(tensor) or not all(is_tensor(type) and strides(type) is None and "" not in sizes(type) for type in types):
        return False
    shape = dims_of(tensor)
    return dtype(types[0]) == dtype(types[1]) and dims_of(source) == (*shape[:dim], *count, *shape[dim + 1 :])


def _sum(op: TorchOp, tensor: SSAValue, dim: int, index: SSAValue, source: SSAValue) -> tuple[TorchOp, TorchOp]:
    type = dense_like(source.type, dims_of(source))
    args: list[Tree] = [tensor, int_attr(dim), index]
    gathered = torch_op("aten.index_select.default").build_call(args, {}, [type], location=op.location)
    added = torch_op("aten.add.Tensor").build_call([gathered.results[0], source], {}, [type], location=op.location)
    return gathered, added


PATTERNS: tuple[Pattern, ...] = (AddAtDistinct(), PutAtDistinct())
