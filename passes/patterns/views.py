"""Views of views, and calls that return their argument or a copy of it."""

from __future__ import annotations

import math

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, SSAValue

from fxc.dialects.attributes.types import device, dtype_name, is_tensor, layout, sizes, strides
from fxc.dialects.attributes.values import dtype_attr, enum_attr, int_attr, isa
from fxc.dialects.base.effects import is_random
from fxc.dialects.torch_ops.base import TorchOp
from fxc.dialects.torch_ops.effects import DROPOUTS
from fxc.dialects.torch_ops.operators import torch_op
from fxc.passes.analysis.matching import (
    PERMUTES,
    RESHAPES,
    integer,
    integers,
    is_complex,
    is_default,
    permutation,
    producer,
    rank,
    same_type,
)
from fxc.passes.rewriting.patterns import Pattern, PatternRewriter

_SQUEEZES = ("aten.squeeze.default", "aten.squeeze.dim", "aten.squeeze.dims")


class IdentityPermute(Pattern):
    """permute(x, (0, 1, ..., n-1)) -> x"""

    ROOTS = PERMUTES

    def rewrite(self, op: TorchOp, rewriter: PatternRewriter) -> None:
        order = permutation(op)
        if order is not None and order == list(range(len(order))):
            rewriter.forward(op, op.operands[0], same_memory=True)


class PermuteOfPermute(Pattern):
    """permute(permute(x, p), q) -> permute(x, p[q]), or x where p[q] is the identity; also ``transpose`` and ``t``"""

    ROOTS = PERMUTES

    def rewrite(self, op: TorchOp, rewriter: PatternRewriter) -> None:
        inner = producer(op.operands[0], PERMUTES)
        if inner is None or (outer_order := permutation(op)) is None or (order := permutation(inner)) is None:
            return
        order, source = [order[i] for i in outer_order], inner.operands[0]
        if order == list(range(len(order))):
            rewriter.forward(op, source, same_memory=True)
            return
        dims = [int_attr(i) for i in order]
        permute = torch_op("aten.permute.default")
        rewriter.replace(op, permute.build_call([source, dims], {}, op.result_types, location=op.location))


class ReshapeOfReshape(Pattern):
    """view(view(x, a), b) -> x, where that is its type, or view(x, b), where x is contiguous; also ``squeeze`` and others"""

    ROOTS = RESHAPES

    def rewrite(self, op: TorchOp, rewriter: PatternRewriter) -> None:
        inner = producer(op.operands[0], (*RESHAPES, *_SQUEEZES, "aten.unsqueeze.default", "aten.flatten.using_ints"))
        if inner is None:
            return
        if same_type(op.results[0], inner.operands[0]):
            rewriter.forward(op, inner.operands[0], same_memory=True)
            return
        type = inner.operands[0].type
        if strides(type) is not None or layout(type) != "strided":  # type: ignore[arg-type]
            return
        rewriter.replace(op, op.rebuilt({**op.bound(), "self": inner.operands[0]}))


class ContiguousAsStrided(Pattern):
    """as_strided(x, a, strides) -> view(x, a), where x and the result are contiguous and have equally many elements"""

    ROOTS = ("aten.as_strided.default",)

    def rewrite(self, op: TorchOp, rewriter: PatternRewriter) -> None:
        types = [op.operands[0].type, op.results[0].type]
        if op.argument("storage_offset") is not None or any(_elements(type) is None for type in types):
            return
        if _elements(types[0]) == _elements(types[1]) and (size := op.argument("size")) is not None:
            view = torch_op("aten.view.default")
            rewriter.replace(op, view.build_call([op.operands[0], size], {}, op.result_types, location=op.location))


class ExpandOfExpand(Pattern):
    """expand(expand(x, a), b) -> expand(x, b), where b has no -1"""

    ROOTS = ("aten.expand.default",)

    def rewrite(self, op: TorchOp, rewriter: PatternRewriter) -> None:
        inner, size = producer(op.operands[0], self.ROOTS), integers(op.argument("size"))
        if inner is None or size is None or -1 in size:
            return
        rewriter.replace(op, op.rebuilt({**op.bound(), "self": inner.operands[0]}))


