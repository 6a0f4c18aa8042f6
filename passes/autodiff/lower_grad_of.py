"""Lower each ``autodiff.grad_of`` to an ``scf.if`` on whether one of its gradients is defined.

Assumes  verified IR.
Ensures  there is no ``autodiff.grad_of``: its body is the branch taken where ``autodiff.any_nonzero`` of its gradients
         holds; in the other branch every result is ``autodiff.zero``, one per type. A ``grad_of`` nested in another is
         an error, because it would be guarded twice.
Leaves   the operations in the body, and ifs with a known condition (``specialize-autograd-zero``).
Cost     one walk; bodies are moved, not copied.

Before:
  func.func @df(%g: tensor<2xf32>, %x: tensor<2xf32>) -> tensor<2xf32> {
    %dx = autodiff.grad_of "aten.sin.default"(%g) ({
      %c = torch.aten.cos.default(%x) : (tensor<2xf32>) -> tensor<2xf32>
      %p = torch.aten.mul.Tensor(%g, %c) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
      autodiff.yield %p : tensor<2xf32>
    }) : (tensor<2xf32>) -> tensor<2xf32>
    func.return %dx : tensor<2xf32>
  }

After:
  func.func @df(%g: tensor<2xf32>, %x: tensor<2xf32>) -> tensor<2xf32> {
    %there = autodiff.any_nonzero(%g) : (tensor<2xf32>) -> i1
    %dx = scf.if %there -> (tensor<2xf32>) {
      %c = torch.aten.cos.default(%x) : (tensor<2xf32>) -> tensor<2xf32>
      %p = torch.aten.mul.Tensor(%g, %c) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
      scf.yield %p : tensor<2xf32>
    } else {
      %z = autodiff.zero : tensor<2xf32>
      scf.yield %z : tensor<2xf32>
    }
    func.return %dx : tensor<2xf32>
  }
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, i1
from xdsl.dialects.scf import IfOp, YieldOp
from xdsl.ir import Attribute, Block, Region
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.utils.exceptions import VerifyException

from fxc.dialects.autodiff import AnyNonzeroOp, GradOfOp, ZeroOp
from fxc.dialects.text.syntax import copy_names
from fxc.passes.analysis.statistics import count


@dataclass(frozen=True)
class LowerGradOfPass(ModulePass):
    name = "lower-grad-of"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for grad_of in [inner for inner in op.walk() if isinstance(inner, GradOfOp)]:
            _lower(grad_of)
            count("grad_ofs lowered")


def _lower(op: GradOfOp) -> None:
    if any(isinstance(inner, GradOfOp) for inner in op.body.walk()):
        raise VerifyException(f'autodiff.grad_of "{op.label.data}" holds another autodiff.grad_of')
    there = AnyNonzeroOp.of(*op.operands, type=i1)
    body = op.detach_region(op.body)
    last = body.block.last_op
    assert last is not None
    values = last.operands
    body.block.erase_op(last)
    body.block.add_op(YieldOp(*values))
    zeros = dict[Attribute, ZeroOp]()
    for type in op.result_types:
        zeros.setdefault(type, ZeroOp.of(type))
    otherwise = Block([*zeros.values(), YieldOp(*(zeros[type].result for type in op.result_types))])
    branch = IfOp(there.results[0], op.result_types, body, Region(otherwise))
    there.location = branch.location = op.location
    copy_names(op.results, branch.results)
    Rewriter.insert_op([there, branch], InsertPoint.before(op))
    for old, new in zip(op.results, branch.results, strict=True):
        old.replace_all_uses_with(new)
        new._name = old._name
    Rewriter.erase_op(op)
