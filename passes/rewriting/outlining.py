"""Outlining: ops of a block become a function, and a call replaces them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xdsl.dialects.builtin import StringAttr, UnitAttr
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from fxc.dialects.text.syntax import copy_names
from fxc.passes.analysis.constants import is_scalar_constant
from fxc.passes.rewriting.functions import copy_op

NO_INLINE = "no_inline"
"""The attribute of functions and calls that are not inlined."""


def given_to(members: Sequence[Operation]) -> list[SSAValue]:
    """The values that ``members`` read and other ops define, without host constants, in order."""
    made = {result for op in members for result in op.results}
    read = (value for op in members for value in op.operands)
    return list(dict.fromkeys(value for value in read if value not in made and not is_scalar_constant(value)))


def outputs(members: Sequence[Operation]) -> list[SSAValue]:
    """The results of ``members`` that other ops read."""
    inside = set(members)
    results = (result for op in members for result in op.results)
    return [result for result in results if any(use.operation not in inside for use in result.uses)]


def outlined(name: str, members: Sequence[Operation], given: Sequence[SSAValue], returned: Sequence[SSAValue]) -> FuncOp:
    """A private function ``name``, never inlined, that computes ``returned`` from ``given`` with the ops ``members``."""
    block = Block(arg_types=[value.type for value in given])
    copies: dict[SSAValue, SSAValue] = dict(zip(given, block.args, strict=True))
    copy_names(given, block.args)
    for op in members:
        for constant in _constants(op):
            if constant.results[0] not in copies:
                block.add_op(copy_op(constant, copies))
        block.add_op(copy_op(op, copies))
    block.add_op(ReturnOp(*(copies[value] for value in returned)))
    types = [value.type for value in given], [value.type for value in returned]
    function = FuncOp(name, types, Region(block), visibility=StringAttr("private"))
    function.attributes[NO_INLINE] = UnitAttr()
    function.location = members[0].location
    return function


def _constants(op: Operation) -> Iterable[Operation]:
    """The host constants outside of ``op`` that ``op`` and the ops in its regions read."""
    for value in [value for inner in op.walk() for value in inner.operands]:
        owner = value.owner
        if is_scalar_constant(value) and isinstance(owner, Operation) and owner.parent is op.parent:
            yield owner


def put_call(
    function: FuncOp, members: Sequence[Operation], given: Sequence[SSAValue], returned: Sequence[SSAValue], at: InsertPoint
) -> CallOp:
    """Insert a call of ``function`` on ``given`` at ``at``, replace ``returned`` by its results, and erase ``members``."""
    call = CallOp(function.sym_name.data, given, [value.type for value in returned])
    call.location = members[-1].location
    Rewriter.insert_op(call, at)
    copy_names(returned, call.results)
    for old, new in zip(returned, call.results, strict=True):
        old.replace_all_uses_with(new)
    for op in reversed(members):
        Rewriter.erase_op(op)
    return call
