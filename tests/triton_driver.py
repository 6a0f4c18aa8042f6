"""A stand-in for Triton's driver: kernels run on the simulator, at the addresses that a launch passes."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from triton.backends.compiler import GPUTarget
from triton.compiler.compiler import max_shared_mem
from triton.runtime import driver

from fxc.codegen.triton.kernel_source import KernelSource
from tests.simulator.simulator import _TYPES, simulate


@dataclass
class Started:
    """What a launch passed to the driver."""

    signature: dict[str, str]
    metadata: Any
    grid: tuple[int, int, int]
    stream: int
    function: int
    packed: Any
    hooks: tuple[Any, ...]
    arguments: tuple[Any, ...]


@dataclass
class StandIn:
    """Has one device, an sm_90 with 227 KiB of shared memory, whose current stream is 7."""

    sources: dict[str, KernelSource]
    arch: int = 90
    shared: int = 227 << 10
    started: list[Started] = field(default_factory=list)
    loaded: list[str] = field(default_factory=list)

    @property
    def utils(self) -> StandIn:
        return self

    def get_device_properties(self, device: int) -> dict[str, int]:
        return {"max_shared_mem": self.shared, "multiprocessor_count": 132, "warpSize": 32}

    def load_binary(self, name: str, binary: bytes, shared: int, device: int) -> tuple[int, int, int, int, int]:
        assert binary[:4] == b"\x7fELF"
        self.loaded.append(name)
        return (1, len(self.loaded), 32, 0, 1024)

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int) -> int:
        return 7

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", self.arch, 32)

    def launcher_cls(self, source: Any, metadata: Any) -> Any:
        def launch(x: int, y: int, z: int, stream: int, function: int, packed: Any, *rest: Any) -> None:
            started = Started(source.signature, metadata, (x, y, z), stream, function, packed, rest[:3], rest[3:])
            self.started.append(started)
            kernel = self.sources[metadata.name]
            assert started.grid == (*kernel.grid, 1, 1)[:3]
            numbers = list(started.arguments)
            if kernel.counter:
                assert ctypes.c_int32.from_address(numbers.pop()).value == 0  # the simulator has its own
            simulate(kernel, values_at(kernel, numbers))

        return launch


def values_at(kernel: KernelSource, arguments: Sequence[Any]) -> list[Any]:
    """Tensors over the memory that pointers address; numbers as they are."""
    values = list[Any]()
    for argument, value in zip(kernel.arguments, arguments, strict=True):
        if argument.is_pointer:
            dtype = _TYPES[argument.type.removeprefix("*")]
            size = (argument.elements or 0) * dtype.itemsize
            memory = (ctypes.c_char * max(size, 1)).from_address(value)
            values.append(torch.frombuffer(memory, dtype=torch.uint8)[:size].view(dtype))
        else:
            values.append(value)
    return values


@contextmanager
def stand_in(*sources: KernelSource, **fields: Any) -> Iterator[StandIn]:
    """Triton's driver is a stand-in that knows these kernels."""
    before, made = driver._active, StandIn({source.name: source for source in sources}, **fields)
    driver.set_active(made)  # type: ignore[arg-type]
    max_shared_mem.cache_clear()
    try:
        yield made
    finally:
        driver._active = before
