"""State for each result whether it may require a gradient.

Assumes  verified IR with types that are up to date (``propagate-shapes``); best after ``inline``.
Ensures  operations have ``requires_grad = [true, false]``, a bool per result: false where PyTorch's result does not
         require a gradient, given the arguments with ``fx.requires_grad`` (without any: inputs and parameters), true
         where it may. Former attributes are replaced.
Leaves   functions of an ``autodiff.subgraph``, which autograd does not enter; operations without known behaviour
         (captured Python calls, unknown higher-order operators, operators with an argument ``requires_grad``): no
         attribute means true.
Cost     one walk, more for loops and writes; PyTorch runs each different call once: 0.4 ms.

Before:
    func.func @main(%w: tensor<4xf32> {fx.requires_grad}, %x: tensor<4xf32>) -> tensor<4xf32> {
      %m = torch.aten.gt.Tensor(%w, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
      %y = torch.aten.where.self(%m, %w, %x) : (tensor<4xi1>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      %z = torch.aten.exp.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
      %r = torch.aten.add.Tensor(%y, %z) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      func.return %r : tensor<4xf32>
    }
After:
    func.func @main(%w: tensor<4xf32> {fx.requires_grad}, %x: tensor<4xf32>) -> tensor<4xf32> {
      %m = torch.aten.gt.Tensor(%w, %x) {requires_grad = [false]} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
      %y = torch.aten.where.self(%m, %w, %x) {requires_grad = [true]}
         : (tensor<4xi1>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      %z = torch.aten.exp.default(%x) {requires_grad = [false]} : (tensor<4xf32>) -> tensor<4xf32>
      %r = torch.aten.add.Tensor(%y, %z) {requires_grad = [true]} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      func.return %r : tensor<4xf32>
    }
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, ModuleOp, StringAttr, TupleType
from xdsl.dialects.func import CallOp, ReturnOp
from xdsl.ir import Attribute, Operation, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.traits import IsTerminator
from xdsl.utils.exceptions import VerifyException

from fxc.dialects.attributes.types import BoolType, FloatType, IntType, NoneValueType, is_tensor
from fxc.dialects.attributes.values import bool_attr, leaves
from fxc.dialects.base.effects import writes
from fxc.dialects.context import FxcContext
from fxc.dialects.fx import CallFunctionOp, OutputOp
from fxc.dialects.torch_ops import HigherOrderOp, TorchOp
from fxc.dialects.torch_ops.constant import ConstantOp
from fxc.passes.analysis.call_graph import functions_of
from fxc.passes.analysis.matching import is_complex, is_floating
from fxc.passes.analysis.memory import Memory, is_isolated
from fxc.passes.analysis.region_calls import COND, WHILE_LOOP, region_argument, region_inputs, region_outputs
from fxc.passes.analysis.requires_grad import REQUIRES_GRAD, grad_switch, marked
from fxc.passes.rewriting.functions import differentiated_functions

_SET_GRAD = "higher_order.wrap_with_set_grad_enabled"


@dataclass(frozen=True)
class PropagateRequiresGradPass(ModulePass):
    """How the requirement of a gradient propagates.

    PyTorch is run to find out how an operation propagates gradients: ``detach``, comparisons, integers, operators without a
    derivative and those that have one for some operands only. Where PyTorch cannot run it, a float or complex result requires a
    gradient if an operand does.

    A result of a ``cond`` requires a gradient if it does in either region, one of a ``while_loop`` if it does in any iteration;
    in a region under ``wrap_with_set_grad_enabled(false, ...)`` nothing does. An argument of a private function requires a
    gradient if it does in any call. A tensor that is written with a value that requires a gradient requires one everywhere.
    """

    name = "propagate-requires-grad"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        assert isinstance(ctx, FxcContext)
        for module in [inner for inner in op.walk() if isinstance(inner, ModuleOp)]:
            _Gradients(ctx, module).run()


class _Gradients:
    """The values that may require a gradient. The set only grows; walks repeat until one adds nothing."""

    def __init__(self, context: FxcContext, module: ModuleOp) -> None:
        self.context, differentiated = context, differentiated_functions(module)
        self.functions = {name: function for name, function in functions_of(module).items() if name not in differentiated}
        self.flagged = set[SSAValue]()
        self.unknown = set[Operation]()
        self.answers = dict[tuple[object, ...], Sequence[bool] | None]()
        self.memories = dict[Operation, Memory | None]()
        self.grown, self.enabled = True, True

    def run(self) -> None:
        for function in self.functions.values():
            if function.sym_visibility != StringAttr("private"):
                self.flag(function.args, marked(function))
        while self.grown:
            self.grown = False
            for function in self.functions.values():
                self.enabled = True
                self.region(function.body)
        for function in self.functions.values():
            for op in function.walk():
                self.mark(op)

    def mark(self, op: Operation) -> None:
        """Set ``requires_grad`` on ``op``, or remove it where nothing is known about its results."""
        if not isinstance(op, (TorchOp, HigherOrderOp, CallFunctionOp, ConstantOp, CallOp)):
            return
        if isinstance(op, TorchOp) and REQUIRES_GRAD in op.PROPERTY_NAMES:
            return
        op.attributes.pop(REQUIRES_GRAD, None)
        if op.results and op not in self.unknown:
            op.attributes[REQUIRES_GRAD] = ArrayAttr([bool_attr(result in self.flagged) for result in op.results])

    def flag(self, values: Sequence[SSAValue], flags: Sequence[bool]) -> None:
        for value, flag in zip(values, flags, strict=True):
            if flag and value not in self.flagged and _can_carry(value.type):
                self.flagged.add(value)
                self.grown = True

    def is_flagged(self, value: object) -> bool:
        return value in self.flagged

    # ops

    def region(self, region: Region) -> None:
        for block in region.blocks:
            for op in block.ops:
                self.op(op)

    def op(self, op: Operation) -> None:
        match op:
            case HigherOrderOp():
                self.higher_order(op)
            case CallOp():
                self.function_call(op)
            case TorchOp() | CallFunctionOp():
                if (switch := grad_switch(op)) is not None:
                    self.enabled = switch != bool_attr(False)  # without a constant it counts as enabled
                elif self.enabled:
                    self.flag(op.results, self.answer(op))
                    self.spread_writes(op)
                elif any(map(self.is_flagged, writes(op) or ())):
                    self.flag(op.results, [True] * len(op.results))  # the written tensor itself, unchanged in this respect
            case _ if isinstance(op, ConstantOp) or op.has_trait(IsTerminator):
                pass
            case _:
                for inner in op.regions:
                    self.region(inner)
                self.unknown.add(op)
                self.flag(op.results, [True] * len(op.results))

    def answer(self, op: TorchOp | CallFunctionOp) -> Sequence[bool]:
        """Which results require a gradient according to PyTorch; where PyTorch cannot tell, all."""
        flags = tuple(map(self.is_flagged, op.operands))
        if isinstance(op, TorchOp) and REQUIRES_GRAD in op.SCHEMA.by_name:
            self.unknown.add(op)
            return [True] * len(op.results)
        if not any(flags) or not any(_can_carry(result.type) for result in op.results):
            return [False] * len(op.results)
        key = (op.name, frozenset(op.properties.items()), op.operand_types, op.result_types, flags)
        if key not in self.answers:
            try:
                self.answers[key] = self.context.semantics.requires_grad(op, flags)
            except VerifyException:
                self.answers[key] = None
        found = self.answers[key]
        return found if found is not None and len(found) == len(op.results) else [True] * len(op.results)

    def spread_writes(self, op: Operation) -> None:
        """Flag all values that may share memory with a tensor that ``op`` writes, where ``op`` involves a flagged value."""
        if not any(map(self.is_flagged, (*op.operands, *op.results))):
            return
        written = writes(op)
        if written == []:
            return
        memory = self.memory(op)
        sets = {memory.set_of(value) for value in (op.operands if written is None else written)}
        self.flag(known := [value for value in _values(_scope_of(op)) if memory.set_of(value) in sets], [True] * len(known))

    def memory(self, op: Operation) -> Memory:
        scope = _scope_of(op)
        found = self.memories.get(scope)
        if found is None:
            found = self.memories[scope] = Memory(scope)
        return found

    # regions and calls

    def higher_order(self, op: HigherOrderOp) -> None:
        before = self.enabled
        if op.operator == _SET_GRAD:
            self.set_grad(op)
        elif op.operator == COND and self.bind(op):
            for region in op.regions:
                self.region(region)
                self.give(op.results, region_outputs(region) or [])
        elif op.operator == WHILE_LOOP and (body := region_argument(op, 1)) is not None and self.bind(op):
            outputs = region_outputs(body) or []
            for region in op.regions:
                self.flag(region.block.args[: len(outputs)], list(map(self.is_flagged, outputs)))
                self.region(region)
            self.give(op.results, outputs)
            self.give(op.results, list(leaves(op.trees()[0][2])))
        else:
            self.unknown.add(op)
            any_flagged = any(map(self.is_flagged, op.operands))
            for region in op.regions:
                for block in region.blocks:
                    self.flag(block.args, [any_flagged] * len(block.args))
                self.region(region)
            self.flag(op.results, [True] * len(op.results))
        self.enabled = before

    def bind(self, op: HigherOrderOp) -> bool:
        """Propagate the flags of the inputs to the region arguments. Returns whether the inputs are known."""
        inputs = [region_inputs(op, region) for region in op.regions]
        if any(found is None for found in inputs):
            return False
        for region, found in zip(op.regions, inputs, strict=True):
            self.flag(region.block.args, list(map(self.is_flagged, found or ())))
        return True

    def give(self, results: Sequence[SSAValue], values: Sequence[object]) -> None:
        """Propagate the flags of ``values`` to ``results``; a packed result takes the flags of all of them."""
        flags = list(map(self.is_flagged, values))
        self.flag(results, flags if len(results) == len(values) else [any(flags)] * len(results))

    def set_grad(self, op: HigherOrderOp) -> None:
        """Visit the regions of ``wrap_with_set_grad_enabled(false, @sub, ...)``."""
        (switch, *_), _ = op.trees()
        self.enabled = not isinstance(switch, IntegerAttr) or bool(switch.value.data)
        for region in op.regions:
            arguments = region.block.args
            passed = op.operands[len(op.operands) - len(arguments) :]
            if len(passed) == len(arguments):
                self.flag(arguments, list(map(self.is_flagged, passed)))
            else:
                self.flag(arguments, [True] * len(arguments))
            self.region(region)
            self.give(op.results, region_outputs(region) or [])

    def function_call(self, op: CallOp) -> None:
        callee = self.functions.get(op.callee.string_value())
        if callee is None or callee.is_declaration:
            self.unknown.add(op)
            self.flag(op.results, [True] * len(op.results))
            return
        self.flag(callee.args, list(map(self.is_flagged, op.operands)))
        last = callee.body.block.last_op if len(callee.body.blocks) == 1 else None
        returned: list[object] = []
        if isinstance(last, ReturnOp):
            returned = list(last.operands)
        elif isinstance(last, OutputOp):
            returned = list(leaves(last.trees()[0]))
        self.give(op.results, returned)


def _can_carry(type: Attribute) -> bool:
    """Whether a value of ``type`` may require a gradient: false for integers, bools and host numbers."""
    if isinstance(type, TupleType):
        return any(map(_can_carry, type.types.data))
    if is_tensor(type):
        return is_floating(type) or is_complex(type)
    return not isinstance(type, (IntType, FloatType, BoolType, NoneValueType))


def _scope_of(op: Operation) -> Operation:
    scope = op.parent_op()
    while scope is not None and not is_isolated(scope):
        scope = scope.parent_op()
    assert scope is not None
    return scope


def _values(scope: Operation) -> list[SSAValue]:
    """The values of ``scope`` at any depth, without those of nested scopes."""
    found = list[SSAValue]()
    for region in scope.regions:
        for block in region.blocks:
            found += block.args
            for op in block.ops:
                found += op.results
                if op.regions and not is_isolated(op):
                    found += _values(op)
    return found
