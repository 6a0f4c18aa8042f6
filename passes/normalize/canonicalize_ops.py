"""Rewrite equivalent operators to one of them: scalar operands, splits, and copies.

Assumes  verified IR; ``lower-simple-tuples`` ran, so that a list is packed only where it is used as a whole.
Ensures  no add, sub, mul or div has a constant 0-d tensor on the right that may be a number (``NumberOperand``);
         ``chunk`` and ``split`` into results of static sizes are ``split_with_sizes``; ``contiguous`` of tensors with
         other strides is ``clone``. Result types are unchanged. Idempotent.
Leaves   numbers that determine the result dtype; complex numbers and bools; constants that are written or not on the
         CPU; lists that are used as a whole.
Cost     two walks with a dictionary look-up per operation.

Before:
    func.func @main(%x: tensor<4x6xf32>) {
      %c = torch.constant([2.0]) : tensor<f64>
      %y = torch.aten.add.Tensor(%x, %c, alpha = 3) : (tensor<4x6xf32>, tensor<f64>) -> tensor<4x6xf32>
      %a, %b = torch.aten.chunk.default(%y, 2) : (tensor<4x6xf32>) -> (tensor<2x6xf32>, tensor<2x6xf32>)
      %z = torch.aten.mul.Tensor(%a, %b) : (tensor<2x6xf32>, tensor<2x6xf32>) -> tensor<2x6xf32>
      fx.output(%z) : (tensor<2x6xf32>) -> ()
    }
After:
    func.func @main(%x: tensor<4x6xf32>) {
      %y = torch.aten.add.Scalar(%x, 2.0, 3) : (tensor<4x6xf32>) -> tensor<4x6xf32>
      %a, %b = torch.aten.split_with_sizes.default(%y, [2, 2], 0) : (tensor<4x6xf32>) -> (tensor<2x6xf32>, tensor<2x6xf32>)
      %z = torch.aten.mul.Tensor(%a, %b) : (tensor<2x6xf32>, tensor<2x6xf32>) -> tensor<2x6xf32>
      fx.output(%z) : (tensor<2x6xf32>) -> ()
    }
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import DYNAMIC_INDEX, ModuleOp
from xdsl.ir import Attribute, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from fxc.dialects.attributes.types import contiguous_strides, device, is_tensor, sizes, strides
from fxc.dialects.attributes.values import Tree, enum_attr, float_attr, int_attr, isa
from fxc.dialects.text.syntax import copy_names
from fxc.dialects.torch_ops.base import TorchOp
from fxc.dialects.torch_ops.constant import TensorLiteralAttr
from fxc.dialects.torch_ops.operators import torch_op
from fxc.passes.analysis.constants import constant_of
from fxc.passes.analysis.matching import dtype, integer, integers, is_complex, rank
from fxc.passes.analysis.memory import may_be_lazy
from fxc.passes.analysis.statistics import count
from fxc.passes.rewriting.patterns import Pattern, PatternRewriter, apply_patterns, dispatch_table

_CHUNK, _SPLIT_BY_LIST = "aten.chunk.default", "aten.split.sizes"
_CUTS = (_CHUNK, "aten.split.Tensor", _SPLIT_BY_LIST)
"""Operators that ``split_with_sizes`` can replace."""

_REINTERPRETING = ("aten.view_as_real.default", "aten.view.dtype")
"""Views that reinterpret the bytes of a tensor as another dtype."""

_INTEGERS = ("uint8", "int8", "int16", "int32", "int64")
_FLOATS = ("float16", "bfloat16", "float32", "float64")


class NumberOperand(Pattern):
    """x + [c] -> x + c, where [c] is a 0-d constant tensor; also sub, mul and div

    ``alpha`` and ``rounding_mode`` stay. The overload for a number gives the same result where the category of the number's
    dtype is not above that of the left operand. An int64 tensor plus a 0-d float64 tensor is float64, plus a Python float it is
    float32.
    """

    ROOTS = ("aten.add.Tensor", "aten.sub.Tensor", "aten.mul.Tensor", "aten.div.Tensor", "aten.div.Tensor_mode")

    def rewrite(self, op: TorchOp, rewriter: PatternRewriter) -> None:
        tensor, other = op.argument("self"), op.argument("other")
        if not isa(tensor, SSAValue) or not isa(other, SSAValue) or not _may_be_number(tensor, other):
            return
        number = _number(other)
        if number is None or rewriter.memory.is_written(other):
            return
        scalar = torch_op(op.operator.replace(".Tensor", ".Scalar"))
        args, kwargs = scalar.divide({**op.bound(), "other": number})
        rewriter.replace(op, scalar.build_call(args, kwargs, op.result_types, attributes=op.attributes, location=op.location))


class Copy(Pattern):
    """contiguous(x) -> clone(x), where x is not contiguous"""

    ROOTS = ("aten.contiguous.default",)

    def rewrite(self, op: TorchOp, rewriter: PatternRewriter) -> None:
        [tensor], [result] = op.operand_types, op.result_types
        if not is_tensor(tensor) or not is_tensor(result) or strides(tensor) is None:
            return
        steps = zip(
            sizes(tensor), strides(tensor) or (), strides(result) or contiguous_strides(result.get_shape()), strict=True
        )
        if DYNAMIC_INDEX in tensor.get_shape() or all(size == 1 or before == after for size, before, after in steps):
            return
        clone = torch_op("aten.clone.default")
        args, kwargs = clone.divide({"memory_format": enum_attr("contiguous_format"), **op.bound()})
        rewriter.replace(op, clone.build_call(args, kwargs, op.result_types, attributes=op.attributes, location=op.location))


def _may_be_number(tensor: SSAValue, other: SSAValue) -> bool:
    """Whether the result has the same dtype with a Python number as with ``other``."""
    known, new = dtype(tensor.type), dtype(other.type)
    if rank(other) != 0 or (rank(tensor) == 0 and known != new):
        return False
    return (new in _INTEGERS and known in (*_INTEGERS, *_FLOATS)) or (new in _FLOATS and known in _FLOATS)


def _number(value: SSAValue) -> Attribute | None:
    """The number in a 0-d constant tensor on the CPU."""
    literal = constant_of(value)
    if not isinstance(literal, TensorLiteralAttr) or not is_tensor(value.type) or device(value.type) != "cpu":
        return None
    name, raw = dtype(value.type) or "", literal.bytes
    if name == "bfloat16":  # the upper half of a float32
        name, raw = "float32", b"\0\0" + raw
    element = np.frombuffer(raw, np.dtype(name).newbyteorder("<"))[0].item()
    return float_attr(element) if isinstance(element, float) else int_attr(element)


def _with_sizes(op: TorchOp) -> None:
    """Replace an op that returns one result for each piece by ``split_with_sizes``."""
    tensor, dim = op.operands[0], integer(op.argument("dim")) if op.argument("dim") is not None else 0
    if op.is_packed or dim is None or not is_tensor(tensor.type) or not (count_ := rank(tensor)):
        return
    dim %= count_
    pieces = _piece_sizes(op, sizes(tensor.type)[dim])
    if pieces is None or len(pieces) != len(op.results):
        return
    arguments: list[Tree] = [tensor, [int_attr(size) for size in pieces], int_attr(dim)]
    split = torch_op("aten.split_with_sizes.default").build_call(
        arguments, {}, op.result_types, attributes=op.attributes, location=op.location
    )
    copy_names(op.results, split.results)
    Rewriter.insert_op(split, InsertPoint.before(op))
    for old, new in zip(op.results, split.results, strict=True):
        old.replace_all_uses_with(new)
    Rewriter.erase_op(op)
    count("splits")


def _resolve(op: TorchOp) -> None:
    """Resolve the operand of ``op``, ``view_as_real`` or ``view.dtype``, where it may be lazily conjugated or negated."""
    [tensor] = op.operands
    if not may_be_lazy(tensor, given=True):
        return
    operator = "aten.resolve_conj.default" if is_complex(tensor.type) else "aten.resolve_neg.default"
    resolved = torch_op(operator).build_call([tensor], {}, [tensor.type], location=op.location)
    Rewriter.insert_op(resolved, InsertPoint.before(op))
    op.operands = resolved.results
    count("lazy operands")


def _piece_sizes(op: TorchOp, whole: int | str) -> Sequence[int] | None:
    """The sizes of the pieces; None where they are not constant."""
    if op.operator == _SPLIT_BY_LIST:
        return integers(op.argument("split_size"))
    if op.operator == _CHUNK:
        pieces = integer(op.argument("chunks"))
        size = -(-whole // pieces) if isinstance(whole, int) and pieces is not None and pieces > 0 else None
    else:
        size = integer(op.argument("split_size"))
    if not isinstance(whole, int) or not whole or not size:
        return None
    return [min(size, whole - start) for start in range(0, whole, size)]


@dataclass(frozen=True)
class CanonicalizeOpsPass(ModulePass):
    name = "canonicalize-ops"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        apply_patterns(op, dispatch_table([NumberOperand(), Copy()]))
        for inner in list(op.walk()):
            if isinstance(inner, TorchOp) and inner.operator in _REINTERPRETING:
                _resolve(inner)
            elif isinstance(inner, TorchOp) and inner.operator in _CUTS:
                _with_sizes(inner)
