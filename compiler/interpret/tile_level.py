"""The reference interpreter of kernels: all programs of a grid at once, with checks of each memory access.

``tile_rules.py`` has the rule of each operation. A value is a tensor with one more axis than its block: programs, or 1 if all
programs have the same value. Inactive programs (finished loops, other branches) compute, too; their carried values and stores
are dropped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import torch
from xdsl.dialects.builtin import FloatAttr, IntegerAttr
from xdsl.ir import Attribute, Operation

from fxc.bridge.values import torch_dtype
from fxc.dialects import plan, tile
from fxc.dialects.attributes import types
from fxc.dialects.attributes.size_polynomials import Steps, sizes_of, strides_of, value_at
from fxc.dialects.attributes.types import is_tensor
from fxc.dialects.tile.kernel import INIT, KernelOp, LaunchOp
from fxc.dialects.tile.types import shape_of
from fxc.interpret.tile_programs import Launch, Programs, argument_name, kernel_error
from fxc.interpret.tile_rules import RULES

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
    tensors = [layout.at(numbers).laid_out(x) for layout, x in zip(operand_layouts(op), operands[:inputs], strict=True)]
    results = [layout.at(numbers).new(wide=wide) for layout in result_layouts(op)]
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
    tensors = [layout.at(numbers).laid_out(x) for layout, x in zip(operand_layouts(op), inputs[:count], strict=True)]
    for layout, out in zip((layout.at(numbers) for layout in result_layouts(op)), outs, strict=True):
        if out.shape != layout.sizes or out.stride() != layout.strides:
            raise kernel_error(f"a buffer has strides {out.stride()}, but its type has {layout.strides}", op)
        if layout.init is not None:
            out.fill_(layout.init)
    run_kernel(kernel, [*tensors, *outs, *inputs[count:]], wide=wide)


def kernel_of(op: LaunchOp | plan.LaunchOp) -> KernelOp:
    """Return the kernel that ``op`` launches; KernelError if there is none."""
    if (kernel := op.kernel()) is None:
        raise kernel_error(f"there is no kernel @{op.callee.root_reference.data}", op)
    return kernel


@dataclass(frozen=True)
class TensorLayout:
    """The layout of a tensor type; ``init`` is the initial value of the elements of a new tensor.

    Sizes may be expressions in the names of scalar arguments of a launch; ``at`` returns the layout for these ``numbers``.
    """

    sizes: tuple[Steps, ...]
    strides: tuple[Steps, ...]
    dtype: torch.dtype
    device: torch.device
    init: float | None = None

    def at(self, numbers: Mapping[str, int]) -> TensorLayout:
        sizes, strides = (tuple(value_at(step, numbers) for step in each) for each in (self.sizes, self.strides))
        return self if (sizes, strides) == (self.sizes, self.strides) else replace(self, sizes=sizes, strides=strides)

    def known_sizes(self) -> tuple[int, ...]:
        return tuple(size for size in self.sizes if isinstance(size, int))

    def known_strides(self) -> tuple[int, ...]:
        return tuple(step for step in self.strides if isinstance(step, int))

    def new(self, *, wide: bool = False) -> Tensor:
        """Allocate a tensor; ``wide``: floats are float64."""
        dtype = torch.float64 if wide and self.dtype.is_floating_point else self.dtype
        made = torch.empty_strided(self.known_sizes(), self.known_strides(), dtype=dtype, device=self.device)
        return made if self.init is None else made.fill_(self.init)

    def laid_out(self, tensor: Tensor) -> Tensor:
        """Return ``tensor``, or a copy with these strides."""
        if tensor.stride() == self.strides:
            return tensor
        made = torch.empty_strided(self.known_sizes(), self.known_strides(), dtype=tensor.dtype, device=tensor.device)
        return made.copy_(tensor)


def operand_layouts(op: LaunchOp | plan.LaunchOp) -> list[TensorLayout]:
    """Return the layout of each tensor operand of ``op``."""
    return [_layout(value.type, op) for value in op.operands[: len(kernel_of(op).inputs())]]


def result_layouts(op: LaunchOp | plan.LaunchOp) -> list[TensorLayout]:
    """Return the layout of each tensor that ``op`` returns or writes."""
    kernel = kernel_of(op)
    initial = [kernel.argument_attributes(argument).get(INIT) for argument in kernel.outputs()]
    numbers = [init.value.data if isinstance(init, (IntegerAttr, FloatAttr)) else None for init in initial]
    written = op.outs.types if isinstance(op, plan.LaunchOp) else op.result_types
    return [_layout(type, op, number) for type, number in zip(written, numbers, strict=True)]


def _layout(type: Attribute, op: Operation, init: float | None = None) -> TensorLayout:
    assert is_tensor(type)
    if not plan.has_known_steps(type):
        raise kernel_error("a kernel runs on tensors of known strides", op)
    return TensorLayout(
        tuple(sizes_of(type)), tuple(strides_of(type)), torch_dtype(type.element_type), torch.device(types.device(type)), init
    )


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
