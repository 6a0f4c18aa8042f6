"""The reference interpreter of kernels: all programs of a grid at once, with checks of each memory access.

``tile_rules.py`` has the rule of each operation. A value is a tensor with one more axis than its block: programs, or 1 if all
programs have the same value. Inactive programs (finished loops, other branches) compute, too; their carried values and stores
are dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any

import torch
from xdsl.dialects.builtin import FloatAttr, IntegerAttr
from xdsl.ir import BlockArgument, Operation, SSAValue

from fxc.bridge.values import torch_dtype
from fxc.dialects import plan, tile
from fxc.dialects.attributes import types
from fxc.dialects.attributes.size_polynomials import sizes_of, strides_of
from fxc.dialects.attributes.types import tensor_of
from fxc.dialects.tile.kernel import INIT, KernelOp, LaunchOp
from fxc.dialects.tile.types import shape_of
from fxc.interpret.tile_programs import Launch, Programs, argument_name, kernel_error
from fxc.interpret.tile_rules import RULES
from fxc.runtime.native_kernel import TensorSpec

Tensor = torch.Tensor

_LANES = 1 << 22
"""The maximum number of lanes of the largest block that run at once: larger grids run in parts."""


def run_kernel(kernel: KernelOp, arguments: Sequence[Tensor | float], *, wide: bool = False) -> None:
    """Run ``kernel``, with a tensor for each pointer and a number for each scalar, in the order of the kernel.

    Outputs are written in place. ``wide`` computes floats in float64; the tensors must be float64, too. KernelError for an
    access that is out of bounds, reads uninitialized memory, or races with another program.
    """
    _run(kernel, arguments, wide)


def launch(op: LaunchOp, operands: Sequence[Any], *, wide: bool = False) -> list[Tensor]:
    """Return the results of ``op``. KernelError as in ``run_kernel``, and for unwritten elements of a result."""
    kernel = kernel_of(op)
    inputs = len(kernel.inputs())
    numbers = symbol_values(op, operands)
    tensors = [spec.at(numbers).laid_out(x) for spec, x in zip(operand_specs(op), operands[:inputs], strict=True)]
    results = [_new(spec.at(numbers), wide) for spec in result_specs(op)]
    run = _run(kernel, [*tensors, *results, *operands[inputs:]], wide)
    for argument, result in zip(kernel.outputs(), results, strict=True):
        written = run.buffers[argument].written
        if result.numel() and not written.as_strided(result.shape, result.stride()).all():
            raise kernel_error(f"the kernel leaves elements of %{argument_name(argument)} unwritten", op)
    return results


def launch_into(op: plan.LaunchOp, inputs: Sequence[Any], outs: Sequence[Tensor], *, wide: bool = False) -> None:
    """Run the kernel of ``op`` on existing tensors.

    KernelError as in ``run_kernel``, and if the layout of one of ``outs`` differs from its type.
    """
    kernel = kernel_of(op)
    count = len(kernel.inputs())
    numbers = symbol_values(op, inputs)
    tensors = [spec.at(numbers).laid_out(x) for spec, x in zip(operand_specs(op), inputs[:count], strict=True)]
    for spec, out in zip((spec.at(numbers) for spec in result_specs(op)), outs, strict=True):
        if out.shape != spec.sizes or out.stride() != spec.strides:
            raise kernel_error(f"a buffer has strides {out.stride()}, but its type has {spec.strides}", op)
        if spec.fill is not None:
            out.fill_(spec.fill)
    run_kernel(kernel, [*tensors, *outs, *inputs[count:]], wide=wide)


def kernel_of(op: LaunchOp | plan.LaunchOp) -> KernelOp:
    """Return the kernel that ``op`` launches; KernelError if there is none."""
    if (kernel := op.kernel()) is None:
        raise kernel_error(f"there is no kernel @{op.callee.root_reference.data}", op)
    return kernel


def operand_specs(op: LaunchOp | plan.LaunchOp) -> list[TensorSpec]:
    """The tensors that ``op`` reads. KernelError if strides are not known."""
    return [_spec(op, *pair) for pair in zip(kernel_of(op).inputs(), op.operands, strict=False)]


def result_specs(op: LaunchOp | plan.LaunchOp) -> list[TensorSpec]:
    """The tensors that ``op`` returns or writes, with the initial values of their elements."""
    kernel = kernel_of(op)
    initial = [kernel.argument_attributes(argument).get(INIT) for argument in kernel.outputs()]
    fills = [init.value.data if isinstance(init, (IntegerAttr, FloatAttr)) else None for init in initial]
    written = op.outs if isinstance(op, plan.LaunchOp) else op.results
    return [
        replace(_spec(op, argument, value), fill=fill)
        for argument, value, fill in zip(kernel.outputs(), written, fills, strict=True)
    ]


def _spec(op: Operation, argument: BlockArgument, value: SSAValue) -> TensorSpec:
    type = tensor_of(value)
    if not plan.has_known_steps(type):
        raise kernel_error("a kernel runs on tensors of known strides", op)
    sizes, strides, device = tuple(sizes_of(type)), tuple(strides_of(type)), torch.device(types.device(type))
    return TensorSpec(value.name_hint or argument_name(argument), torch_dtype(type.element_type), sizes, strides, device=device)


def _new(spec: TensorSpec, wide: bool) -> Tensor:
    """A tensor of ``spec``; ``wide``: floats are float64."""
    return (replace(spec, dtype=torch.float64) if wide and spec.dtype.is_floating_point else spec).new()


def symbol_values(op: LaunchOp | plan.LaunchOp, operands: Sequence[Any]) -> dict[str, Any]:
    """Return the values of symbolic sizes among the operands of ``op``, by name."""
    inputs = op.inputs if isinstance(op, plan.LaunchOp) else op.operands
    pairs = zip(inputs, operands, strict=False)
    return {value.type.expression.data: number for value, number in pairs if isinstance(value.type, types.IntType)}


def _run(kernel: KernelOp, arguments: Sequence[Tensor | float], wide: bool) -> Launch:
    """Run all programs of the grid, then the part of the last program. Everything is computed on the CPU."""
    with torch.no_grad(), torch.device("cpu"):
        launch = Launch(kernel, arguments, wide)
        count = prod(launch.grid)
        largest = max([prod(shape_of(result.type)) for op in kernel.walk() for result in op.results], default=1)
        step = max(_LANES // largest, 1)
        for start in range(0, count, step):
            Programs(launch, torch.arange(start, min(start + step, count)), RULES).run()
        for op in kernel.body.block.ops:
            if isinstance(op, tile.LastProgramOp):
                for argument, pointer in zip(op.body.block.args, op.pointers, strict=True):
                    launch.buffers[argument] = launch.buffers[pointer]
                    launch.buffers[pointer].settle()
                Programs(launch, torch.zeros(1, dtype=torch.int64), RULES).block(op.body.block)
    for target, data in launch.copies:
        target.copy_(data)
    return launch