class SqueezeOfUnsqueeze(Pattern):
    """squeeze(unsqueeze(x, d), d) -> x, and unsqueeze(squeeze(x, d), d) -> x"""

    ROOTS = ("aten.squeeze.dim", "aten.unsqueeze.default")

    def rewrite(self, op: TorchOp, rewriter: PatternRewriter) -> None:
        other = self.ROOTS[1 - self.ROOTS.index(op.operator)]
        inner = producer(op.operands[0], (other,))
        if inner is None or (dim := _dim(op)) is None or dim != _dim(inner) or not same_type(op.results[0], inner.operands[0]):
            return
        rewriter.forward(op, inner.operands[0], same_memory=True)


class NoOpView(Pattern):
    """view(x, sizes of x) -> x: a view or a conversion whose result has the type of its argument"""

    ROOTS = (
        *RESHAPES, *_SQUEEZES, "aten.expand.default", "aten.expand_as.default", "aten.flatten.using_ints",
        "aten.view_as.default", "aten.alias.default", "aten.contiguous.default", "aten.positive.default",
        "aten.type_as.default", "aten.lift_fresh.default", "prims.view_of.default",
        "prims.view_of_dtype.default",
    )  # fmt: skip

    def rewrite(self, op: TorchOp, rewriter: PatternRewriter) -> None:
        if same_type(op.results[0], op.operands[0]):
            rewriter.forward(op, op.operands[0], same_memory=True)


class NoOpConversion(Pattern):
    """to(x, dtype of x) -> x, where no copy is requested"""

    ROOTS = ("aten.to.dtype", "aten.to.dtype_layout", "aten.to.device", "aten.to.other")

    def rewrite(self, op: TorchOp, rewriter: PatternRewriter) -> None:
        if not is_default(op.argument("copy")) or ("pin_memory" in op.SCHEMA.by_name and op.argument("pin_memory") is not None):
            return
        if same_type(op.results[0], op.operands[0]):
            rewriter.forward(op, op.operands[0], same_memory=True)


class WholeSlice(Pattern):
    """slice(x, dim, 0, size) -> x"""

    ROOTS = ("aten.slice.Tensor",)

    def rewrite(self, op: TorchOp, rewriter: PatternRewriter) -> None:
        step = op.argument("step")
        if not is_default(op.argument("start")) or (step is not None and integer(step) != 1):
            return
        if same_type(op.results[0], op.operands[0]):
            rewriter.forward(op, op.operands[0], same_memory=True)


class IdleDropout(Pattern):
    """dropout(x, p, train = false) -> x, and dropout(x, 0, train) -> x"""

    ROOTS = tuple(sorted(name for name in DROPOUTS if not name.endswith("_.default")))

    def rewrite(self, op: TorchOp, rewriter: PatternRewriter) -> None:
        if not is_random(op):
            rewriter.forward(op, op.operands[0], same_memory=True)


class RealConjugate(Pattern):
    """resolve_conj(x) -> x, where x is real; also ``conj``"""

    ROOTS = ("aten.resolve_conj.default", "aten.conj.default")

    def rewrite(self, op: TorchOp, rewriter: PatternRewriter) -> None:
        if not is_complex(op.operands[0].type):
            rewriter.forward(op, op.operands[0], same_memory=True)


class NoOpCopy(Pattern):
    """clone(x) -> x, where layout and dtype are unchanged and a copy cannot be told from x"""

    ROOTS = (
        "aten.clone.default", "aten._to_copy.default", "aten.lift_fresh_copy.default", "prims.convert_element_type.default",
        "prims.clone.default", "prims.device_put.default",
    )  # fmt: skip

    def rewrite(self, op: TorchOp, rewriter: PatternRewriter) -> None:
        if op.operands and is_default(op.argument("pin_memory")) and same_type(op.results[0], op.operands[0]):
            rewriter.forward(op, op.operands[0])


