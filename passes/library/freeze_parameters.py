"""Evaluate operations that depend only on parameters once, at plan time.

Assumes  verified IR with calls inlined (``inline``); inference: frozen values do not follow later changes of
         parameters.
Ensures  operations on parameters, buffers, constants and results of such operations are in ``@frozen``, which the entry
         calls first, marked ``fx.once``: that call runs at plan time, and its results are saved.
Leaves   written tensors (``fx.mutates``) and their readers; random operators, effects, operations with regions or
         without a tensor operand; functions other than the entry; operations whose memory the entry may return, as
         callers may write it, and operations that read their results.
Cost     one walk.

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
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint

from fxc.dialects.attributes.discardable import ONCE
from fxc.passes.analysis.constants import readable_entry
from fxc.passes.analysis.statistics import count
from fxc.passes.analysis.written_arguments import bases_of
from fxc.passes.library.frozen_ops import frozen_ops
from fxc.passes.rewriting.functions import fresh_symbol
from fxc.passes.rewriting.outlining import given_to, outlined, outputs, put_call


@dataclass(frozen=True)
class FreezeParametersPass(ModulePass):
    name = "freeze-parameters"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        entry = readable_entry(op)
        if entry is None or not (chosen := _not_returned(entry, frozen_ops(entry)[0])):
            return
        given, returned = given_to(chosen), outputs(chosen)
        function = outlined(fresh_symbol(op, "frozen"), chosen, given, returned)
        call = put_call(function, chosen, given, returned, InsertPoint.at_start(entry.body.block))
        call.attributes[ONCE] = UnitAttr()
        op.body.block.add_op(function)
        count("ops frozen", len(chosen))


def _not_returned(entry: FuncOp, unchanging: Sequence[Operation]) -> list[Operation]:
    """``unchanging`` without the ops whose memory ``entry`` may return, and without those that read their results."""
    terminator = entry.body.block.last_op
    assert terminator is not None
    returned = {value for value in bases_of(*terminator.operands) if isinstance(value.owner, Operation)}
    left = list[Operation]()
    for op in unchanging:
        if returned.isdisjoint((*op.operands, *op.results)):
            left.append(op)
        else:
            returned.update(op.results)
    return left
