"""Replace what runs under ``no_grad`` by operators on detached values.

Assumes  the torch level, as captured: every operand and result is typed.
Ensures  the region of a ``wrap_with_set_grad_enabled`` is inlined, and calls of ``set_grad_enabled`` are removed; what
         runs without gradients reads and writes ``detach`` of operands from outside. A result that is such an operand,
         as of a write or ``x.to(x.dtype)``, is the operand itself.
Leaves   result types, and which results require a gradient; a region that disables gradients around one that enables
         them, with its contents; a region whose switch is not constant, and a block with such a call.
Cost     one walk.

Before:
  func.func @main(%x: tensor<3xf32>, %c: tensor<3xf32>) -> tensor<3xf32> {
    %t = torch.higher_order.wrap_with_set_grad_enabled(false, @submod, %c, %x) ({
    ^bb0(%b: tensor<3xf32>, %a: tensor<3xf32>):
      %m = torch.aten.add_.Tensor(%b, %a) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
      fx.output((%m,)) : (tensor<3xf32>) -> ()
    }) : (tensor<3xf32>, tensor<3xf32>) -> tuple<tensor<3xf32>>
    %m = fx.call_function @operator.getitem(%t, 0) : (tuple<tensor<3xf32>>) -> tensor<3xf32>
    %y = torch.aten.mul.Tensor(%x, %m) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    fx.output(%y) : (tensor<3xf32>) -> ()
  }

After:
  func.func @main(%x: tensor<3xf32>, %c: tensor<3xf32>) -> tensor<3xf32> {
    %0 = torch.aten.detach.default(%c) : (tensor<3xf32>) -> tensor<3xf32>
    %1 = torch.aten.detach.default(%x) : (tensor<3xf32>) -> tensor<3xf32>
    %m = torch.aten.add_.Tensor(%0, %1) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %y = torch.aten.mul.Tensor(%x, %c) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    fx.output(%y) : (tensor<3xf32>) -> ()
  }
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp
from xdsl.ir import Block, BlockArgument, Operation, OpResult, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from fxc.dialects.attributes.types import is_tensor
from fxc.dialects.attributes.values import bool_attr, isa, leaves
from fxc.dialects.base.effects import reshapes
from fxc.dialects.context import FxcContext
from fxc.dialects.semantics import CannotInfer, Semantics
from fxc.dialects.torch_ops import HigherOrderOp, TorchOp
from fxc.dialects.torch_ops.operators import torch_op
from fxc.passes.analysis.region_calls import inline_region
from fxc.passes.analysis.requires_grad import grad_switch
from fxc.passes.analysis.statistics import count
from fxc.passes.analysis.tuples import selected_index

_SET_GRAD = "higher_order.wrap_with_set_grad_enabled"


@dataclass(frozen=True)
class LowerGradModePass(ModulePass):
    name = "lower-grad-mode"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        assert isinstance(ctx, FxcContext)
        for inner in reversed(list(op.walk())):
            is_on = _switch(inner)
            if is_on is None or (_within_off(inner) if is_on else any(map(_switch, inner.walk()))):
                continue
            assert isinstance(inner, HigherOrderOp)
            if not is_on:
                _detach_arguments(inner.regions[0].block, ctx.semantics)
            inline_region(inner, inner.regions[0], list(leaves(inner.trees()[0][2:])))
            count("regions")
        for block in [block for inner in op.walk() for region in inner.regions for block in region.blocks]:
            _lower_calls(block, ctx.semantics)


def _lower_calls(block: Block, semantics: Semantics) -> None:
    """Remove the calls of ``set_grad_enabled`` from ``block``; what runs without gradients reads detached values."""
    calls = {op: switch for op in block.ops if (switch := grad_switch(op)) is not None}
    if not all(isinstance(switch, IntegerAttr) for switch in calls.values()):
        return
    is_on, inside = True, set[SSAValue]()
    detached, outside = dict[SSAValue, SSAValue](), dict[SSAValue, SSAValue]()
    for op in list(block.ops) if calls else ():
        if op in calls:
            is_on, detached = calls[op] != bool_attr(False), {}
            Rewriter.erase_op(op)
        elif is_on or op is block.last_op:
            op.operands = [outside.get(_source(value, semantics), value) if value in inside else value for value in op.operands]
        elif selected_index(op) is not None and inside.isdisjoint(op.operands):
            continue  # an element of a value from outside
        else:
            for index, value in enumerate(op.operands):
                if is_tensor(value.type) and value not in inside:
                    if value not in detached:
                        detached[value] = _detach(value, op)
                        outside[detached[value]] = value
                    op.operands[index] = detached[value]
            inside.update(op.results)
            count("operations")


def _detach(value: SSAValue, before: Operation) -> SSAValue:
    """Insert ``detach`` of ``value`` before an operation."""
    detach = torch_op("aten.detach.default").build_call([value], {}, [value.type], location=before.location)
    Rewriter.insert_op(detach, InsertPoint.before(before))
    return detach.results[0]


def _switch(op: Operation) -> bool | None:
    """Whether ``op``, ``wrap_with_set_grad_enabled(switch, region, ...)``, enables gradients; None for any other op."""
    if not isinstance(op, HigherOrderOp) or op.operator != _SET_GRAD:
        return None
    switch = op.trees()[0][0]
    return bool(switch.value.data) if isinstance(switch, IntegerAttr) else None


def _within_off(op: Operation) -> bool:
    parent = op.parent_op()
    return parent is not None and (_switch(parent) is False or _within_off(parent))


def _detach_arguments(block: Block, semantics: Semantics) -> None:
    """Let the ops of ``block`` read ``detach`` of its arguments. Arguments that the block returns stay."""
    last = block.last_op
    assert last is not None
    sources = [_source(value, semantics) for value in last.operands]
    last.operands = [s if isinstance(s.owner, Block) else value for s, value in zip(sources, last.operands, strict=True)]
    for argument in reversed(block.args):
        readers = [use for use in argument.uses if use.operation is not last]
        if readers and is_tensor(argument.type):
            assert block.first_op is not None
            detached = _detach(argument, block.first_op)
            for use in readers:
                use.operation.operands[use.index] = detached


def _source(value: SSAValue, semantics: Semantics) -> SSAValue:
    """The value that ``value`` is, looking through operators that return an operand, as those that write it do."""
    while (given := _returned(value, semantics)) is not None:
        value = given
    return value


def _returned(value: SSAValue, semantics: Semantics) -> SSAValue | None:
    """The operand that is ``value``, a result, or an element of a tuple that is one."""
    assert isinstance(value, OpResult | BlockArgument)
    op, place = value.owner, value.index
    if isinstance(op, Operation) and (selected := selected_index(op)) is not None:
        op, place = op.operands[0].owner, selected
    if not isinstance(op, TorchOp):
        return None
    returned = [r.alias for r in op.SCHEMA.returns if r.writes]
    sources = [a.name for a in op.SCHEMA.arguments if a.writes and [a.alias] == returned]
    if len(sources) == 1 and isa(source := op.bound().get(sources[0]), SSAValue):
        return source if source.type == value.type and not reshapes(op) else None
    if value.type not in op.operand_types:
        return None
    try:
        return next((op.operands[j] for i, j in semantics.returned(op) if i == place), None)
    except CannotInfer:
        return None