class WholeCopy(Pattern):
    """copy(x, y) -> y, where the result has the type of y; _to_copy(y) where dtype or order in memory differ"""

    ROOTS = ("aten.copy.default",)

    def rewrite(self, op: TorchOp, rewriter: PatternRewriter) -> None:
        source, made = op.argument("src"), op.results[0].type
        if not isa(source, SSAValue) or not is_tensor(made) or not is_tensor(source.type):
            return
        if same_type(op.results[0], source):
            rewriter.forward(op, source)
        elif _is_conversion(source.type, made):
            keywords = {"dtype": dtype_attr(dtype_name(made.element_type)), "memory_format": enum_attr("contiguous_format")}
            copy = torch_op("aten._to_copy.default").build_call([source], keywords, op.result_types, location=op.location)
            rewriter.replace(op, copy)


class WholeSliceScatter(Pattern):
    """slice_scatter(x, y, dim, 0, size) -> y"""

    ROOTS = ("aten.slice_scatter.default",)

    def rewrite(self, op: TorchOp, rewriter: PatternRewriter) -> None:
        source, step = op.argument("src"), op.argument("step")
        if not is_default(op.argument("start")) or (step is not None and integer(step) != 1):
            return
        if isa(source, SSAValue) and same_type(op.results[0], source):
            rewriter.forward(op, source)


class NoOpRepeat(Pattern):
    """repeat(x, (1, ..., 1)) -> x; constant_pad_nd(x, (0, ..., 0)) -> x"""

    ROOTS = ("aten.repeat.default", "aten.constant_pad_nd.default")

    def rewrite(self, op: TorchOp, rewriter: PatternRewriter) -> None:
        name, neutral = ("repeats", 1) if op.operator == self.ROOTS[0] else ("pad", 0)
        counts = integers(op.argument(name))
        if counts is not None and all(n == neutral for n in counts) and same_type(op.results[0], op.operands[0]):
            rewriter.forward(op, op.operands[0])


class CatOfOne(Pattern):
    """cat([x]) -> x"""

    ROOTS = ("aten.cat.default",)

    def rewrite(self, op: TorchOp, rewriter: PatternRewriter) -> None:
        if len(op.operands) == 1 and len(op.argument("tensors")) == 1 and same_type(op.results[0], op.operands[0]):  # type: ignore[arg-type]
            rewriter.forward(op, op.operands[0])


def _is_conversion(given: TensorType, made: TensorType) -> bool:
    """Whether they differ in the dtype of real numbers or in strides only, and ``made`` is contiguous."""
    same = sizes(given) == sizes(made) and device(given) == device(made) and layout(given) == layout(made) == "strided"
    return same and strides(made) is None and "" not in sizes(made) and not (is_complex(given) or is_complex(made))


def _elements(type: Attribute) -> int | None:
    """The number of elements of a contiguous tensor; None for other tensors, and where it is not static."""
    if not is_tensor(type) or strides(type) is not None or layout(type) != "strided":
        return None
    known = sizes(type)
    return math.prod(size for size in known if isinstance(size, int)) if all(isinstance(s, int) for s in known) else None


def _dim(op: TorchOp) -> int | None:
    """The dimension that ``squeeze`` removes or ``unsqueeze`` adds, as an index into the larger shape."""
    dim, count = integer(op.argument("dim")), rank(op.operands[0])
    if dim is None or count is None:
        return None
    larger = count + 1 if op.operator == "aten.unsqueeze.default" else count
    return dim % larger if larger else None


PATTERNS: tuple[Pattern, ...] = (
    IdentityPermute(), PermuteOfPermute(), ReshapeOfReshape(), ContiguousAsStrided(), ExpandOfExpand(), SqueezeOfUnsqueeze(),
    NoOpView(), NoOpConversion(), WholeSlice(), IdleDropout(), RealConjugate(), NoOpCopy(), WholeCopy(),
    WholeSliceScatter(), NoOpRepeat(), CatOfOne(),
)  # fmt: skip
