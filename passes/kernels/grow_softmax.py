"""Move into the softmax of an attention what only it reads.

Assumes  groups made by ``fuse`` with reductions, one result per value (``lower-simple-tuples``).
Ensures  a group with an exponential, whose result is the left factor of a product, has the elementwise operations,
         views and groups of such that it alone reads, directly or not, if they reach a product with the same rows and
         keys: ``tile-attention`` computes each once, where ``fuse`` counts recomputation in each pass over a row.
Leaves   other groups and products; producers with other readers, with reductions, or before a write or side effect.
Cost     one walk, and a conversion for each kind of operation that moves.

Before:
    func.func @main(%q: tensor<16x8xf32>, %k: tensor<8x16xf32>, %v: tensor<16x8xf32>) {
      %s = torch.aten.mm.default(%q, %k) : (tensor<16x8xf32>, tensor<8x16xf32>) -> tensor<16x16xf32>
      %t = torch.aten.tanh.default(%s) : (tensor<16x16xf32>) -> tensor<16x16xf32>
      %p = fusion.group ({
        %m = torch.aten.amax.default(%t, [1], true) : (tensor<16x16xf32>) -> tensor<16x1xf32>
        %d = torch.aten.sub.Tensor(%t, %m) : (tensor<16x16xf32>, tensor<16x1xf32>) -> tensor<16x16xf32>
        %e = torch.aten.exp.default(%d) : (tensor<16x16xf32>) -> tensor<16x16xf32>
        fusion.yield %e : tensor<16x16xf32>
      }) -> tensor<16x16xf32>
      %o = torch.aten.mm.default(%p, %v) : (tensor<16x16xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
      fx.output(%o) : (tensor<16x8xf32>) -> ()
    }
After:
    func.func @main(%q: tensor<16x8xf32>, %k: tensor<8x16xf32>, %v: tensor<16x8xf32>) {
      %s = torch.aten.mm.default(%q, %k) : (tensor<16x8xf32>, tensor<8x16xf32>) -> tensor<16x16xf32>
      %p = fusion.group ({
        %t = torch.aten.tanh.default(%s) : (tensor<16x16xf32>) -> tensor<16x16xf32>
        %m = torch.aten.amax.default(%t, [1], true) : (tensor<16x16xf32>) -> tensor<16x1xf32>
        %d = torch.aten.sub.Tensor(%t, %m) : (tensor<16x16xf32>, tensor<16x1xf32>) -> tensor<16x16xf32>
        %e = torch.aten.exp.default(%d) : (tensor<16x16xf32>) -> tensor<16x16xf32>
        fusion.yield %e : tensor<16x16xf32>
      }) -> tensor<16x16xf32>
      %o = torch.aten.mm.default(%p, %v) : (tensor<16x16xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
      fx.output(%o) : (tensor<16x8xf32>) -> ()
    }
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from fxc.dialects.base.effects import is_pure
from fxc.dialects.fusion import GroupOp
from fxc.dialects.torch_ops import TorchOp
from fxc.passes.analysis.constants import is_constant
from fxc.passes.analysis.size_values import facts_of
from fxc.passes.analysis.statistics import count
from fxc.passes.fusion.fuse.kernel_groups import Coverage
from fxc.passes.kernels.tiling.products import Product, behind_views, fit, is_plain, product_of
from fxc.passes.operators.record import Role
from fxc.passes.operators.rules import Accumulation, Reduction
from fxc.passes.operators.table import operator_of, role_of
from fxc.passes.rewriting.functions import outside_derivatives


@dataclass(frozen=True)
class GrowSoftmaxPass(ModulePass):
    """Move into the softmax of an attention what only it reads."""

    name = "grow-softmax"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        coverage = Coverage(facts_of(op, "min"))
        for inner in list(outside_derivatives(op)):
            output = product_of(inner)
            behind = behind_views(output.left.value) if output is not None and is_plain(output) else None
            group = behind[0].owner if behind is not None else None
            if output is not None and isinstance(group, GroupOp) and _has_exponential(group):
                moved = _moved(group, coverage)
                if moved and _reach_scores([group, *moved], output):
                    _move(group, moved)
                    count("operations moved to a softmax", len(moved))


def _has_exponential(group: GroupOp) -> bool:
    return any(isinstance(op, TorchOp) and op.operator == "aten.exp.default" for op in group.body.block.ops)


def _moved(group: GroupOp, coverage: Coverage) -> list[Operation]:
    """The ops before ``group`` that move into it, the last first."""
    found, inside = list[Operation](), set[Operation]([group])
    op = group.prev_op
    while op is not None and is_pure(op):
        users = [op.parent.find_ancestor_op_in_block(use.operation) for result in op.results for use in result.uses]  # type: ignore[union-attr]
        if users and all(user in inside for user in users) and _is_elementwise(op, coverage):
            found.append(op)
            inside.add(op)
        op = op.prev_op
    return found


def _is_elementwise(op: Operation, coverage: Coverage) -> bool:
    if isinstance(op, GroupOp):
        return all(is_constant(inner) or _is_elementwise(inner, coverage) for inner in list(op.body.block.ops)[:-1])
    rule = operator_of(op).formula
    return op in coverage and not isinstance(rule, (Accumulation, Reduction)) and role_of(op) is not Role.CONCATENATION


def _reach_scores(ops: list[Operation], output: Product) -> bool:
    """Whether ``ops`` read a product with the rows and keys of ``output``."""
    owners = {value.owner for op in ops for inner in op.walk() for value in inner.operands}
    products = [product_of(owner) for owner in owners if isinstance(owner, TorchOp) and owner not in ops]
    return any(product is not None and is_plain(product) and fit(product, output) for product in products)


def _move(group: GroupOp, ops: list[Operation]) -> None:
    for op in ops:
        place = InsertPoint.at_start(group.body.block)
        if not isinstance(op, GroupOp):
            op.detach()
            Rewriter.insert_op(op, place)
            continue
        *inner, last = op.body.block.ops
        for result, value in zip(op.results, last.operands, strict=True):
            result.replace_all_uses_with(value)
        Rewriter.erase_op(last)
        for each in inner:
            each.detach()
        Rewriter.insert_op(inner, place)
        Rewriter.erase_op(op)
