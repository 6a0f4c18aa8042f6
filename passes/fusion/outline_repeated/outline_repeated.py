"""Outline repeated sequences of operations, such as the layers of a transformer, into one function.

Assumes  verified IR.
Ensures  at least ``least`` sequences of at least ``shortest`` operations that compute the same function of different
         values, consecutive except for constants, are calls of one ``no_inline`` function with the operations of the
         first. Values that differ, such as weights, are arguments.
Leaves   random operators, effects and the order of operations around them; readers of arguments that the function
         writes back (``fx.mutates``); functions of ``autodiff.subgraph``; sequences that differ in an attribute, a
         type, or in their def-use edges; host constants.
Cost     for n operations, n log n for each function that is created.

Before:
    func.func @main(%x: tensor<4x4xf32>, %v: tensor<4x4xf32>, %w: tensor<4x4xf32>) {
      %a = torch.aten.mm.default(%x, %v) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
      %b = torch.aten.relu.default(%a) : (tensor<4x4xf32>) -> tensor<4x4xf32>
      %c = torch.aten.add.Tensor(%b, %x) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
      %d = torch.aten.sigmoid.default(%c) : (tensor<4x4xf32>) -> tensor<4x4xf32>
      %e = torch.aten.mm.default(%d, %w) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
      %f = torch.aten.relu.default(%e) : (tensor<4x4xf32>) -> tensor<4x4xf32>
      %g = torch.aten.add.Tensor(%f, %d) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
      %h = torch.aten.sigmoid.default(%g) : (tensor<4x4xf32>) -> tensor<4x4xf32>
      fx.output(%h) : (tensor<4x4xf32>) -> ()
    }
After:
    func.func @main(%x: tensor<4x4xf32>, %v: tensor<4x4xf32>, %w: tensor<4x4xf32>) {
      %d = func.call @repeated(%x, %v) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
      %h = func.call @repeated(%d, %w) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
      fx.output(%h) : (tensor<4x4xf32>) -> ()
    }
    func.func private @repeated(%x: tensor<4x4xf32>, %v: tensor<4x4xf32>) -> tensor<4x4xf32> attributes {no_inline} {
      %a = torch.aten.mm.default(%x, %v) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
      %b = torch.aten.relu.default(%a) : (tensor<4x4xf32>) -> tensor<4x4xf32>
      %c = torch.aten.add.Tensor(%b, %x) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
      %d = torch.aten.sigmoid.default(%c) : (tensor<4x4xf32>) -> tensor<4x4xf32>
      func.return %d : tensor<4x4xf32>
    }
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from fxc.dialects.base.effects import is_pure, is_view
from fxc.dialects.entry import updated_arguments
from fxc.passes.analysis.constants import is_scalar_constant
from fxc.passes.analysis.statistics import count
from fxc.passes.analysis.structural_key import Structures
from fxc.passes.fusion.outline_repeated.repeated_ops import Runs, Sequence
from fxc.passes.rewriting.functions import differentiated_functions, symbols_of
from fxc.passes.rewriting.outlining import NO_INLINE, outlined, put_call


@dataclass(frozen=True)
class OutlineRepeatedPass(ModulePass):
    """Outline repeated sequences of operations, such as the layers of a transformer, into one function.

    The sequences that save most are outlined first. They start at an operation that is not fused, where that costs less than a
    seventh of what is saved, so that fusible operations stay in one function. Each has at least one operation that is not
    fused. If a tensor has 64 different views or more, the views are moved directly after it, and each call has its view as an
    argument.
    """

    name = "outline-repeated"

    shortest: int = field(default=4, metadata={"minimum": 1})
    least: int = field(default=2, metadata={"minimum": 2})
    """The least number of equal runs for which a function is created."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for module in [inner for inner in op.walk() if isinstance(inner, ModuleOp)]:
            symbols, kept = symbols_of(module), differentiated_functions(module)
            for function in [inner for inner in module.ops if isinstance(inner, FuncOp)]:
                marked = NO_INLINE in function.attributes or function.sym_name.data in kept
                if len(function.body.blocks) == 1 and not marked:
                    gather_pieces(function)
                    sequence = Sequence(function)
                    while (runs := sequence.most_repeated(self.shortest, self.least)) is not None:
                        module.body.block.add_op(_outline(symbols.fresh("repeated"), runs))
                        count("functions made")
                        count("runs outlined", len(runs.members))


def _outline(name: str, runs: Runs) -> FuncOp:
    """Create a function from the first run, and replace all runs by calls of it."""
    function = outlined(name, runs.members[0], runs.arguments[0], runs.results[0])
    made = dict[SSAValue, SSAValue]()
    for members, given, returned in zip(runs.members, runs.arguments, runs.results, strict=True):
        call = put_call(function, members, [made.get(v, v) for v in given], returned, InsertPoint.after(members[-1]))
        made |= zip(returned, call.results, strict=True)
    return function


MANY = 64
"""The number of different views from which a tensor counts as read in pieces.

One kernel for all steps of a loop saves about two microseconds a step at run time, and takes 30 ms a step to compile.
"""


def gather_pieces(function: FuncOp) -> None:
    """Move the views of a tensor that has many different ones in ``function``, of one block, directly after it.

    The steps of a loop are then equal for all pieces. The pieces of a tensor that is written do not move.
    """
    updated, block = updated_arguments(function), function.body.block
    for tensor, views in _pieces(block).items():
        if tensor in updated or not all(is_pure(use.operation) for use in tensor.uses):
            continue
        last = tensor.owner
        for view in views:
            for number in view.operands[1:]:
                _move(number.owner, block)
            _move(view, last)
            last = view
        count("pieces gathered", len(views))


def _pieces(block: Block) -> dict[SSAValue, list[Operation]]:
    """Tensor with many different views in ``block`` -> the views, whose only other operands are host constants."""
    structures, views = Structures(), dict[SSAValue, dict[Operation, Hashable]]()
    for op in block.ops:
        if op.operands and len(op.results) == 1 and is_view(op) and all(map(is_scalar_constant, op.operands[1:])):
            views.setdefault(op.operands[0], {})[op] = structures.key(op)
    return {tensor: list(found) for tensor, found in views.items() if len({*found.values()}) >= MANY}


def _move(op: Operation | Block, behind: Operation | Block) -> None:
    """Move ``op`` directly after another op, or to the start of a block."""
    assert isinstance(op, Operation)
    op.detach()
    Rewriter.insert_op(op, InsertPoint.at_start(behind) if isinstance(behind, Block) else InsertPoint.after(behind))
