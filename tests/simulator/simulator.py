"""Runs printed Triton source on torch tensors, without Triton and without a GPU: every program of the grid at once.

What is run is the source itself, so that its numbers, types, bounds and writes can be checked where it will not run.
"""

from __future__ import annotations

import ast
import traceback
from collections.abc import Sequence
from types import CodeType

import torch

from fxc.codegen.triton.kernel_source import KernelArgument, KernelSource, programs_of
from fxc.errors import KernelError
from tests.simulator.blocks import DTYPES, Block, Diverged, scalar
from tests.simulator.language import namespace
from tests.simulator.memory import Memory

LANES_AT_ONCE = 1 << 22
"""How many lanes the blocks of a batch of programs have together, about."""

_TYPES = {
    "fp16": torch.float16,
    "bf16": torch.bfloat16,
    "fp32": torch.float32,
    "fp64": torch.float64,
    "i1": torch.bool,
    "i8": torch.int8,
    "i16": torch.int16,
    "i32": torch.int32,
    "i64": torch.int64,
}


def simulate(kernel: KernelSource, arguments: Sequence[torch.Tensor | int | float]) -> None:
    """Launch ``kernel``: a tensor for each pointer, a number for each scalar; what it writes, the tensors hold afterwards.

    A pointer addresses the memory from the tensor's first element on. Raises KernelError, with the program and the line, where
    one reads or writes beyond its elements, reads what nothing or another program wrote, writes what another wrote, or relies
    on a conversion that it does not spell out. Where programs count themselves, there is a counter for this launch.
    """
    _Simulation(kernel, arguments).run()


class _Simulation:
    def __init__(self, kernel: KernelSource, arguments: Sequence[torch.Tensor | int | float]) -> None:
        self.kernel = kernel
        self.code, branches = _without_imports(kernel)
        self.values = [_value(argument, given, branches) for argument, given in zip(kernel.arguments, arguments, strict=True)]
        if kernel.counter:
            self.values.append(_value(kernel.parameters[-1], torch.zeros(1, dtype=torch.int32), branches))
        numbers = [given for argument, given in zip(kernel.arguments, arguments, strict=True) if not argument.is_pointer]
        self.grid = programs_of(kernel.grid, numbers)
        self.memories = [value.memory for value in self.values if value.memory is not None]

    def run(self) -> None:
        total = torch.Size(self.grid).numel()
        for programs in torch.arange(total).split(max(LANES_AT_ONCE // self.kernel.lanes, 1)):
            if len(programs):
                self.programs(programs)
        if self.kernel.counter and self.memories[-1].flat.any():
            raise KernelError(f"{self.kernel.name} does not leave its counter at 0")

    def programs(self, programs: torch.Tensor) -> None:
        """Run some programs together, or in groups where they take different ways."""
        try:
            variables = namespace(programs, self.grid)
            exec(self.code, variables)
            variables[self.kernel.name](*self.values)
        except Diverged as diverged:
            for memory in self.memories:
                memory.undo()
            for label in diverged.labels.unique():
                self.programs(programs[diverged.labels == label])
        except KernelError as error:
            error.place, error.op = self.place(error)
            raise
        for memory in self.memories:
            memory.commit()

    def place(self, error: KernelError) -> tuple[str, str]:
        """Line number and text of the source that an error came from."""
        numbers = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == _file(self.kernel)]
        number = numbers[0] or 1
        return f"{self.kernel.name}, line {number}", self.kernel.source.splitlines()[number - 1].strip()


def _value(argument: KernelArgument, given: torch.Tensor | int | float, undoable: bool) -> Block:
    storage = _TYPES[argument.type.removeprefix("*")]
    if not argument.is_pointer:
        dtype = next(dtype for dtype in DTYPES.values() if dtype.storage is storage)
        return scalar(given, dtype)  # type: ignore[arg-type]
    if not isinstance(given, torch.Tensor):
        raise KernelError(f"argument {argument.name} is a pointer: it takes a tensor, not {given!r}")
    tensor = given.detach().view(torch.int8) if given.dtype is torch.uint8 else given.detach()
    if tensor.dtype is not storage or tensor.device.type != "cpu":
        raise KernelError(f"argument {argument.name} takes a CPU tensor of {storage}, not {tensor.dtype} on {tensor.device}")
    held = tensor.untyped_storage().nbytes() // tensor.element_size() - tensor.storage_offset()
    elements = held if argument.elements is None else argument.elements
    if elements > held:
        raise KernelError(f"argument {argument.name} addresses {elements} elements, but the tensor has {held}")
    memory = Memory(argument.name, tensor.as_strided((elements,), (1,)), argument.access, undoable)
    return Block(torch.zeros(1, dtype=torch.int64), DTYPES["int64"], memory)


def _without_imports(kernel: KernelSource) -> tuple[CodeType, bool]:
    """The code of the source, and whether its programs may take different ways."""
    tree = ast.parse(kernel.source, _file(kernel))
    tree.body = [statement for statement in tree.body if not isinstance(statement, (ast.Import, ast.ImportFrom))]
    branches = any(isinstance(node, (ast.For, ast.While, ast.If)) for node in ast.walk(tree))
    return compile(tree, _file(kernel), "exec"), branches


def _file(kernel: KernelSource) -> str:
    return f"<{kernel.name}>"
