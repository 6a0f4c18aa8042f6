"""Restore the signature of the model on a captured graph, where inputs and outputs can be matched by identity."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.utils._pytree import TreeSpec, tree_flatten
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, FunctionType
from xdsl.ir import SSAValue

from fxc.bridge.nesting import INPUTS, OUTPUTS, nesting_attr
from fxc.bridge.tensors import type_of
from fxc.bridge.values import attribute_of, is_sequence
from fxc.dialects.attributes.types import VALUE
from fxc.dialects.attributes.values import str_attr
from fxc.dialects.entry import ArgumentFacts
from fxc.dialects.fx import CallFunctionOp, OutputOp
from fxc.errors import CaptureError
from fxc.frontends.host_results import Output
from fxc.program.program import Program


def resign(
    program: Program,
    inputs: Sequence[Any],
    given: Sequence[Any],
    nesting: TreeSpec,
    outputs: Sequence[Any],
    result: Any,
) -> None:
    """Make the entry function take ``given`` (nested as ``nesting``) and return ``result``.

    ``inputs`` and ``outputs`` are the values of the graph in the run that returned ``result``, outputs as stand-ins. A graph
    with an input or output that has no match keeps its flat signature.
    """
    function = program.main
    block = function.body.block
    arguments = {id(value): argument for value, argument in zip(inputs, block.args, strict=True)}
    kinds = list(function.arg_attrs or ())
    free = [a for a, attrs in zip(block.args, kinds, strict=True) if not ArgumentFacts.of(attrs).is_state]
    if any(id(value) not in {id(g) for g in given} for value, a in zip(inputs, block.args, strict=True) if a in free):
        return
    terminator = block.last_op
    assert isinstance(terminator, OutputOp)
    own = terminator.trees()[0][0]
    leaves, spec = tree_flatten(result)
    made, found = dict[int, Any](), set(map(id, leaves))
    for value, tree in zip(outputs, own, strict=True) if is_sequence(own) else ():
        matches = {id(value): tree}
        if isinstance(value, Output) and value.number and (number := _number_in(tree)):
            matches[id(value.number)] = number
        if found.isdisjoint(matches):
            return  # an output of which Python code makes a result
        made |= matches
    try:
        returned = tuple(made.get(id(leaf)) or arguments.get(id(leaf)) or attribute_of(leaf) for leaf in leaves)
    except CaptureError:
        return  # an output made by Dynamo's bytecode, such as a view of an input
    attributes = dict(zip(block.args, kinds, strict=True))
    for i, value in enumerate(given):
        argument = arguments.get(id(value))
        if argument is None or argument not in free:  # not an input of the graph, or passed twice
            argument = block.insert_arg(type_of(value) if isinstance(value, torch.Tensor) else VALUE, len(block.args))
            argument._name = f"unused_{i}"
            attributes[argument] = DictionaryAttr({"fx.kind": str_attr("input"), "fx.name": str_attr(f"unused_{i}")})
        else:
            free.remove(argument)
        _move_to_end(block, argument)
    block.insert_op_before(OutputOp.build_call([returned], {}, [], location=terminator.location), terminator)
    block.erase_op(terminator)
    output = block.last_op
    assert output is not None
    function.properties["arg_attrs"] = ArrayAttr([attributes[argument] for argument in block.args])
    function.properties["function_type"] = FunctionType.from_lists([a.type for a in block.args], output.operand_types)
    function.attributes[INPUTS], function.attributes[OUTPUTS] = nesting_attr(nesting), nesting_attr(spec)


def _number_in(tensor: Any) -> Any:
    """The number of a tensor that ``torch.scalar_tensor`` makes: Dynamo's graphs return a float in one."""
    call = tensor.owner
    return call.trees()[0][0] if isinstance(call, CallFunctionOp) and call.call_target() == "torch.scalar_tensor" else None


def _move_to_end(block: Any, argument: SSAValue) -> None:
    """Make ``argument`` the last argument of its block."""
    arguments = [a for a in block.args if a is not argument] + [argument]
    block._args = tuple(arguments)
    for i, value in enumerate(arguments):
        value.index = i
