"""A printed kernel: its source, and what a launch or a compiler must know beside it. Plain data, for JSON and for workers."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any


@dataclass(frozen=True)
class KernelArgument:
    """An argument of a kernel.

    ``type`` is Triton's spelling (``*fp32``, ``i64``). ``access`` ("read", "write", "readwrite") and ``elements``, how many may
    be addressed, are for pointers; ``divisible`` is a number that the address in bytes, or the size, is a multiple of.
    """

    name: str
    type: str
    access: str = ""
    elements: int | None = None
    divisible: int = 1

    @property
    def is_pointer(self) -> bool:
        return self.type.startswith("*")


@dataclass(frozen=True)
class KernelSource:
    """``source`` is a Python file that defines the Triton function ``name``, to be launched on ``grid`` programs.

    A text in ``grid`` is Python of ``n0``, ...: the numbers of a launch. ``lanes`` is the size of the largest block,
    ``warps`` how many warps (32 lanes of hardware each) should share a program. Where there is a ``counter``, the function has
    one parameter more, of this name: the address of an int32, 0 before a launch and after it, that no other launch uses at the
    same time.
    """

    name: str
    source: str
    arguments: tuple[KernelArgument, ...]
    grid: tuple[int | str, ...]
    lanes: int
    warps: int
    counter: str = ""

    @property
    def parameters(self) -> tuple[KernelArgument, ...]:
        """All of the function's: the arguments, and the counter."""
        counters = (KernelArgument(self.counter, "*i32", "readwrite", 1),) if self.counter else ()
        return (*self.arguments, *counters)

    def unaligned(self) -> KernelSource:
        """The same kernel for addresses and numbers that are multiples of nothing."""
        return replace(self, arguments=tuple(replace(argument, divisible=1) for argument in self.arguments))

    def code(self) -> dict[str, Any]:
        """What a compiler makes something of, as JSON: all but the comments, which say where the kernel is from."""
        lines = self.source.splitlines(keepends=True)
        return {**self.as_json(), "source": "".join(line for line in lines if not line.lstrip().startswith("#"))}

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> KernelSource:
        arguments = tuple(KernelArgument(**argument) for argument in data["arguments"])
        return cls(**{**data, "arguments": arguments, "grid": tuple(data["grid"])})
