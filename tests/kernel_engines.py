"""The ways to run a group: as operators, and its kernels on the interpreter, as simulated Triton, natively, on a GPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import torch
from xdsl.dialects.builtin import FunctionType, ModuleOp, VectorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, Region, SSAValue

from fxc.codegen.cpu.launch import compile_launch
from fxc.codegen.triton.kernel_source import KernelSource
from fxc.codegen.triton.launch import GpuKernel, gpu_kernel
from fxc.codegen.triton.printer import print_kernel
from fxc.dialects.fusion import GroupOp
from fxc.dialects.target import PRESETS, GpuAttr, set_target, target_of, toplevel
from fxc.dialects.text.syntax import clone_module
from fxc.dialects.tile import KernelOp, LaunchOp
from fxc.dialects.verify.verifier import verify
from fxc.interpret.tile_level import kernel_of, launch, operand_specs, result_specs, symbol_values
from fxc.interpret.torch_level import ReferenceInterpreter
from fxc.passes.rewriting.functions import copy_op
from fxc.pipelines import LOWER_KERNELS
from tests.kernel_groups import run_passes
from tests.simulator.simulator import simulate

Engine = Callable[[LaunchOp, Sequence[Any]], Sequence[torch.Tensor]]
"""Runs a launch: its operands in, new results out."""


def runner_of(engine: Engine) -> Callable[..., Any]:
    """What takes the place of ``fxc.codegen.contract.launch_runner``."""
    return lambda op, target: lambda *operands: engine(op, operands)


def simulated(op: LaunchOp, operands: Sequence[Any]) -> list[torch.Tensor]:
    """The kernel's printed Triton source, on the simulator."""
    arguments, results = launch_arguments(op, operands)
    simulate(print_kernel(kernel_of(op)), arguments)
    return results


def native(op: LaunchOp, operands: Sequence[Any]) -> Sequence[torch.Tensor]:
    """The kernel's machine code for the processor that this runs on."""
    run = compile_launch(op, None, copies=True)
    assert run is not None, f"no native code for {op.callee}"
    return run(*operands)


def on_gpu(op: LaunchOp, operands: Sequence[Any]) -> list[torch.Tensor]:
    """The kernel on the GPU of this machine."""
    target, gpu = target_of(toplevel(op)), torch.device("cuda", 0)
    assert isinstance(target, GpuAttr)
    given = gpu_kernel(op, target)
    inputs, outputs = ([replace(spec, device=gpu) for spec in specs] for specs in (given.inputs, given.outputs))
    kernel = GpuKernel(given.source, target, inputs, outputs, given.scalars)
    moved = [_moved(value, gpu) if isinstance(value, torch.Tensor) else value for value in operands]
    return [_moved(result, torch.device("cpu")) for result in kernel(*moved)]


def _moved(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """A copy with the same strides, elements that share memory too."""
    extent = sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride(), strict=True)) + 1
    flat = tensor.detach().as_strided((extent if tensor.numel() else 0,), (1,))
    return flat.to(device).as_strided(tensor.shape, tensor.stride())


ENGINES: Mapping[str, Engine] = MappingProxyType(
    {"interpreter": launch, "simulator": simulated, "native": native} | ({"gpu": on_gpu} if torch.cuda.is_available() else {})
)
"""Independent of each other: each reads a kernel's IR, or what is printed of it, in its own way."""


def launch_arguments(op: LaunchOp, operands: Sequence[Any]) -> tuple[list[Any], list[torch.Tensor]]:
    """What the kernel takes, in its order, and the results among it. What is to be written holds NaN, or 85 in each byte."""
    inputs, numbers = len(kernel_of(op).inputs()), symbol_values(op, operands)
    tensors = [spec.at(numbers).laid_out(x) for spec, x in zip(operand_specs(op), operands[:inputs], strict=True)]
    specs = [spec.at(numbers) for spec in result_specs(op)]
    results = [spec.new() for spec in specs]
    for spec, result in zip(specs, results, strict=True):
        if spec.fill is None:
            _poison(result)
    return [*tensors, *results, *operands[inputs:]], results


def _poison(tensor: torch.Tensor) -> None:
    if tensor.is_floating_point():
        tensor.fill_(torch.nan)
    elif tensor.dtype != torch.bool:
        tensor.fill_(85)


class EngineInterpreter(ReferenceInterpreter):
    """Runs each launch with ``engine``."""

    def __init__(self, functions: Mapping[str, FuncOp], engine: Engine) -> None:
        super().__init__(functions)
        self.engine = engine

    def launch(self, op: LaunchOp, operands: Sequence[Any]) -> Sequence[Any]:
        return self.engine(op, operands)


def functions_of(module: ModuleOp) -> dict[str, FuncOp]:
    return {op.sym_name.data: op for op in module.ops if isinstance(op, FuncOp)}


def module_of(group: GroupOp) -> ModuleOp:
    """A module whose ``main`` takes what ``group`` reads and returns what it gives."""
    inputs = group.inputs()
    block = Block(arg_types=[value.type for value in inputs])
    for argument, value in zip(block.args, inputs, strict=True):
        argument.name_hint = value.name_hint
    values: dict[SSAValue, SSAValue] = dict(zip(inputs, block.args, strict=True))
    copy = copy_op(group, values)
    block.add_ops([copy, ReturnOp(*copy.results)])
    types = FunctionType.from_lists([value.type for value in inputs], list(group.result_types))
    module = ModuleOp([FuncOp("main", types, Region(block))])
    verify(module)
    return module


@dataclass(frozen=True)
class Kernels:
    """A group's ``module`` after it became kernels, and how many there are."""

    module: ModuleOp
    count: int

    def are_for(self, engine: str) -> bool:
        """Whether ``engine`` takes them: Triton only has blocks with sizes that are powers of two, a GPU its own schedules."""
        if engine == "gpu" and not isinstance(target_of(self.module), GpuAttr):
            return False
        types = {value.type for op in self.module.walk() for value in op.results}
        sizes = {size for type in types if isinstance(type, VectorType) for size in type.get_shape()}
        return engine not in ("simulator", "gpu") or not any(size & (size - 1) for size in sizes)

    def run(self, engine: Engine, arguments: Sequence[Any]) -> list[torch.Tensor]:
        functions = functions_of(self.module)
        with torch.no_grad():
            return list(EngineInterpreter(functions, engine).call(functions["main"], list(arguments)))

    def sources(self) -> list[KernelSource]:
        """The Triton source of each kernel."""
        return [print_kernel(op) for op in self.module.ops if isinstance(op, KernelOp)]


def kernels_for(module: ModuleOp, target: str) -> Kernels | None:
    """The kernels of a module of one group, made for a preset of ``fxc.dialects.target``; None where no kernel computes it."""
    made = clone_module(module)
    set_target(made, PRESETS[target])
    run_passes(made, str(LOWER_KERNELS))
    ops: list[Operation] = list(made.walk())
    if any(isinstance(op, GroupOp) for op in ops):
        return None
    return Kernels(made, sum(isinstance(op, KernelOp) for op in ops))
