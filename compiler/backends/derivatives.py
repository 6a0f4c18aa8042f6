"""Derivatives as FX graphs: one graph for each set of incoming gradients that are there, where the IR has one df for all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from threading import RLock
from typing import Any

import torch
from torch.fx import GraphModule
from torch.fx.graph import _BoxedCodeGen
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, StringAttr, SymbolRefAttr, UnitAttr
from xdsl.dialects.func import CallOp, FuncOp
from xdsl.ir import Operation

from fxc.backends import program_cache
from fxc.dialects.autodiff import DEFINED, UNDEFINED, SubgraphOp
from fxc.dialects.target import target_of
from fxc.dialects.tile import KernelOp
from fxc.passes import load
from fxc.passes._sequences import LOWER_KERNELS, derivative
from fxc.program import Program

_specializing = RLock()
"""Held while a graph is made: the passes ask PyTorch, whose tracing changes classes of the whole process."""


class Derivative(torch.nn.Module):
    """``df`` of a program as a callable of a list of arguments, which it empties, so that each is released after its last use.
    The first ``gradients`` of them may be None: gradients that are known to be zero.

    ``export`` makes a GraphModule of a program. The graph of a new set of gradients is made at the first call with it, and
    becomes a submodule: ``graph_10`` is the one where the first of two gradients is there. With grad mode on it is one of
    operators, which autograd can differentiate again; else it may run in kernels for the target of the program.
    """

    boxed = True

    def __init__(self, program: Program, df: FuncOp, gradients: int, export: Callable[[Program], GraphModule]) -> None:
        super().__init__()
        self.program, self.df, self.gradients, self.export = program, df, gradients, export

    def forward(self, args: list[Any]) -> Any:
        there = tuple([arg is not None for arg in args[: self.gradients]])
        return self.graph_for(there, kernels=not torch.is_grad_enabled())(args)

    def graph_for(self, there: tuple[bool, ...], kernels: bool = True) -> torch.nn.Module:
        """The graph for gradients of which those ``there`` are given, in kernels where there is a target for them."""
        kernels = kernels and target_of(self.program.module) is not None
        name = "graph_" + "".join("01"[given] for given in there) + ("_kernels" if kernels else "")
        graph = self._modules.get(name)
        if graph is None:
            with _specializing:
                graph = self._modules.get(name) or _boxed(self.export(self.specialized(there, kernels)))
                self.add_module(name, graph)
        return graph

    def specialized(self, there: tuple[bool, ...], kernels: bool) -> Program:
        """The program whose entry is df at these gradients."""
        source = self.program
        functions = [function.clone() for function in _reachable(source.module, self.df)]
        main = functions[0]
        main.properties["sym_name"] = StringAttr("main")
        main.properties.pop("sym_visibility", None)
        known = list(main.arg_attrs or [DictionaryAttr({})] * len(main.args))
        for i, given in enumerate(there):
            known[i] = DictionaryAttr({**known[i].data, DEFINED if given else UNDEFINED: UnitAttr()})
        main.properties["arg_attrs"] = ArrayAttr(known)
        module = ModuleOp([op.clone() for op in source.module.ops if not isinstance(op, (FuncOp, KernelOp))])
        module.attributes.update(source.module.attributes)
        module.body.block.add_ops(functions)
        made = Program(module, source.state, source.live, source.context, source.is_kept)
        passes = (*derivative(reductions=kernels), *(LOWER_KERNELS if kernels else ()))
        key = program_cache.key_of(made, str(passes)) if source.is_kept else None
        if key is not None and (entry := program_cache.find(key, made)) is not None:
            return replace(made, module=entry.module)
        for name, options in passes:
            load(name)(**options).apply(source.context, module)
        module.verify()
        if key is not None:
            program_cache.keep(key, made, None)
        return made


def _boxed(module: GraphModule) -> GraphModule:
    module.graph.set_codegen(_BoxedCodeGen())
    module.recompile()
    return module


def _reachable(module: ModuleOp, function: FuncOp) -> list[FuncOp]:
    """``function`` and the functions that it calls, directly or not."""
    functions = {op.sym_name.data: op for op in module.ops if isinstance(op, FuncOp)}
    found = [function]
    for reached in found:
        for op in reached.walk():
            for symbol in _callees(op):
                callee = functions.get(symbol.root_reference.data)
                if callee is not None and callee not in found:
                    found.append(callee)
    return found


def _callees(op: Operation) -> list[SymbolRefAttr]:
    if isinstance(op, SubgraphOp):
        return [op.callee, *([] if op.gradient is None else [op.gradient.df])]
    return [op.callee] if isinstance(op, CallOp) else []
