"""Functions that autograd runs, forward or backward, as programs of their own: host programs, where all of one can be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import torch
from torch.fx import GraphModule
from torch.fx.graph import _BoxedCodeGen
from xdsl.dialects.builtin import ModuleOp, StringAttr, SymbolRefAttr, TensorType
from xdsl.dialects.func import CallOp, FuncOp
from xdsl.ir import BlockArgument, Operation

from fxc.artifact import cache as program_cache
from fxc.codegen.fallback import FIRST, Checkpoint, Lowering
from fxc.dialects import plan
from fxc.dialects.attributes import types
from fxc.dialects.autodiff import SubgraphOp
from fxc.dialects.tile import KernelOp, LaunchOp
from fxc.driver.pass_sequences import LOWER_SUBGRAPH, PassList
from fxc.driver.pipeline_text import PassSpec
from fxc.passes import load
from fxc.program.program import Program
from fxc.runtime.first_call import FirstCallOf
from fxc.runtime.host_program import HostProgram, KernelCode
from fxc.runtime.signature import Signature, TensorInput
from fxc.runtime.subgraph import HostSubgraph

Export = Callable[[Program], GraphModule]
"""What makes a graph of a program."""


def extracted(source: Program, function: FuncOp, *how: str) -> Program:
    """A program whose entry is ``function``, over copies of it and of what it calls and launches. ``how``: what comes next."""
    functions = [reached.clone() for reached in _reachable(source.module, function)]
    main = functions[0]
    main.properties["sym_name"] = StringAttr("main")
    main.properties.pop("sym_visibility", None)
    launched = {op.callee.root_reference.data for each in functions for op in each.walk() if isinstance(op, LaunchOp)}
    rest = (op for op in source.module.ops if not isinstance(op, FuncOp))
    module = ModuleOp([op.clone() for op in rest if not isinstance(op, KernelOp) or op.sym_name.data in launched])
    module.attributes.update(source.module.attributes)
    module.body.block.add_ops(functions)
    key = None if source.key is None else program_cache.key_of_part(source.key, function.sym_name.data, *how)
    return replace(source, module=module, key=key)


def lowered(program: Program, passes: PassList, export: Export) -> torch.nn.Module:
    """``program`` after ``passes``: a host program where they end in one, else a graph. ``program`` is changed.

    A function that is marked ``plan.boxed`` takes its arguments in one list.
    """
    key = None if program.key is None else program_cache.key_of_part(program.key, str(passes))
    entry = None if key is None else program_cache.find(key, program)
    boxed, watch = plan.BOXED in program.main.attributes, program.watch
    captured = None if watch is None else program.copy()
    if entry is None:
        host = _lowering(passes).run(program)
    else:
        program = replace(program, module=entry.module)
        host = _host(program, entry.kernels)
    if key is not None and entry is None and program.key is not None:
        program_cache.keep(key, program, None if host is None else host.code)
    graph = partial(_boxed if boxed else export, *([export] if boxed else []), program)
    module = graph() if host is None else _module(host, program, graph)
    if watch is None or captured is None or (look := watch.look(captured, program, boxed=boxed)) is None:
        return module
    return FirstCallOf(look, module, boxed=boxed)


def _lowering(passes: PassList) -> Lowering[HostProgram | None]:
    names = [name for name, _ in passes]
    rest = passes[names.index(FIRST) :] if FIRST in names else ()
    text = ",".join(str(PassSpec.of(name, **options)) for name, options in rest)
    return Lowering(partial(_apply, passes), partial(_apply, rest), _host, lambda: text)


def _apply(passes: PassList, program: Program, checkpoint: Checkpoint | None = None) -> None:
    instances = [load(name)(**options) for name, options in passes]
    if program.watch is not None:
        program.watch.run(program, instances)
    else:
        for instance in instances:
            if instance.name == FIRST and checkpoint is not None:
                checkpoint.take(program.module)
            instance.apply(program.context, program.module)
    program.module.verify()


def _host(program: Program, kernels: KernelCode | None = None) -> HostProgram | None:
    """``program`` as a host program; None where it is not at the plan level."""
    from fxc.export.host import host_program, is_plan

    return host_program(program, kernels) if is_plan(program.main) else None


def forward(source: Program, function: FuncOp, export: Export) -> torch.nn.Module | None:
    """``function``, which launches kernels, as a host program; None where it is to be a part of the graph around."""
    if not any(isinstance(op, LaunchOp) for op in function.walk()) or not is_static(function):
        return None
    return lowered(extracted(source, function), LOWER_SUBGRAPH, export)


def is_static(function: FuncOp) -> bool:
    """Whether ``function`` uses no argument but tensors of known sizes and strides."""
    from fxc.export.host.memory import spec_of

    return all(isinstance(value.type, TensorType) and spec_of(value.type, "") is not None for value in used(function))


def used(function: FuncOp) -> list[BlockArgument]:
    """The arguments that ``function`` looks at."""
    return [value for value in function.body.block.args if value.first_use is not None]


def _module(host: HostProgram, program: Program, graph: Callable[[], torch.nn.Module]) -> HostSubgraph:
    values = used(program.main)
    signature = Signature(tuple(_described(value) for value in values), None, {})
    return HostSubgraph(host, signature, [value.index for value in values], graph, boxed=plan.BOXED in program.main.attributes)


def _described(value: BlockArgument) -> TensorInput:
    type = value.type
    assert isinstance(type, TensorType)
    sizes, strides, name = types.sizes(type), types.strides(type), value._name or f"#{value.index}"
    return TensorInput(name, types.dtype_name(type.element_type), sizes, types.device(type), strides, types.layout(type))


def _boxed(export: Export, program: Program) -> GraphModule:
    module = export(program)
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
