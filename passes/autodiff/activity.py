"""Activity analysis: which values of a function carry a gradient."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from fxc.dialects.attributes.values import isa
from fxc.dialects.autodiff import (
    AddOp,
    MaterializeOp,
    SumToSizeOp,
    ZeroOp,
    gradient_type,
    is_differentiable,
)
from fxc.dialects.base.effects import writes
from fxc.dialects.context import FxcContext
from fxc.dialects.fx import PositionalCall
from fxc.dialects.semantics import Vjp
from fxc.dialects.torch_ops import HigherOrderOp, TorchOp
from fxc.dialects.torch_ops.constant import ConstantOp
from fxc.passes.analysis.requires_grad import requires_grad
from fxc.passes.analysis.statistics import count
from fxc.passes.operators.table import operator_of
from fxc.passes.rewriting.functions import copy_body, declare

TWICE = "autodiff.twice"
"""The attribute of a derivative that may be differentiated again, whichever function it is the derivative of."""

UNREACHED = "autodiff.unreached"
"""The attribute of a differentiated function that lists inputs whose gradient is requested, but always zero."""


_DEEPEST = 8
"""How often a forward of a forward is differentiated; one that saves what its operation needs has no other."""


def unreached_inputs(function: FuncOp) -> list[int]:
    """The inputs listed in the attribute UNREACHED."""
    found = function.attributes.get(UNREACHED)
    return [i.value.data for i in found if isinstance(i, IntegerAttr)] if isa(found, ArrayAttr) else []


class Activity:
    """Which values of a function carry a gradient.

    The analysis replaces the ops whose backward needs values other than their operands and results.
    """

    def __init__(
        self, module: ModuleOp, context: FxcContext, function: FuncOp, needs: Sequence[bool], twice: bool = False
    ) -> None:
        self.module, self.semantics, self.block, self.twice = module, context.semantics, function.body.block, twice
        self.refused, self._depth = False, 0
        if len(function.body.blocks) != 1 or not isinstance(self.block.last_op, ReturnOp):
            raise VerifyException(
                f"@{function.sym_name.data} must have one block that ends in func.return to be differentiated"
            )
        self.active: set[SSAValue] = {
            arg for arg, need in zip(self.block.args, needs, strict=True) if need and is_differentiable(arg.type)
        }

    def needs(self, op: Operation) -> list[bool]:
        return [value in self.active for value in op.operands]

    def split(self) -> None:
        """Replace ops by their forwards where their backward needs more values, and compute the active values."""
        for op in list(self.block.ops)[:-1]:
            self.visit(op)

    def visit(self, op: Operation) -> None:
        check(op)
        if not any(self.needs(op)):
            return
        if isinstance(op, (AddOp, MaterializeOp, SumToSizeOp)):
            self.active.add(op.results[0])
            return
        if (vjp := self.vjp(op)) is None:
            return
        declare(self.module, vjp.declarations)
        if vjp.forward is not None:
            self.replace(op, vjp.forward)
        elif vjp.gradients:
            self.active.update(op.results[i] for i in vjp.cotangents if requires_grad(op.results[i]))

    def vjp(self, op: Operation, given: Mapping[int, Attribute] | None = None) -> Vjp | None:
        """The backward of ``op`` for gradients of the types ``given``; None where no result may have a gradient.

        By default each differentiable result has a gradient. Where PyTorch cannot trace the twice differentiable backward, this
        is the ordinary one.
        """
        if given is None:
            given = {i: gradient_type(r.type) for i, r in enumerate(op.results) if is_differentiable(r.type)}
        if not given:
            return None
        twice = self.twice or operator_of(op).other_derivative
        try:
            return self.semantics.vjp(op, self.needs(op), given, twice=twice)
        except VerifyException:
            if not twice:
                raise
        self.refused = True
        return self.semantics.vjp(op, self.needs(op), given)

    def replace(self, op: Operation, forward: FuncOp) -> None:
        if self._depth == _DEEPEST:
            raise VerifyException(f"{op.name} cannot be differentiated: each derivative of its forward saves other values")
        stopped = [not requires_grad(result) for result in op.results]
        copies, returned = copy_body(forward, list(dict.fromkeys(op.operands)), op)
        self.block.insert_ops_before(copies, op)
        self._depth += 1
        for copy in copies:
            self.visit(copy)
        self._depth -= 1
        for old, new, stop in zip(op.results, returned, stopped, strict=True):
            if old.type != new.type:
                raise VerifyException(f"{op.name} is of type {old.type}, but PyTorch computes {new.type} under autograd")
            name = old._name
            old.replace_all_uses_with(new)
            if not isinstance(new, BlockArgument):
                new._name = name
                if stop:
                    self.active.discard(new)
        self.block.erase_op(op)
        count("ops split for their backward")


def check(op: Operation) -> None:
    """VerifyException where ``op`` cannot be differentiated."""
    known = isinstance(op, (TorchOp, HigherOrderOp, ConstantOp, PositionalCall, ZeroOp))
    if not known:
        hint = "run lower-grad-of and specialize-autograd-zero first" if op.regions else "inline it first"
        raise VerifyException(f"{op.name} cannot be differentiated: {hint}")
    if writes(op) != []:
        raise VerifyException(f"{op.name} writes to memory: run functionalize before differentiate")
