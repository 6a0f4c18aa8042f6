"""The reference interpreter of kernels: all programs of a grid at once, each access of memory checked.

``tile_rules.py`` has what each op does. A value is a tensor with one axis more than the block has: programs, or 1 where all
programs have the same. Programs that do not take part (their loop is over, the branch is another's) compute along; what they
would carry or store is dropped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import torch
from xdsl.dialects import scf
from xdsl.dialects.builtin import FloatAttr, IndexType, IntegerAttr, TensorType
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue

from fxc.bridge.values import torch_dtype
from fxc.dialects import plan, tile
from fxc.dialects.attributes import types
from fxc.dialects.attributes.size_polynomials import Steps, sizes_of, strides_of, value_at
from fxc.dialects.text.diagnostics import place_of
from fxc.dialects.text.syntax import op_text
from fxc.dialects.tile.kernel import INIT, KernelOp, LaunchOp
from fxc.dialects.tile.types import PtrType, element_of, shape_of
from fxc.errors import FxcError, NoRuleError
from fxc.interpret.tile_memory import Buffer, bytes_of, kernel_error
from fxc.interpret.tile_ops import BINARY, CASTS
from fxc.interpret.tile_rules import RULES

Tensor = torch.Tensor

_LANES = 1 << 22
"""So many lanes of the largest block are held at once: larger grids run in parts."""


def run_kernel(kernel: KernelOp, arguments: Sequence[Tensor | float], *, wide: bool = False) -> None:
    """Runs ``kernel``: a tensor for each pointer, a number for each scalar, as the kernel orders them.

    What is written is written in place. ``wide`` computes floats in float64; then the tensors are float64, too. Raises
    KernelError for an access that is out of bounds, reads what nothing wrote, or that another program disturbs.
    """
    Launch(kernel, arguments, wide).run()


def launch(op: LaunchOp, operands: Sequence[Any], *, wide: bool = False) -> list[Tensor]:
    """The results of ``op``. KernelError as ``run_kernel``, and where an element of a result was not written."""
    kernel = kernel_of(op)
    inputs = len(kernel.inputs())
    numbers = symbol_values(op, operands)
    tensors = [layout.at(numbers).laid_out(x) for layout, x in zip(operand_layouts(op), operands[:inputs], strict=True)]
    results = [layout.at(numbers).new(wide=wide) for layout in result_layouts(op)]
    run = Launch(kernel, [*tensors, *results, *operands[inputs:]], wide)
    run.run()
    for argument, result in zip(kernel.outputs(), results, strict=True):
        written = run.buffers[argument].written
        if result.numel() and not written.as_strided(result.shape, result.stride()).all():
            raise kernel_error(f"the kernel leaves elements of %{_name(argument)} unwritten", op)
    return results


def launch_into(op: plan.LaunchOp, inputs: Sequence[Any], outs: Sequence[Tensor], *, wide: bool = False) -> None:
    """Runs the kernel of ``op`` on tensors that are there. KernelError as ``run_kernel``, and where one of ``outs`` is not laid
    out as its type says."""
    kernel = kernel_of(op)
    count = len(kernel.inputs())
    numbers = symbol_values(op, inputs)
    tensors = [layout.at(numbers).laid_out(x) for layout, x in zip(operand_layouts(op), inputs[:count], strict=True)]
    for layout, out in zip((layout.at(numbers) for layout in result_layouts(op)), outs, strict=True):
        if out.shape != layout.sizes or out.stride() != layout.strides:
            raise kernel_error(f"a buffer has strides {out.stride()}, its type says {layout.strides}", op)
        if layout.init is not None:
            out.fill_(layout.init)
    run_kernel(kernel, [*tensors, *outs, *inputs[count:]], wide=wide)


def kernel_of(op: LaunchOp | plan.LaunchOp) -> KernelOp:
    """The kernel that ``op`` launches; KernelError where there is none."""
    if (kernel := op.kernel()) is None:
        raise kernel_error(f"there is no kernel @{op.callee.root_reference.data}", op)
    return kernel


@dataclass(frozen=True)
class Layout:
    """A tensor as its type says it is; ``init`` is what each element of a new one is.

    Sizes may be made of the names of numbers that a launch is given; ``at`` has the layout for these ``numbers``.
    """

    sizes: tuple[Steps, ...]
    strides: tuple[Steps, ...]
    dtype: torch.dtype
    device: torch.device
    init: float | None = None

    def at(self, numbers: Mapping[str, int]) -> Layout:
        sizes, strides = (tuple(value_at(step, numbers) for step in each) for each in (self.sizes, self.strides))
        return self if (sizes, strides) == (self.sizes, self.strides) else replace(self, sizes=sizes, strides=strides)

    def known_sizes(self) -> tuple[int, ...]:
        return tuple(size for size in self.sizes if isinstance(size, int))

    def known_strides(self) -> tuple[int, ...]:
        return tuple(step for step in self.strides if isinstance(step, int))

    def new(self, *, wide: bool = False) -> Tensor:
        """A new tensor; with floats in float64, if ``wide``."""
        dtype = torch.float64 if wide and self.dtype.is_floating_point else self.dtype
        made = torch.empty_strided(self.known_sizes(), self.known_strides(), dtype=dtype, device=self.device)
        return made if self.init is None else made.fill_(self.init)

    def laid_out(self, tensor: Tensor) -> Tensor:
        """``tensor``, or a copy of it with these strides."""
        if tensor.stride() == self.strides:
            return tensor
        made = torch.empty_strided(self.known_sizes(), self.known_strides(), dtype=tensor.dtype, device=tensor.device)
        return made.copy_(tensor)


def operand_layouts(op: LaunchOp | plan.LaunchOp) -> list[Layout]:
    """The layout of each tensor that ``op`` takes."""
    return [_layout(value.type, op) for value in op.operands[: len(kernel_of(op).inputs())]]


def result_layouts(op: LaunchOp | plan.LaunchOp) -> list[Layout]:
    """The layout of each tensor that ``op`` gives, or writes."""
    kernel = kernel_of(op)
    initial = [kernel.argument_attributes(argument).get(INIT) for argument in kernel.outputs()]
    numbers = [init.value.data if isinstance(init, (IntegerAttr, FloatAttr)) else None for init in initial]
    written = op.outs.types if isinstance(op, plan.LaunchOp) else op.result_types
    return [_layout(type, op, number) for type, number in zip(written, numbers, strict=True)]


def _layout(type: Attribute, op: Operation, init: float | None = None) -> Layout:
    assert isinstance(type, TensorType)
    if not plan.has_known_steps(type):
        raise kernel_error("a kernel runs on tensors of known strides", op)
    return Layout(
        tuple(sizes_of(type)), tuple(strides_of(type)), torch_dtype(type.element_type), torch.device(types.device(type)), init
    )


def symbol_values(op: LaunchOp | plan.LaunchOp, operands: Sequence[Any]) -> dict[str, Any]:
    """The numbers that ``op`` is given for symbolic sizes, by name."""
    inputs = op.inputs if isinstance(op, plan.LaunchOp) else op.operands
    pairs = zip(inputs, operands, strict=False)
    return {value.type.expression.data: number for value, number in pairs if isinstance(value.type, types.IntType)}


def _name(argument: BlockArgument) -> str:
    return argument._name or str(argument.index)


def _are_the_same(a: Tensor, b: Tensor) -> bool:
    """Whether two tensors are one, or views that start and end at the same byte."""
    return a is b or (a.numel() > 0 and a.device == b.device and bytes_of(a) == bytes_of(b))


def _share_memory(a: Tensor, b: Tensor) -> bool:
    """Whether an element of ``a`` has a byte with one of ``b``."""
    if a.device != b.device or a.untyped_storage().data_ptr() != b.untyped_storage().data_ptr():
        return False
    (start, end), (first, stop) = bytes_of(a), bytes_of(b)
    if start >= stop or first >= end:
        return False
    taken = torch.zeros(max(end, stop) - min(start, first), dtype=torch.bool)
    for tensor, offset in ((a, start), (b, first)):
        size = tensor.element_size()
        steps = [step * size for step in tensor.stride()]
        bytes = taken[offset - min(start, first) :].as_strided((*tensor.shape, size), (*steps, 1))
        if tensor is b:
            return bool(bytes.any())
        bytes.fill_(True)
    return False


class Launch:
    """One run of a kernel: its buffers, and the numbers of its scalars."""

    def __init__(self, kernel: KernelOp, arguments: Sequence[Tensor | float], wide: bool) -> None:
        self.kernel, self.wide = kernel, wide
        self.buffers = dict[SSAValue, Buffer]()
        self.scalars = dict[SSAValue, Tensor]()
        self.copies = list[tuple[Tensor, Tensor]]()
        self.given = list[tuple[Any, BlockArgument]]()
        parameters = kernel.body.block.args
        if len(arguments) != len(parameters):
            raise kernel_error(f"the kernel takes {len(parameters)} arguments, but got {len(arguments)}", kernel)
        for parameter, value in zip(parameters, arguments, strict=True):
            if not isinstance(parameter.type, PtrType):
                self.scalars[parameter] = torch.tensor([value], dtype=self.dtype(parameter.type))
        self.grid = kernel.programs_for([int(self.scalars[argument].item()) for argument in kernel.indices()])
        for parameter, value in zip(parameters, arguments, strict=True):
            if isinstance(parameter.type, PtrType):
                self.buffers[parameter] = self.shared(parameter, value) or self.buffer(parameter, parameter.type, value)
                self.given.append((value, parameter))
        self.check_apart()

    def dtype(self, element: Attribute) -> torch.dtype:
        found = torch.int64 if isinstance(element, IndexType) else torch_dtype(element)
        return torch.float64 if self.wide and found.is_floating_point else found

    def shared(self, parameter: BlockArgument, tensor: Any) -> Buffer | None:
        """The buffer of the pointer that got the same memory, where this one is written: then one record sees both."""
        if self.kernel.access(parameter) == "read":
            return None
        same = [self.buffers[other] for value, other in self.given if _are_the_same(value, tensor)]
        for buffer in same:
            buffer.make_writable()
        return same[0] if same else None

    def check_apart(self) -> None:
        """KernelError where what is written shares memory with another tensor that the kernel is given, and is not the same."""
        given = [(value, parameter) for value, parameter in self.given if value.numel()]
        for out, written in given:
            if self.kernel.access(written) == "read":
                continue
            for value, parameter in given:
                if not _are_the_same(value, out) and _share_memory(value, out):
                    what = f"%{_name(written)} is written, and shares memory with %{_name(parameter)}"
                    raise kernel_error(what, self.kernel)

    def buffer(self, parameter: BlockArgument, type: PtrType, value: Any) -> Buffer:
        kernel = self.kernel
        if not isinstance(value, Tensor) or value.dtype != self.dtype(type.pointee):
            given = value.dtype if isinstance(value, Tensor) else value
            raise kernel_error(f"%{_name(parameter)} points to {type.pointee}, but got {given}", kernel)
        extent = 1 + sum((size - 1) * stride for size, stride in zip(value.shape, value.stride(), strict=True))
        extent = extent if value.numel() else 0
        limit = kernel.elements(parameter)
        if limit is not None and limit > extent:
            raise kernel_error(f"%{_name(parameter)} points to {limit} elements, but the tensor has {extent}", kernel)
        flat = value.detach().as_strided((extent if limit is None else limit,), (1,))
        data = flat.cpu()
        if data.device != flat.device:
            self.copies.append((flat, data))
        access = kernel.access(parameter)
        initialized = access != "write" or INIT in kernel.argument_attributes(parameter)
        data = data.view(torch.int8) if data.dtype == torch.uint8 else data
        return Buffer(_name(parameter), data, access=access, initialized=initialized, parallel=prod(self.grid) > 1)

    def run(self) -> None:
        count = prod(self.grid)
        largest = max([prod(shape_of(result.type)) for op in self.kernel.walk() for result in op.results], default=1)
        step = max(_LANES // largest, 1)
        with torch.no_grad():
            for start in range(0, count, step):
                Programs(self, torch.arange(start, min(start + step, count))).run()
            for op in self.kernel.body.block.ops:
                if isinstance(op, tile.LastProgramOp):
                    self.run_last(op)
        for target, data in self.copies:
            target.copy_(data)

    def run_last(self, op: tile.LastProgramOp) -> None:
        """What comes when all programs have run."""
        for argument, pointer in zip(op.body.block.args, op.pointers, strict=True):
            self.buffers[argument] = self.buffers[pointer]
            self.buffers[pointer].settle()
        Programs(self, torch.zeros(1, dtype=torch.int64)).block(op.body.block)


class Programs:
    """Some programs of a launch, run in step. ``active`` says which of them take part; None for all."""

    def __init__(self, launch: Launch, programs: Tensor) -> None:
        self.launch, self.programs = launch, programs
        self.active: Tensor | None = None
        self.env = dict[SSAValue, Tensor](launch.scalars)

    def run(self) -> None:
        self.block(self.launch.kernel.body.block)

    def block(self, block: Block) -> list[Tensor]:
        """What the terminator of ``block`` yields."""
        for op in block.ops:
            if isinstance(op, (tile.ReturnOp, tile.NextOp, scf.YieldOp)):
                return self.values(op)
            try:
                results = self.op(op)
            except FxcError:
                raise
            except Exception as error:
                raise kernel_error(f"{type(error).__name__}: {error}", op) from error
            self.env.update(zip(op.results, results, strict=True))
        return []

    def values(self, op: Operation) -> list[Tensor]:
        return [self.env[value] for value in op.operands]

    def op(self, op: Operation) -> Sequence[Tensor]:
        rule = RULES.get(type(op))
        if rule is not None:
            return rule(self, op)
        if isinstance(op, tile.LastProgramOp):
            return []  # the launch runs it
        if op.name in BINARY:
            return [BINARY[op.name](*self.values(op))]
        if op.name.removeprefix("arith.") in CASTS:
            dtype = self.launch.dtype(element_of(op.results[0].type))
            return [CASTS[op.name.removeprefix("arith.")](self.env[op.operands[0]], dtype)]
        raise NoRuleError(f"the reference interpreter does not run {op.name} in a kernel", op=op_text(op), place=place_of(op))

    def expanded(self, value: Tensor) -> Tensor:
        """``value`` with a row for each program."""
        return value.expand(len(self.programs), *value.shape[1:])
