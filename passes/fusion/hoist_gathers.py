"""Move gathers above the pointwise operators whose results they read.

Assumes  the torch level, one result per value (``lower-simple-tuples``).
Ensures  no ``aten.gather`` reads the result of a pointwise operator without other users, if that has the sizes of the
         index except along the gathered dimension, and no fewer elements: the operands are gathered. A loss computes
         the logarithm of one class per row, not of all. Result types are unchanged. Idempotent.
Leaves   shared results, unless a quarter of the elements or fewer are gathered: these are recomputed; operations that
         need a gradient; random operators and writes; gathers after a write; types that would change; unknown sizes. An
         index out of range fails as before.
Cost     one walk, and the operations between an operator and its gather; loads PyTorch where there is one, to infer
         types.

Before:
    func.func @main(%x: tensor<8x100xf32>, %m: tensor<8x1xf32>, %i: tensor<8x1xi64>) {
      %a = torch.aten.sub.Tensor(%x, %m) : (tensor<8x100xf32>, tensor<8x1xf32>) -> tensor<8x100xf32>
      %g = torch.aten.gather.default(%a, 1, %i) : (tensor<8x100xf32>, tensor<8x1xi64>) -> tensor<8x1xf32>
      fx.output(%g) : (tensor<8x1xf32>) -> ()
    }
After:
    func.func @main(%x: tensor<8x100xf32>, %m: tensor<8x1xf32>, %i: tensor<8x1xi64>) {
      %0 = torch.aten.gather.default(%x, 1, %i) : (tensor<8x100xf32>, tensor<8x1xi64>) -> tensor<8x1xf32>
      %g = torch.aten.sub.Tensor(%0, %m) : (tensor<8x1xf32>, tensor<8x1xf32>) -> tensor<8x1xf32>
      fx.output(%g) : (tensor<8x1xf32>) -> ()
    }
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeGuard

from xdsl.context import Context
from xdsl.dialects.builtin import DYNAMIC_INDEX, ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from fxc.dialects.attributes.types import is_tensor
from fxc.dialects.attributes.values import isa
from fxc.dialects.base.effects import is_pure
from fxc.dialects.context import FxcContext
from fxc.dialects.torch_ops.base import TorchOp
from fxc.passes.analysis.matching import integer
from fxc.passes.analysis.statistics import count
from fxc.passes.fusion.fuse.candidates import is_pointwise
from fxc.passes.rewriting.insertion import built_before, insert_call

GATHER = "aten.gather.default"
FEW = 4.0


@dataclass(frozen=True)
class HoistGathersPass(ModulePass):
    """Move gathers above the pointwise operators whose results they read.

    An operand with one element along the gathered dimension is read without a gather.
    """

    name = "hoist-gathers"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        assert isinstance(ctx, FxcContext)
        for gather in [inner for inner in op.walk() if isinstance(inner, TorchOp) and inner.operator == GATHER]:
            waiting = _hoisted(ctx, gather, math.inf)
            while waiting:
                waiting += _hoisted(ctx, waiting.pop(), FEW)


def _hoisted(ctx: FxcContext, gather: TorchOp, few: float) -> list[TorchOp]:
    """Gather the operands of the op that ``gather`` reads, and apply the op to them.

    Returns the new gathers; none where nothing changes. A result that other ops read, too, is recomputed if at most 1 / ``few``
    of its elements are gathered.
    """
    source, dim, index = gather.argument("self"), integer(gather.argument("dim")), gather.argument("index")
    if not isa(source, SSAValue) or not isa(index, SSAValue) or dim is None:
        return []
    made, shape = source.owner, _shape(source)
    if not isinstance(made, TorchOp) or not shape or not _fits(wanted := _shape(index), shape, dim):
        return []
    if not is_pointwise(made) or not _is_quiet(made, gather):
        return []
    if source.has_more_than_one_use() and few * math.prod(wanted) > math.prod(shape):
        return []
    tensors = [value for value in dict.fromkeys(made.operands) if is_tensor(value.type)]
    if not all(_shape(value) == shape or _is_uniform_along(value, shape, dim) for value in tensors):
        return []
    large = [value for value in tensors if _shape(value) == shape]
    new = dict[SSAValue, SSAValue]()

    def build() -> SSAValue | None:
        new.update((value, insert_call(ctx, GATHER, [value, gather.argument("dim"), index], gather)) for value in large)
        bound = {name: new.get(given, given) if isa(given, SSAValue) else given for name, given in made.bound().items()}
        args, kwargs = type(made).divide(bound)
        result = insert_call(ctx, made.operator, args, gather, kwargs)
        return result if result.type == gather.results[0].type else None

    if (result := built_before(gather, build)) is None:
        return []
    result._name = gather.results[0]._name
    gather.results[0].replace_all_uses_with(result)
    Rewriter.erase_op(gather)
    if source.first_use is None:
        Rewriter.erase_op(made)
    count("gathers")
    return [value.owner for value in new.values() if isinstance(value.owner, TorchOp)]


def _shape(value: SSAValue) -> tuple[int, ...] | None:
    """The static sizes of ``value``; None where one is unknown."""
    known = value.type.get_shape() if is_tensor(value.type) else (DYNAMIC_INDEX,)
    return None if DYNAMIC_INDEX in known else tuple(known)


def _fits(part: Sequence[int] | None, whole: Sequence[int], dim: int) -> TypeGuard[Sequence[int]]:
    """Whether ``part`` has the sizes of ``whole`` except along ``dim``, and no more elements."""
    if part is None or len(part) != len(whole) or math.prod(part) > math.prod(whole):
        return False
    return all(a == b for i, (a, b) in enumerate(zip(part, whole, strict=True)) if i != dim % len(whole))


def _is_uniform_along(value: SSAValue, shape: Sequence[int], dim: int) -> bool:
    """Whether the elements of ``value`` do not vary along ``dim``."""
    own = _shape(value)
    return own == () or (own is not None and _fits(own, shape, dim) and own[dim] == 1)


def _is_quiet(first: Operation, last: Operation) -> bool:
    """Whether no op between two ops of one block writes memory or samples random numbers."""
    op = first.next_op
    while op is not None and op is not last:
        if not is_pure(op):
            return False
        op = op.next_op
    return op is last
