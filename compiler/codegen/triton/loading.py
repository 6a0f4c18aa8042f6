"""A compiled kernel on the device: Triton's launcher, bound to it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from fxc.codegen.triton.ahead_of_time import CompiledKernel
from fxc.codegen.triton.grids import Grid, programs_of
from fxc.codegen.triton.kernel_source import KernelSource
from fxc.codegen.triton.targets import TritonTarget
from fxc.errors import KernelError


@dataclass(frozen=True)
class LauncherSource:
    """What Triton's launcher asks of a source: the types of arguments by name, and constants, of which there are none."""

    signature: dict[str, str]
    constants: dict[tuple[int, ...], Any] = field(default_factory=dict)


@dataclass(frozen=True)
class LoadedKernel:
    """A kernel to be launched on ``grid``, with as many numbers as ``scalars`` behind its pointers.

    ``run(x, y, z, stream, function, packed, None, None, None, *pointers, *numbers, *counters)`` launches the kernel. One that
    has a counter is launched on a grid that is known.

    The three that are None are what profilers hook in.
    """

    run: Callable[..., None]
    function: Any
    packed: Any
    grid: Grid
    scalars: int = 0

    def __call__(self, stream: int, *arguments: Any) -> None:
        grid = programs_of(self.grid, arguments[len(arguments) - self.scalars :])
        self.run(*grid, stream, self.function, self.packed, None, None, None, *arguments)


def load(compiled: CompiledKernel, source: KernelSource) -> LoadedKernel:
    """``compiled``, a variant of ``source``, on the current device. KernelError where the device cannot hold it."""
    from triton.compiler import CompiledKernel as TritonKernel
    from triton.runtime.errors import OutOfResources

    extension = TritonTarget.of(compiled.target).binary
    files = {"kernel.json": compiled.folder / "launch.json", f"kernel.{extension}": compiled.folder / f"kernel.{extension}"}
    signature = LauncherSource({argument.name: argument.type for argument in source.parameters})
    try:
        kernel = TritonKernel(signature, {name: str(path) for name, path in files.items()}, compiled.folder.name)
        run = kernel.run
    except OutOfResources as error:
        raise KernelError(f"kernel {source.name} does not fit the device: {error}", hint="give it smaller blocks") from error
    except (OSError, json.JSONDecodeError) as error:
        raise KernelError(f"compiled kernel {source.name} is damaged: {error}", hint=f"remove {compiled.folder}") from error
    x, y, z = (*source.grid, 1, 1)[:3]
    assert run is not None
    scalars = sum(not argument.is_pointer for argument in source.arguments)
    return LoadedKernel(run, kernel.function, kernel.packed_metadata, (x, y, z), scalars)


def current_stream() -> Callable[[int], int]:
    """Gives the current stream of a device by number, as a launch takes it."""
    from triton.runtime import driver

    active: Any = driver.active
    return active.get_current_stream
