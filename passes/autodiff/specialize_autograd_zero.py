"""Simplify derivatives for gradients that are known to be defined or undefined.

Assumes  ``lower-grad-of`` ran. Arguments marked ``autodiff.undefined`` or ``autodiff.defined`` have this state in every
         call; the state of others is unknown.
Ensures  where the state of a gradient is known, ``autodiff.add``, ``materialize`` and ``sum_to_size`` are the gradient,
         ``aten`` operators or ``autodiff.zero``, and an ``scf.if`` on ``autodiff.any_nonzero`` is its body or
         ``autodiff.zero``.
Leaves   tensors of zeros, which are defined; an if on gradients of unknown state; operations that only erased ones read
         (``dce``).
Cost     one walk.

Before:
  func.func @df(%g: tensor<2xf32> {autodiff.defined}, %h: tensor<2xf32> {autodiff.undefined}) -> tensor<2xf32> {
    %s = autodiff.add(%g, %h) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    %there = autodiff.any_nonzero(%s) : (tensor<2xf32>) -> i1
    %dx = scf.if %there -> (tensor<2xf32>) {
      %n = torch.aten.neg.default(%s) : (tensor<2xf32>) -> tensor<2xf32>
      scf.yield %n : tensor<2xf32>
    } else {
      %z = autodiff.zero : tensor<2xf32>
      scf.yield %z : tensor<2xf32>
    }
    %r = autodiff.add(%dx, %g) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    func.return %r : tensor<2xf32>
  }

After:
  func.func @df(%g: tensor<2xf32> {autodiff.defined}, %h: tensor<2xf32> {autodiff.undefined}) -> tensor<2xf32> {
    %there = autodiff.any_nonzero(%g) : (tensor<2xf32>) -> i1
    %n = torch.aten.neg.default(%g) : (tensor<2xf32>) -> tensor<2xf32>
    %r = torch.aten.add.Tensor(%n, %g) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    func.return %r : tensor<2xf32>
  }
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.dialects.scf import IfOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.utils.exceptions import VerifyException

from fxc.dialects.attributes.types import device, dtype_name, tensor_of
from fxc.dialects.attributes.values import NoneValueAttr, Tree, device_attr, dtype_attr
from fxc.dialects.autodiff import DEFINED, UNDEFINED, AddOp, AnyNonzeroOp, MaterializeOp, SubgraphOp, SumToSizeOp, ZeroOp
from fxc.dialects.entry import argument_attributes
from fxc.dialects.fusion import GroupOp
from fxc.dialects.torch_ops import HigherOrderOp, TorchOp, op_class
from fxc.dialects.torch_ops.constant import ConstantOp
from fxc.passes.analysis.statistics import count


@dataclass(frozen=True)
class SpecializeAutogradZeroPass(ModulePass):
    """The states of gradients, and the simplifications that follow from them.

    A gradient is undefined, defined or unknown, and unknown unless proven otherwise. ``autodiff.zero`` is undefined; results of
    ``torch`` operations and of ``autodiff.materialize`` are defined.

    ``autodiff.add`` of an undefined gradient and another one is the other; of two defined ones it is ``aten.add``.
    ``autodiff.materialize`` of a defined gradient is the gradient, of an undefined one ``aten.zeros``. ``autodiff.sum_to_size``
    without a size is its gradient, of a defined one ``aten.sum_to_size``.

    An ``scf.if`` on ``autodiff.any_nonzero`` of undefined gradients is ``autodiff.zero``. Where one of them is defined, the
    body replaces the if, and is simplified again. In the body of an if that stays, a gradient that is the only one which may be
    defined is defined; in its else branch all are undefined.
    """

    name = "specialize-autograd-zero"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in [inner for inner in op.walk() if isinstance(inner, FuncOp) and len(inner.body.blocks) == 1]:
            if any(isinstance(inner, (AnyNonzeroOp, AddOp, SumToSizeOp, MaterializeOp)) for inner in function.walk()):
                _Specialization(function).run()


class _State(Enum):
    """The state of a gradient."""

    UNDEFINED = auto()
    DEFINED = auto()
    UNKNOWN = auto()


class _Specialization:
    def __init__(self, function: FuncOp) -> None:
        self.function = function
        self.states = dict[SSAValue, _State]()

    def run(self) -> None:
        arguments = self.function.body.block.args
        for argument, attributes in zip(arguments, argument_attributes(self.function), strict=True):
            marks = [state for mark, state in _MARKS.items() if mark in attributes.data]
            if len(marks) > 1:
                raise VerifyException(f"an argument of @{self.function.sym_name.data} is marked both defined and undefined")
            if marks:
                self.states[argument] = marks[0]
        self.block(self.function.body.block, {})

    def state(self, value: SSAValue, here: Mapping[SSAValue, _State]) -> _State:
        """The state of ``value``; ``here`` has the states that hold in the current branch."""
        return here.get(value, self.states.get(value, _State.UNKNOWN))

    def block(self, block: Block, here: Mapping[SSAValue, _State]) -> None:
        op = block.first_op
        while op is not None:
            op = self.op(op, here)

    def op(self, op: Operation, here: Mapping[SSAValue, _State]) -> Operation | None:
        """Rewrite ``op``. Returns the next op to visit."""
        following = op.next_op
        match op:
            case ZeroOp():
                self.states[op.result] = _State.UNDEFINED
            case TorchOp() | HigherOrderOp() | ConstantOp() | SubgraphOp() | GroupOp():
                self.states.update((result, _State.DEFINED) for result in op.results)
            case AddOp():
                self.add(op, here)
            case MaterializeOp():
                self.materialize(op, here)
            case SumToSizeOp():
                self.sum_to_size(op, here)
            case IfOp():
                return self.branch(op, here) or following
            case _:
                pass
        return following

    def replace(self, op: Operation, value: SSAValue) -> None:
        """Replace the single result of ``op`` by ``value``, where the types are equal."""
        result = op.results[0]
        if result.type == value.type:
            name = value._name
            result.replace_all_uses_with(value)
            value._name = name
            Rewriter.erase_op(op)
            count("gradients specialized")

    def replace_by(self, op: Operation, new: Operation, state: _State) -> None:
        new.location, new.results[0]._name = op.location, op.results[0]._name
        Rewriter.insert_op(new, InsertPoint.before(op))
        self.states[new.results[0]] = state
        self.replace(op, new.results[0])

    def add(self, op: AddOp, here: Mapping[SSAValue, _State]) -> None:
        (a, b), _ = op.trees()
        states = [self.state(value, here) for value in (a, b)]
        if states[0] is _State.UNDEFINED:
            self.replace(op, b)
        elif states[1] is _State.UNDEFINED:
            self.replace(op, a)
        elif states == [_State.DEFINED] * 2:
            self.replace_by(op, _call("torch.aten.add.Tensor", [a, b], {}, op), _State.DEFINED)
        elif _State.DEFINED in states:
            self.states[op.results[0]] = _State.DEFINED

    def materialize(self, op: MaterializeOp, here: Mapping[SSAValue, _State]) -> None:
        (gradient, size), _ = op.trees()
        self.states[op.results[0]] = _State.DEFINED
        if self.state(gradient, here) is _State.DEFINED:
            self.replace(op, gradient)
        elif self.state(gradient, here) is _State.UNDEFINED:
            type = tensor_of(op.results[0])
            options: dict[str, Tree] = {"dtype": dtype_attr(dtype_name(type.element_type)), "device": device_attr(device(type))}
            self.replace_by(op, _call("torch.aten.zeros.default", [size], options, op), _State.DEFINED)

    def sum_to_size(self, op: SumToSizeOp, here: Mapping[SSAValue, _State]) -> None:
        (gradient, size), _ = op.trees()
        state = self.state(gradient, here)
        if isinstance(size, NoneValueAttr):
            self.replace(op, gradient)
        elif state is _State.UNDEFINED:
            self.replace_by(op, ZeroOp.of(op.results[0].type), state)
        elif state is _State.DEFINED and isinstance(size, list):
            self.replace_by(op, _call("torch.aten.sum_to_size.default", [gradient, size], {}, op), state)
        else:
            self.states[op.results[0]] = state

    def branch(self, op: IfOp, here: Mapping[SSAValue, _State]) -> Operation | None:
        """Simplify ``op``. Returns the next op to visit, where the if is erased."""
        there = op.cond.owner
        gradients = there.operands if isinstance(there, AnyNonzeroOp) else ()
        states = [self.state(value, here) for value in gradients]
        if states and all(state is _State.UNDEFINED for state in states):
            return self.undefined(op)
        if _State.DEFINED in states and op.true_region.blocks:
            return self.hoist(op)
        self.inside(op, gradients, states, here)
        return None

    def undefined(self, op: IfOp) -> Operation | None:
        following = op.next_op
        zeros = {type: ZeroOp.of(type) for type in op.result_types}
        for zero in zeros.values():
            zero.location = op.location
            self.states[zero.result] = _State.UNDEFINED
        Rewriter.insert_op(list(zeros.values()), InsertPoint.before(op))
        for result in op.results:
            result.replace_all_uses_with(zeros[result.type].result)
        Rewriter.erase_op(op)
        count("branches removed")
        return following

    def hoist(self, op: IfOp) -> Operation | None:
        """Move the body before the if, and visit it again, because its gradients are no longer guarded."""
        block, around = op.true_region.block, op.parent
        last = block.last_op
        assert last is not None and around is not None
        following = op.next_op
        moved = list(block.ops)[:-1]
        for inner in moved:
            inner.detach()
            around.insert_op_before(inner, op)
        for result, value in zip(op.results, last.operands, strict=True):
            name = value._name or result._name
            result.replace_all_uses_with(value)
            value._name = name
        Rewriter.erase_op(op)
        count("branches taken")
        return moved[0] if moved else following

    def inside(
        self, op: IfOp, gradients: Sequence[SSAValue], states: Sequence[_State], here: Mapping[SSAValue, _State]
    ) -> None:
        possible = {value for value, state in zip(gradients, states, strict=True) if state is not _State.UNDEFINED}
        then = dict.fromkeys(possible, _State.DEFINED) if len(possible) == 1 else {}
        otherwise = dict.fromkeys(possible, _State.UNDEFINED)
        ends = list[list[_State]]()
        for region, known in ((op.true_region, then), (op.false_region, otherwise)):
            for block in region.blocks:
                self.block(block, {**here, **known})
                assert block.last_op is not None
                ends.append([self.state(value, {**here, **known}) for value in block.last_op.operands])
        for result, found in zip(op.results, zip(*ends, strict=True), strict=False):
            if len(ends) == 2 and found[0] is found[1]:
                self.states[result] = found[0]


_MARKS = {UNDEFINED: _State.UNDEFINED, DEFINED: _State.DEFINED}


def _call(name: str, args: Sequence[Tree], kwargs: Mapping[str, Tree], op: Operation) -> Operation:
    cls = op_class(name)
    assert cls is not None and issubclass(cls, TorchOp)
    return cls.build_call(args, kwargs, op.result_types)
