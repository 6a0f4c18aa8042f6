"""freeze-parameters: compute what depends on parameters alone once, when the plan is made, and not in every call.

Assumes:    verified IR without calls of other functions that matter here (``inline``). What is frozen does not follow later
            changes of the model's parameters: for inference.
Guarantees: each op whose operands are parameters, buffers, constants, or results of such ops, is in the function ``@frozen``,
            which the entry calls once, first, with the mark ``fx.once``; what others read of it is a result. Whoever makes a
            plan runs a call that is marked so, and keeps the results. Running the pass again adds another function at most.
Keeps:      what is written: arguments that the entry returns new values of (``fx.mutates``), and all that reads them. Random
            ops, ops with effects, ops with regions. Ops that read no tensor. Functions that are not the entry. Views that the
            entry returns: they may be conjugated when they are read only, and results of ``@frozen`` are not.
Cost:       one walk.

Before:
    func.func @main(%x: tensor<2x4xf32> {fx.kind = "input"}, %w: tensor<4x3xf32> {fx.kind = "parameter", fx.name = "w"}) {
      %e = torch.aten.exp.default(%w) : (tensor<4x3xf32>) -> tensor<4x3xf32>
      %n = torch.aten.neg.default(%e) : (tensor<4x3xf32>) -> tensor<4x3xf32>
      %y = torch.aten.mm.default(%x, %n) : (tensor<2x4xf32>, tensor<4x3xf32>) -> tensor<2x3xf32>
      fx.output(%y) : (tensor<2x3xf32>) -> ()
    }
After:
    func.func @main(%x: tensor<2x4xf32> {fx.kind = "input"}, %w: tensor<4x3xf32> {fx.kind = "parameter", fx.name = "w"}) {
      %n = func.call @frozen(%w) {fx.once} : (tensor<4x3xf32>) -> tensor<4x3xf32>
      %y = torch.aten.mm.default(%x, %n) : (tensor<2x4xf32>, tensor<4x3xf32>) -> tensor<2x3xf32>
      fx.output(%y) : (tensor<2x3xf32>) -> ()
    }
    func.func private @frozen(%w: tensor<4x3xf32>) -> tensor<4x3xf32> attributes {no_inline} {
      %e = torch.aten.exp.default(%w) : (tensor<4x3xf32>) -> tensor<4x3xf32>
      %n = torch.aten.neg.default(%e) : (tensor<4x3xf32>) -> tensor<4x3xf32>
      func.return %n : tensor<4x3xf32>
    }
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, UnitAttr
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from fxc.dialects.attributes.discardable import ONCE
from fxc.passes.analysis.lazy_values import may_be_lazy
from fxc.passes.analysis.statistics import count
from fxc.passes.analysis.weight_values import own_entry, own_ops
from fxc.passes.rewriting.functions import copy_op, fresh_symbol
from fxc.passes.rewriting.outlining import given_to, outlined, outputs, put_call


@dataclass(frozen=True)
class FreezeParametersPass(ModulePass):
    name = "freeze-parameters"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        entry = own_entry(op)
        if entry is None or not (chosen := _without_returned_views(entry.body.block, own_ops(entry)[0])):
            return
        given, returned = given_to(chosen), outputs(chosen)
        function = outlined(fresh_symbol(op, "frozen"), chosen, given, returned)
        call = put_call(function, chosen, given, returned, InsertPoint.at_start(entry.body.block))
        call.attributes[ONCE] = UnitAttr()
        op.body.block.add_op(function)
        count("ops frozen", len(chosen))


def _without_returned_views(block: Block, own: Sequence[Operation]) -> list[Operation]:
    """``own`` without what makes views that ``block`` returns: copies of those ops, which stay in ``block``, make them."""
    frozen, copies = dict.fromkeys(own), dict[SSAValue, SSAValue]()

    def copied(value: SSAValue) -> SSAValue:
        op = value.owner
        if isinstance(op, Operation) and op in frozen and value not in copies and may_be_lazy(value, given=True):
            for operand in op.operands:
                copied(operand)
            Rewriter.insert_op(copy_op(op, copies), InsertPoint.after(op))
        return copies.get(value, value)

    terminator = block.last_op
    assert terminator is not None
    terminator.operands = [copied(value) for value in terminator.operands]
    for op in reversed(own):
        if copies.keys() & set(op.results) and not any(result.uses for result in op.results):
            del frozen[op]
            Rewriter.erase_op(op)
    return list(frozen)
