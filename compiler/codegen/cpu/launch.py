"""Compile kernels, and build functions on tensors that launch them."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch
from xdsl.ir import BlockArgument, SSAValue

from fxc.codegen.cpu.choices import shares_work, usable_features
from fxc.codegen.cpu.kernel_printer import argument_type, print_kernels
from fxc.codegen.cpu.machine_code import compile_module
from fxc.codegen.cpu.memory_rules import messages
from fxc.dialects import plan
from fxc.dialects.attributes import types
from fxc.dialects.attributes.types import tensor_of
from fxc.dialects.target import CpuAttr
from fxc.dialects.text.syntax import op_text
from fxc.dialects.tile import KernelOp, LaunchOp, PtrType
from fxc.errors import BoundsError, KernelError
from fxc.interpret.tile_level import kernel_of, operand_specs, result_specs
from fxc.interpret.tile_programs import argument_name
from fxc.runtime.host_cpu import CpuFeatures, openmp_symbols
from fxc.runtime.native_kernel import NativeKernel, ScalarSpec, TensorSpec
from fxc.runtime.object_cache import ObjectCache, default_cache_folder


def compile_kernel(kernel: KernelOp, target: CpuAttr | None) -> Callable[[Sequence[Any]], None] | None:
    """Implement ``kernel_runner`` of ``fxc.codegen.cpu``."""
    address = _address(kernel, target)
    if address is None:
        return None
    parameters = kernel.body.block.args
    kinds = [ctypes.c_void_p if isinstance(p.type, PtrType) else _c_type(p) for p in parameters]
    failures = messages(kernel)
    code = ctypes.CFUNCTYPE(ctypes.c_int if failures else None, *kinds)(address)

    def run(arguments: Sequence[Any]) -> None:
        torch.get_num_threads()  # in a new thread, this applies the setting of torch.set_num_threads to OpenMP
        status: int | None = code(*(value.data_ptr() if hasattr(value, "data_ptr") else value for value in arguments))
        if status:
            raise BoundsError(failures[status - 1], place=f"kernel {kernel.sym_name.data}")

    return run


def compile_launch(op: LaunchOp | plan.LaunchOp, target: CpuAttr | None, *, copies: bool = False) -> NativeKernel | None:
    """Implement ``launch_runner`` of ``fxc.codegen.cpu``; ``copies`` as in NativeKernel.

    KernelError if a tensor of the launch is too small for the kernel.
    """
    kernel = kernel_of(op)
    if (specs := native_specs(op)) is None or (address := _address(kernel, target)) is None:
        return None
    operands = op.inputs if isinstance(op, plan.LaunchOp) else op.operands
    scalars = [_scalar(*pair) for pair in zip(kernel.scalars(), operands[len(kernel.inputs()) :], strict=True)]
    name, shared, failures = kernel.sym_name.data, shares_work(kernel), messages(kernel)
    return NativeKernel(name, address, *specs, scalars, copies=copies, shared=shared, failures=failures)


def _address(kernel: KernelOp, target: CpuAttr | None) -> int | None:
    """The address of the machine code that runs the whole grid; None if this CPU does not support ``target``."""
    features = usable_features(target)
    if features is None:
        return None
    text = print_kernels([kernel], features, lambda kernel: shares_work(kernel) and bool(openmp_symbols()))
    return _loaded(text, f"{kernel.sym_name.data}.call", features)


@cache
def _loaded(text: str, name: str, features: CpuFeatures) -> int:
    return compile_module(text, [name], features, ObjectCache(default_cache_folder() / "cpu"))[name]


def native_specs(op: LaunchOp | plan.LaunchOp) -> tuple[list[TensorSpec], list[TensorSpec]] | None:
    """The tensors that ``op`` reads and writes; None if one has unknown strides or is not on the CPU."""
    kernel = kernel_of(op)
    tensors = [*op.operands[: len(kernel.inputs())], *(op.outs if isinstance(op, plan.LaunchOp) else op.results)]
    if not all(plan.has_known_steps(tensor_of(each)) and types.device(tensor_of(each)) == "cpu" for each in tensors):
        return None
    read, written = operand_specs(op), result_specs(op)
    for argument, spec in zip((*kernel.inputs(), *kernel.outputs()), (*read, *written), strict=True):
        extent, limit = _extent(spec), kernel.elements(argument)
        if limit is not None and extent is not None and limit > extent:
            message = f"%{argument_name(argument)} points to {limit} elements, but the tensor has {extent}"
            raise KernelError(message, op=op_text(op))
    return read, written


def _extent(spec: TensorSpec) -> int | None:
    """The number of elements that a tensor spans in memory; None if it is not known."""
    if spec.is_dynamic:
        return None
    pairs = zip(spec.known_sizes(), spec.known_strides(), strict=True)
    return 1 + sum((size - 1) * step for size, step in pairs) if 0 not in spec.sizes else 0


def _scalar(argument: BlockArgument, value: SSAValue) -> ScalarSpec:
    type, given = argument_type(argument), value.type
    symbol = given.expression.data if isinstance(given, types.IntType) else ""
    return ScalarSpec(argument.name_hint or str(argument.index), float if type.is_float else int, type.bits, symbol)


def _c_type(argument: BlockArgument) -> Any:
    type = argument_type(argument)
    if type.is_float:
        return {64: ctypes.c_double, 32: ctypes.c_float}[type.bits]
    return {1: ctypes.c_bool, 8: ctypes.c_int8, 16: ctypes.c_int16, 32: ctypes.c_int32, 64: ctypes.c_int64}[type.bits]
