"""Derivatives as modules: one for each set of incoming gradients that are there, where the IR has one df for all."""

from __future__ import annotations

from threading import RLock
from typing import Any

import torch
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, UnitAttr
from xdsl.dialects.func import FuncOp

from fxc.derivatives.subgraphs import Export, extracted, is_static, lowered
from fxc.dialects.autodiff import DEFINED, UNDEFINED
from fxc.dialects.plan import BOXED
from fxc.dialects.target import target_of
from fxc.driver.pass_sequences import LOWER_KERNELS, LOWER_SUBGRAPH, PassList, derivative
from fxc.program.program import Program
from fxc.runtime.no_elements import NO_ELEMENTS
from fxc.runtime.second_backward import DIFFERENTIABLE, is_batched, replace_operators

_specializing = RLock()
"""Held while a module is made: the passes ask PyTorch, whose tracing changes classes of the whole process."""


class Derivative(torch.nn.Module):
    """``df`` of a program as a callable of a list of arguments, which it empties, so that each is released after its last use.
    The first ``gradients`` of them may be None: gradients that are known to be zero.

    ``export`` makes a GraphModule of a program. The module of a new set of gradients is made at the first call with it:
    ``graph_10`` is the one where the first of two gradients is there. With grad mode on it is a graph of operators, which
    autograd can differentiate again, and so it is for batches of gradients; else it may run in kernels for the target of
    the program, as a host program where it can.
    """

    boxed = True

    def __init__(self, program: Program, df: FuncOp, gradients: int, export: Export) -> None:
        super().__init__()
        self.program, self.df, self.gradients, self.export = program, df, gradients, export

    def forward(self, args: list[Any]) -> Any:
        given = args[: self.gradients]
        there = tuple([gradient is not None for gradient in given])
        kernels = not (torch.is_grad_enabled() or any(map(is_batched, given)))
        del given
        return self.graph_for(there, kernels)(args)

    def graph_for(self, there: tuple[bool, ...], kernels: bool = True) -> torch.nn.Module:
        """The module for gradients of which those ``there`` are given, in kernels where there is a target for them."""
        kernels = kernels and target_of(self.program.module) is not None
        name = "graph_" + "".join("01"[given] for given in there) + ("_kernels" if kernels else "")
        module = self._modules.get(name)
        if module is None:
            with _specializing:
                module = self._modules.get(name) or self.specialized(there, kernels)
                self.add_module(name, module)
        return module

    def specialized(self, there: tuple[bool, ...], kernels: bool) -> torch.nn.Module:
        """df at these gradients."""
        program = extracted(self.program, self.df, str(there))
        main = program.main
        known = list(main.arg_attrs or [DictionaryAttr({})] * len(main.args))
        values = [True] * (len(known) - len(there))  # a gradient may be one of them: that of a scan over nothing is its operand
        for i, given in enumerate([*there, *values]):
            known[i] = DictionaryAttr({**known[i].data, DEFINED if given else UNDEFINED: UnitAttr()})
        main.properties["arg_attrs"] = ArrayAttr(known)
        main.attributes[BOXED] = UnitAttr()
        in_kernels: PassList = (*LOWER_KERNELS, *(LOWER_SUBGRAPH if is_static(main) else ())) if kernels else ()
        module = lowered(program, (*derivative(reductions=kernels), *in_kernels), self.export)
        replace_operators(module, NO_ELEMENTS if kernels else {**NO_ELEMENTS, **DIFFERENTIABLE})
        return module
