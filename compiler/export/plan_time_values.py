"""Evaluate calls with the attribute ``fx.once`` at plan time. They compute values from the model's tensors only."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Any

import torch
from xdsl.dialects.func import CallOp, FuncOp
from xdsl.ir import BlockArgument, SSAValue

from fxc.dialects.attributes.discardable import ONCE
from fxc.dialects.entry import ArgumentFacts, argument_attributes
from fxc.dialects.text.syntax import op_text
from fxc.errors import InputError, WeightsError
from fxc.interpret.torch_level import ReferenceInterpreter
from fxc.passes.analysis.call_graph import functions_of
from fxc.passes.analysis.written_arguments import is_view_of
from fxc.program.program import Program
from fxc.runtime.shared_memory import copy_with


def is_once(call: CallOp) -> bool:
    """Whether ``call`` is evaluated at plan time."""
    return ONCE in call.attributes


def reads_once(value: SSAValue) -> bool:
    """Whether only plan-time calls read ``value``."""
    return all(isinstance(use.operation, CallOp) and is_once(use.operation) for use in value.uses)


def frozen_results(program: Program, call: CallOp) -> Sequence[Any]:
    """The results of ``call`` for the current values of the program's tensors.

    InputError if it reads any other value, WeightsError if a tensor has no value.
    """
    functions = functions_of(program.module)
    callee = _callee(functions, call)
    with torch.no_grad():
        return ReferenceInterpreter(functions).call(callee, [_state(program, call, value) for value in call.operands])


def own_weights(program: Program, written: Container[str]) -> None:
    """Replace the tensors of the program by copies, so that later writes to the model do not change the plan.

    Only tensors that calls read are copied, directly or through plan-time results that share their memory. The tensors
    ``written``, which calls write, are not copied. Tensors that share memory share it in the copy, too.
    """
    functions = functions_of(program.module)
    copies = dict[int, torch.UntypedStorage]()
    for value in program.main.args:
        name = state_name(program, value)
        tensor = None if name is None or name in written else program.state.get(name)
        if name is not None and tensor is not None and tensor.layout == torch.strided and _is_read(value, functions):
            program.state[name] = copy_with(tensor.detach(), copies)


def _is_read(value: SSAValue, functions: Mapping[str, FuncOp]) -> bool:
    """Whether calls read ``value``, or a plan-time result that may share its memory."""
    for use in value.uses:
        call = use.operation
        if not (isinstance(call, CallOp) and is_once(call)):
            return True
        callee = _callee(functions, call)
        returned = callee.body.block.last_op
        if returned is not None and any(is_view_of(result, {callee.args[use.index]}) for result in returned.operands):
            return True
    return False


def _callee(functions: Mapping[str, FuncOp], call: CallOp) -> FuncOp:
    """The function that ``call`` calls. InputError if it has no body."""
    callee = functions.get(call.callee.root_reference.data)
    if callee is None or callee.is_declaration:
        raise InputError(f"{call.callee} is called, but has no body", op=op_text(call))
    return callee


def _state(program: Program, call: CallOp, value: SSAValue) -> torch.Tensor:
    name = state_name(program, value)
    if name is None:
        raise InputError(f"a call that is {ONCE} reads what changes with every call", op=op_text(call))
    if name not in program.state:
        hint = "load the weights file that belongs to it"
        raise WeightsError(f"the program has no value for the tensor {name!r}", hint=hint)
    return program.state[name].detach()


def state_name(program: Program, value: SSAValue) -> str | None:
    """The name in ``program.state`` of ``value``; None if ``value`` is not a state argument of the entry function."""
    if not isinstance(value, BlockArgument) or value.block is not program.main.body.block:
        return None
    return ArgumentFacts.of(argument_attributes(program.main)[value.index]).state_name
