"""The call graph of the functions in one symbol table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import CallOp, FuncOp
from xdsl.ir import Operation

Call = TypeVar("Call", bound=Operation)


def calls_in(op: Operation) -> Iterator[CallOp]:
    """The calls in the regions of ``op`` at any depth, except in nested modules, which have separate symbol tables."""
    return symbol_users_in(op, CallOp)


def symbol_users_in(op: Operation, kind: type[Call]) -> Iterator[Call]:
    """The ops of ``kind`` in the regions of ``op`` at any depth, except in nested modules."""
    for region in op.regions:
        for block in region.blocks:
            for inner in block.ops:
                if isinstance(inner, kind):
                    yield inner
                elif inner.regions and not isinstance(inner, ModuleOp):
                    yield from symbol_users_in(inner, kind)


def functions_of(module: ModuleOp) -> dict[str, FuncOp]:
    """Name -> function, declarations included."""
    return {op.sym_name.data: op for op in module.body.block.ops if isinstance(op, FuncOp)}


def is_private(function: FuncOp) -> bool:
    """Whether ``function`` is called from its own module only."""
    return function.sym_visibility is not None and function.sym_visibility.data == "private"


def callee_first(functions: Mapping[str, FuncOp]) -> list[list[str]]:
    """The strongly connected components of the call graph, callees before callers (Tarjan's algorithm)."""
    callees = {
        name: [c for call in calls_in(function) if (c := call.callee.string_value()) in functions]
        for name, function in functions.items()
    }
    groups, stack = list[list[str]](), list[str]()
    index, low, on_stack = dict[str, int](), dict[str, int](), set[str]()
    for root in functions:
        if root in index:
            continue
        path = [(root, iter(callees[root]))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while path:
            name, rest = path[-1]
            for callee in rest:
                if callee not in index:
                    index[callee] = low[callee] = len(index)
                    stack.append(callee)
                    on_stack.add(callee)
                    path.append((callee, iter(callees[callee])))
                    break
                if callee in on_stack:
                    low[name] = min(low[name], index[callee])
            else:
                path.pop()
                if path:
                    low[path[-1][0]] = min(low[path[-1][0]], low[name])
                if low[name] == index[name]:
                    group = stack[stack.index(name) :]
                    del stack[stack.index(name) :]
                    on_stack.difference_update(group)
                    groups.append(group)
    return groups
