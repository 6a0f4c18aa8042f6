"""Calls with the mark ``fx.once``: what they compute of the model's own tensors is computed when a plan is made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from xdsl.dialects.builtin import StringAttr
from xdsl.dialects.func import CallOp, FuncOp
from xdsl.ir import BlockArgument, SSAValue

from fxc.dialects.marks import ONCE
from fxc.dialects.syntax import op_text
from fxc.errors import InputError, WeightsError
from fxc.program import Program
from fxc.semantics.interpret import Interpreter


def is_once(call: CallOp) -> bool:
    """Whether ``call`` is to be made once."""
    return ONCE in call.attributes


def reads_once(value: SSAValue) -> bool:
    """Whether only calls that are made once read ``value``."""
    return all(isinstance(use.operation, CallOp) and is_once(use.operation) for use in value.uses)


def frozen_results(program: Program, call: CallOp) -> Sequence[Any]:
    """What ``call`` gives, of the program's own tensors as they are now.

    InputError where it reads something else, WeightsError where a tensor has no value.
    """
    functions = {op.sym_name.data: op for op in program.module.ops if isinstance(op, FuncOp)}
    callee = functions.get(call.callee.root_reference.data)
    if callee is None or callee.is_declaration:
        raise InputError(f"{call.callee} is called, but has no body", op=op_text(call))
    with torch.no_grad():
        return Interpreter(functions).call(callee, [_state(program, call, value) for value in call.operands])


def _state(program: Program, call: CallOp, value: SSAValue) -> torch.Tensor:
    attributes = program.main.arg_attrs
    name = None
    if isinstance(value, BlockArgument) and attributes is not None and value.block is program.main.body.block:
        name = attributes.data[value.index].data.get("fx.name")
    if not isinstance(name, StringAttr):
        raise InputError(f"a call that is {ONCE} reads what changes with every call", op=op_text(call))
    if name.data not in program.state:
        hint = "load the weights file that belongs to it"
        raise WeightsError(f"the program has no value for the tensor {name.data!r}", hint=hint)
    return program.state[name.data].detach()
