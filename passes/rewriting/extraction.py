"""Extracting a function, with all that it calls and launches, into a new module."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects.builtin import ModuleOp, StringAttr, SymbolRefAttr
from xdsl.dialects.func import CallOp, FuncOp
from xdsl.ir import Attribute, BlockArgument, Operation

from fxc.dialects.attributes.types import is_tensor, layout, sizes, strides
from fxc.dialects.autodiff import IMPLEMENTS, SubgraphOp
from fxc.dialects.tile import KernelOp, LaunchOp
from fxc.passes.analysis.call_graph import functions_of


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
