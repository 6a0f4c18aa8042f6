"""Outlining: ops of a block become a function, and a call replaces them; a function with all that it uses becomes a module."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from xdsl.dialects.builtin import ModuleOp, StringAttr, SymbolRefAttr, UnitAttr
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from fxc.dialects.attributes.types import is_tensor, layout, sizes, strides
from fxc.dialects.autodiff import IMPLEMENTS, SubgraphOp
from fxc.dialects.text.syntax import copy_names
from fxc.dialects.tile import KernelOp, LaunchOp
from fxc.passes.analysis.call_graph import functions_of
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


def extracted(module: ModuleOp, function: FuncOp) -> ModuleOp:
    """A module with the attributes and declarations of ``module``, whose entry is a copy of ``function``.

    Of functions and kernels it has copies of those that ``function`` reaches.
    """
    return with_entry(module, function.clone())


def with_entry(module: ModuleOp, main: FuncOp) -> ModuleOp:
    """A module with the attributes and declarations of ``module``, whose entry is ``main``, which was in no module before.

    Of functions and kernels it has copies of those that ``main`` reaches.
    """
    functions = [main, *(reached.clone() for reached in _reachable(module, main)[1:])]
    main.properties["sym_name"] = StringAttr("main")
    main.properties.pop("sym_visibility", None)
    launched = {op.callee.root_reference.data for each in functions for op in each.walk() if isinstance(op, LaunchOp)}
    rest = (op for op in module.ops if not isinstance(op, (FuncOp, ModuleOp)))
    made = ModuleOp([op.clone() for op in rest if not isinstance(op, KernelOp) or op.sym_name.data in launched])
    made.attributes.update(module.attributes)
    made.body.block.add_ops(functions)
    return made


def implementations(module: ModuleOp, function: FuncOp) -> list[ModuleOp]:
    """The modules in ``module`` that implement ``function``."""
    name = SymbolRefAttr(function.sym_name.data)
    return [op for op in module.ops if isinstance(op, ModuleOp) and op.attributes.get(IMPLEMENTS) == name]


def add_implementation(module: ModuleOp, function: FuncOp, made: ModuleOp, name: str) -> None:
    """Add ``made``, which implements ``function``, to ``module`` under ``name``."""
    made.properties["sym_name"] = StringAttr(name)
    made.attributes[IMPLEMENTS] = SymbolRefAttr(function.sym_name.data)
    module.body.block.add_op(made)


def used_arguments(function: FuncOp) -> list[BlockArgument]:
    """The arguments that ``function`` reads."""
    return [value for value in function.body.block.args if value.first_use is not None]


def is_static(function: FuncOp) -> bool:
    """Whether every argument that ``function`` reads is a tensor of static sizes and strides."""
    return all(_is_known(value.type) for value in used_arguments(function))


def _is_known(type: Attribute) -> bool:
    """Whether ``type`` is a strided tensor of static sizes and strides."""
    if not is_tensor(type) or layout(type) != "strided":
        return False
    return all(isinstance(dim, int) for dim in (*sizes(type), *(strides(type) or ())))


def _reachable(module: ModuleOp, function: FuncOp) -> list[FuncOp]:
    """``function`` and the functions that it calls, directly or not."""
    functions, found = functions_of(module), [function]
    for reached in found:
        for name in (name for op in reached.walk() for name in _callees(op)):
            callee = functions.get(name)
            if callee is not None and callee not in found:
                found.append(callee)
    return found


def _callees(op: Operation) -> Iterator[str]:
    if isinstance(op, (CallOp, SubgraphOp)):
        yield op.callee.root_reference.data
    if isinstance(op, SubgraphOp) and op.gradient is not None:
        yield op.gradient.df.root_reference.data
