"""Which values require a gradient, according to the attributes in the IR."""

from __future__ import annotations

from xdsl.dialects.builtin import ArrayAttr, IntegerAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue

from fxc.dialects.attributes.values import Tree, bool_attr, isa
from fxc.dialects.autodiff import is_differentiable
from fxc.dialects.entry import ArgumentFacts, argument_attributes
from fxc.dialects.fx import CallFunctionOp
from fxc.dialects.torch_ops.base import TorchOp

_SWITCHES = ("torch._C._set_grad_enabled", "torch.set_grad_enabled")

REQUIRES_GRAD = "requires_grad"
"""A discardable attribute of an op: a boolean for each result. Without it, any result may require a gradient."""

ARGUMENT = "fx.requires_grad"
"""The unit attribute of a function argument that requires a gradient. Where no argument has it, inputs and parameters may."""

FROZEN = "fx.frozen"
"""The unit attribute of an argument that requires no gradient: a parameter that is not trained, a constant of a derivative."""


def grad_switch(op: Operation) -> Tree | None:
    """What a call of ``set_grad_enabled`` sets for the operations after it, a number or a value; None for any other op."""
    if isinstance(op, TorchOp):
        is_switch = op.operator == "aten.set_grad_enabled.default"
    else:
        is_switch = isinstance(op, CallFunctionOp) and op.call_target() in _SWITCHES
    if not is_switch or not isinstance(op, (TorchOp, CallFunctionOp)):
        return None
    args, kwargs = op.trees()
    return next(iter([*args, *kwargs.values()]))


def requires_grad(value: SSAValue) -> bool:
    """Whether ``value`` may require a gradient."""
    if not is_differentiable(value.type):
        return False
    owner = value.owner
    if isinstance(owner, Block):
        function = owner.parent_op()
        return not isinstance(function, FuncOp) or function.body.first_block is not owner or marked(function)[value.index]  # type: ignore[attr-defined]
    flags = owner.attributes.get(REQUIRES_GRAD)
    if not isa(flags, ArrayAttr) or len(flags.data) != len(owner.results):
        return True
    flag = flags.data[value.index]  # type: ignore[attr-defined]
    return not (isinstance(flag, IntegerAttr) and flag == bool_attr(False))


def marked(function: FuncOp) -> list[bool]:
    """For each argument of ``function``, whether it may require a gradient."""
    attributes = argument_attributes(function)
    if any(ARGUMENT in found.data for found in attributes):
        return [ARGUMENT in found.data for found in attributes]
    return [FROZEN not in found.data and ArgumentFacts.of(found).kind in ("input", "parameter") for found in attributes]


def needs_gradient(op: Operation) -> bool:
    """Whether an attribute of ``op`` states that a result requires a gradient; autograd does not see the ops in a group."""
    flags = op.attributes.get("requires_grad")
    return isa(flags, ArrayAttr) and bool_attr(True) in flags.data
