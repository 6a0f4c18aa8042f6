"""Export a program to a GraphModule.

Differentiable subgraphs become submodules for forward and backward: host programs if the IR is at the plan level, else graphs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import replace
from functools import cache, partial
from threading import RLock
from types import MappingProxyType
from typing import Any

import torch
from torch.fx import GraphModule
from torch.fx.graph import _BoxedCodeGen
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, BlockArgument, Operation

from fxc.dialects import plan
from fxc.dialects.attributes import types
from fxc.dialects.attributes.types import is_tensor, tensor_of
from fxc.dialects.autodiff import INDEX_LISTS, GradientAttr, GradOfOp
from fxc.dialects.target import target_of
from fxc.dialects.text.diagnostics import one_line, place_of, user_line
from fxc.dialects.tile import LaunchOp
from fxc.dialects.torch_ops import HigherOrderOp, TorchOp
from fxc.errors import DerivativeError, InputError
from fxc.export.fx import Exporter
from fxc.export.host import host_program, is_plan
from fxc.passes.autodiff.activity import unreached_inputs
from fxc.passes.autodiff.second_derivatives import second_derivative_obstacle
from fxc.passes.autodiff.specialize_derivatives import given_gradients, specialized
from fxc.passes.rewriting.outlining import extracted, implementations, used_arguments
from fxc.program.program import Program, entry_function
from fxc.runtime.autograd import DifferentiableSubgraph, Gradient, HostSubgraph, Order, memory_order
from fxc.runtime.first_call import FirstCallOf
from fxc.runtime.host_program import HostProgram, KernelCode
from fxc.runtime.inputs import TensorInput
from fxc.runtime.lazy import is_wrapped
from fxc.runtime.replacements import DIFFERENTIABLE, NO_ELEMENTS, replace_operators
from fxc.runtime.signature import Signature

KernelCodes = Mapping[str, KernelCode]
"""The name of a nested module -> the machine code of its kernels."""

NO_CODES: KernelCodes = MappingProxyType({})

_specializing = RLock()
"""Held while a module is built: the passes call PyTorch's tracing, which patches classes of the whole process."""


def to_fx(program: Program, *, lifted: bool = False, codes: KernelCodes = NO_CODES, for_users: bool = False) -> GraphModule:
    """Export the entry function as an executable GraphModule; see ``fxc.to_fx``.

    ``codes`` is the machine code of the forward and backward modules, if a file contained it. ``for_users``: see ``Exporter``.
    """
    subgraphs = partial(_differentiable_subgraph, program, codes)
    return Exporter(program, subgraphs, for_users=for_users).module(program.main, lifted)


def _differentiable_subgraph(
    program: Program, codes: KernelCodes, f: FuncOp, df: FuncOp, gradient: GradientAttr, graph: Callable[[], GraphModule]
) -> DifferentiableSubgraph:
    """A module that runs ``f``, and ``df`` if gradients are required.

    ``graph`` builds the graph of ``f`` if no module in the program implements it.
    """
    vjps, captured_inputs, captured_outputs, output_vjps = (tuple(gradient.indices(name)) for name in INDEX_LISTS)
    derivative = Derivative(program, df, len(vjps))
    for module in implementations(program.module, df):
        if not any(isinstance(op, GradOfOp) for op in module.walk()):  # else no pass has lowered it yet
            derivative.add(_fitting(module, df), codes)
    forward = next((_fitting(module, f) for module in implementations(program.module, f)), None)
    source = partial(extracted, program.module, f)
    body = graph() if forward is None else _implementation(program, forward, source, codes)
    made = Gradient(
        body,
        derivative,
        gradient.real_outputs.value.data,
        vjps,
        captured_inputs,
        captured_outputs,
        output_vjps,
        differentiable=not any(isinstance(inner, LaunchOp) for inner in f.walk()),
        orders=tuple(_order(arg.type) for arg in df.args[: len(vjps)]),
        obstacle=cache(partial(_refusal, program, f, df, gradient)),
        unreached=tuple(unreached_inputs(f)),
    )
    return DifferentiableSubgraph(made)


class Derivative(torch.nn.Module):
    """The derivative ``df`` of a program, specialized for the set of gradients that are given.

    It takes a list of arguments and empties it, so that each argument is released after its last use. The first ``gradients``
    arguments are gradients; None stands for a gradient that is known to be zero.

    Lowered modules of the program that implement ``df`` become its graphs. ``graph_10`` is the graph in which the first of two
    gradients is given. For any other set of gradients, the program's ``later`` passes build the graph at the first call. With
    grad mode on, or for batched gradients, it is a graph of operators, which autograd can differentiate again. Otherwise it
    may use kernels for the target of the program.
    """

    boxed = True

    def __init__(self, program: Program, df: FuncOp, gradients: int) -> None:
        super().__init__()
        self.program, self.df, self.gradients = program, df, gradients
        self.has_kernels = target_of(program.module) is not None

    def __deepcopy__(self, memo: dict[int, Any]) -> Derivative:
        """Share the program, which calls only read."""
        memo |= {id(shared): shared for shared in (self.program, self.df)}
        made = Derivative.__new__(Derivative)
        memo[id(self)] = made
        made.__dict__.update(deepcopy(vars(self), memo))
        return made

    def forward(self, args: list[Any]) -> Any:
        given = args[: self.gradients]
        there = tuple([gradient is not None for gradient in given])
        kernels = not (torch.is_grad_enabled() or any(map(is_wrapped, given)))
        del given
        return self.graph_for(there, kernels and self.has_kernels)(args)

    def add(self, module: ModuleOp, codes: KernelCodes) -> None:
        """Add ``module``, which implements df for the set of gradients that its attributes name."""
        there = given_gradients(module, self.gradients)
        made = _implementation(self.program, module, partial(self.specialized, there), codes)
        self.cache(there, self.has_kernels, made)

    def graph_for(self, there: tuple[bool, ...], kernels: bool) -> torch.nn.Module:
        """The module for the set of given gradients ``there``. ``kernels``: whether it may use kernels."""
        name = _graph_name(there, kernels)
        module = self._modules.get(name)
        if module is None:
            with _specializing:
                module = self._modules.get(name) or self.cache(there, kernels, self.compiled(there, kernels))
        return module

    def cache(self, there: tuple[bool, ...], kernels: bool, module: torch.nn.Module) -> torch.nn.Module:
        replace_operators(module, NO_ELEMENTS if kernels else {**NO_ELEMENTS, **DIFFERENTIABLE})
        self.add_module(_graph_name(there, kernels), module)
        return module

    def specialized(self, there: tuple[bool, ...]) -> ModuleOp:
        """df specialized for these gradients, before any pass."""
        return specialized(self.program.module, self.df, there)

    def compiled(self, there: tuple[bool, ...], kernels: bool) -> torch.nn.Module:
        """df specialized for these gradients, after the program's ``later`` passes."""
        later = self.program.later
        if later is None:
            hint = "run specialize-derivatives before export, or export by fxc.to_fx"
            raise InputError(f"@{self.df.sym_name.data} is not specialized for the gradients that come in", hint=hint)
        program = replace(self.program, module=self.specialized(there), key=None)
        host = later(program, kernels=kernels)
        return _module(program, host, partial(self.specialized, there))


def _fitting(module: ModuleOp, function: FuncOp) -> ModuleOp:
    """Return ``module``, which implements ``function``. InputError if the type of its entry differs."""
    main, wanted = entry_function(module).function_type, function.function_type
    if main.inputs != wanted.inputs or len(main.outputs) != len(wanted.outputs):
        name = function.sym_name.data
        raise InputError(f"a module implements @{name}, {wanted}, but its entry is {main}", hint=f"make it again from @{name}")
    return module


def _graph_name(there: tuple[bool, ...], kernels: bool) -> str:
    return "graph_" + "".join("01"[given] for given in there) + ("_kernels" if kernels else "")


def host_of(program: Program, code: KernelCode | None = None) -> HostProgram | None:
    """``program`` as a host program; None if it is not at the plan level."""
    return host_program(program, code) if is_plan(program.main) else None


def _implementation(around: Program, module: ModuleOp, source: Callable[[], ModuleOp], codes: KernelCodes) -> torch.nn.Module:
    """The executable module for ``module``, which implements a function of the program ``around``."""
    program, name = replace(around, module=module, key=None), module.sym_name
    assert name is not None
    return _module(program, host_of(program, codes.get(name.data)), source, name.data)


def _module(program: Program, host: HostProgram | None, source: Callable[[], ModuleOp], name: str = "") -> torch.nn.Module:
    """The executable module for ``program``: ``host`` if given, else its graph. ``source`` builds the IR before all passes."""
    boxed = plan.BOXED in program.main.attributes
    graph = partial(_boxed if boxed else to_fx, program)
    module = graph() if host is None else _host_module(host, program, graph, boxed, name)
    if program.watch is None:
        return module
    look = program.watch(replace(program, module=source()), program, boxed=boxed)
    return FirstCallOf(look, module, boxed=boxed)


def _host_module(host: HostProgram, program: Program, graph: Callable[[], GraphModule], boxed: bool, name: str) -> HostSubgraph:
    values = used_arguments(program.main)
    signature = Signature(tuple(_described(value) for value in values), None, {})
    return HostSubgraph(host, signature, [value.index for value in values], graph, boxed=boxed, name=name)


def _described(value: BlockArgument) -> TensorInput:
    type = tensor_of(value)
    sizes, strides, name = types.sizes(type), types.strides(type), value._name or f"#{value.index}"
    return TensorInput(name, types.dtype_name(type.element_type), sizes, types.device(type), strides, types.layout(type))


def _boxed(program: Program) -> GraphModule:
    module = to_fx(program)
    module.graph.set_codegen(_BoxedCodeGen())
    module.recompile()
    return module


def _order(type: Attribute) -> Order:
    """The memory layout of a gradient of this type."""
    assert is_tensor(type)
    steps, dims = types.strides(type), types.sizes(type)
    if steps is None or not all(isinstance(dim, int) for dim in (*steps, *dims)):
        return None
    return memory_order([int(dim) for dim in dims], [int(step) for step in steps])


_PIPELINE = "lower-to-torch{gradients=true},canonicalize,torchscript{twice=true}"
_HINT = f"""compile with options={{"target": None, "pipeline": "{_PIPELINE}"}}, whose derivatives have others"""


def _refusal(program: Program, f: FuncOp, df: FuncOp, gradient: GradientAttr) -> DerivativeError | None:
    """The reason why autograd cannot differentiate ``df`` again; None if it can."""
    op = second_derivative_obstacle(program.context.semantics, f, df, gradient)
    if op is None:
        return None
    return DerivativeError(
        f"the derivative of {_callee(op)} cannot be differentiated again",
        op=one_line(op),
        place=user_line(op.location) or place_of(op),
        hint=_HINT,
    )


def _callee(op: Operation) -> str:
    return op.operator if isinstance(op, (TorchOp, HigherOrderOp)) else op.name
