"""Build functions on GPU tensors that launch compiled kernels."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from math import inf
from pathlib import Path
from typing import Any

import torch

from fxc.codegen.triton.ahead_of_time import (
    DEFAULT,
    FORMAT,
    CompiledKernel,
    CompileOptions,
    TritonTarget,
    cache_folder,
    compile_pool,
    triton_version,
)
from fxc.codegen.triton.device import EventClock, by_turns, compile_target, runs_on, target_here
from fxc.codegen.triton.kernel_source import Grid, KernelSource, programs_of
from fxc.codegen.triton.printer import print_kernel
from fxc.dialects import plan
from fxc.dialects.attributes.types import IntType
from fxc.dialects.target import GpuAttr, is_autotuned, toplevel
from fxc.dialects.tile import LaunchOp
from fxc.errors import KernelError
from fxc.interpret.tile_level import kernel_of, operand_specs, result_specs
from fxc.runtime.guards import CodeNames
from fxc.runtime.native_kernel import ScalarSpec, TensorKernel, TensorSpec, specialized, specialized_write

LARGEST_GRID = ((1 << 31) - 1, 65535, 65535)
ALIGNMENT = 16
"""The divisor that the aligned variant of a kernel assumes for pointers and numbers with ``tile.divisible``."""


def compile_launch(op: LaunchOp | plan.LaunchOp, target: GpuAttr) -> GpuKernel | None:
    """Implement ``launch_runner`` of ``fxc.codegen.triton``."""
    specs = [*operand_specs(op), *result_specs(op)]
    if not specs or any(spec.device.type != "cuda" for spec in specs):
        return None
    return gpu_kernel(op, target)


def gpu_kernel(op: LaunchOp | plan.LaunchOp, target: GpuAttr) -> GpuKernel:
    """The launch ``op`` on the device of its tensors. KernelError if the kernel cannot be printed or launched."""
    kernel, source = kernel_of(op), print_kernel(kernel_of(op))
    if any(isinstance(size, int) and size > limit for size, limit in zip(source.grid, LARGEST_GRID, strict=False)):
        raise KernelError(
            f"kernel {source.name} has the grid {source.grid}, but {LARGEST_GRID} is the largest",
            hint="split the input into smaller calls",
        )
    inputs, outputs = (list(map(_on_device, specs)) for specs in (operand_specs(op), result_specs(op)))
    operands = (op.inputs if isinstance(op, plan.LaunchOp) else op.operands)[len(kernel.inputs()) :]
    symbols = [value.type.expression.data if isinstance(value.type, IntType) else "" for value in operands]
    numbers = zip(source.arguments[len(inputs) + len(outputs) :], symbols, strict=True)
    scalars = [_scalar(argument.name, argument.type, symbol) for argument, symbol in numbers]
    return GpuKernel(source, target, inputs, outputs, scalars, tunes=is_autotuned(toplevel(op)))


def _on_device(spec: TensorSpec) -> TensorSpec:
    """``spec`` on the first GPU, if it names none."""
    return replace(spec, device=torch.device("cuda", 0)) if spec.device == torch.device("cuda") else spec


def _scalar(name: str, type: str, symbol: str) -> ScalarSpec:
    kind = float if type.startswith(("fp", "bf")) else int
    return ScalarSpec(name, kind, int(type.lstrip("fpbi")), symbol)


class GpuKernel(TensorKernel):
    """A kernel that Triton compiles for ``target``: at construction if there is a GPU, else at the first call.

    Calls start the kernel on the current stream of its device and do not wait. If addresses or numbers are less divisible
    than the kernel declares, a variant without these assumptions runs. ``tunes``: the first call selects the number of warps
    and stages by autotuning. The first call raises KernelError if the device is not ``target`` or Triton is not installed.
    """

    def __init__(
        self,
        source: KernelSource,
        target: GpuAttr,
        inputs: Sequence[TensorSpec],
        outputs: Sequence[TensorSpec],
        scalars: Sequence[ScalarSpec] = (),
        *,
        tunes: bool = False,
    ) -> None:
        super().__init__(source.name, inputs, outputs, scalars, copies=True)
        self.source, self.target, self.tunes = source, compile_target(target), tunes
        self.device = (*inputs, *outputs)[0].device
        self._lock = threading.Lock()
        self._compiled = self._submit(source, DEFAULT) if torch.cuda.is_available() and not tunes else None
        self._unaligned: LoadedKernel | None = None
        self._call, self._start, self._write = self._first_call, self._first_start, super().write

    def write(self, *values: Any) -> None:
        self._write(*values)

    def _first_call(self, *arguments: Any) -> list[torch.Tensor]:
        tensors, numbers = arguments[: len(self.inputs)], arguments[len(self.inputs) :]
        sizes = self.sizes(*numbers)
        fake = self.fake_results(*tensors, sizes=sizes)
        if fake is not None:
            return fake
        self._bind(self.accepted(*tensors, sizes=sizes), numbers)
        return self._call(*arguments)

    def _first_start(self, *values: Any) -> None:
        self._bind(values[: len(self.inputs)], values[len(self.inputs) + len(self.outputs) :])
        self._start(*values)

    def _bind(self, tensors: Sequence[torch.Tensor], numbers: Sequence[Any]) -> None:
        """Load the kernel and generate the code of a call. ``tensors`` and ``numbers``: arguments for autotuning."""
        with self._lock, self._on_device():
            here, built = target_here(), TritonTarget.of(self.target)
            if not runs_on(built, here):
                message = f"kernel {self.name} is made for {self.target}, but {self.device} is {here.name}"
                raise KernelError(message, hint="the target cuda is the GPU of this machine")
            if self.tunes and not is_captured(self.device):
                options = tuned(self.source, self._device_name(), lambda ways: self._times(ways, tensors, numbers))
                self._compiled = self._submit(self.source, options)
            self._specialize(load((self._compiled or self._submit(self.source, DEFAULT)).result(), self.source))

    def _specialize(self, loaded: LoadedKernel) -> None:
        lines, names = self._lines(loaded)
        tensors = [*(f"x{i}" for i in range(len(self.inputs))), *(f"y{i}" for i in range(len(self.outputs)))]
        call, write = specialized(self, lines, names), specialized_write(self, lines, names)
        start = CodeNames(**names).function([*tensors, *(f"n{i}" for i in range(len(self.scalars)))], lines)
        self._call, self._start, self._write = map(self._guarded, (call, start, write))

    def _lines(self, loaded: LoadedKernel) -> tuple[list[str], dict[str, Any]]:
        """Python lines that launch the kernel on ``x0``, ... and ``y0``, ..., and the values of the names in them."""
        if 0 in self.source.grid:
            return ["pass"], {}
        tensors = [*(f"x{i}" for i in range(len(self.inputs))), *(f"y{i}" for i in range(len(self.outputs)))]
        values = [*(f"p{i}" for i in range(len(tensors))), *(f"n{i}" for i in range(len(self.scalars)))]
        arguments = ", ".join(values)
        lines = [f"p{i} = {tensor}.data_ptr()" for i, tensor in enumerate(tensors)]
        lines.append("current = stream(device)")
        if self.source.counter:
            lines.append("counter = count(current)")
            arguments += ", counter.data_ptr()"
        pairs = zip(values, self.source.arguments, strict=True)
        relied = [value for value, argument in pairs if argument.divisible % ALIGNMENT == 0]
        if relied:
            lines += [f"if ({' | '.join(relied)}) & {ALIGNMENT - 1}:", f"    unaligned(current, {arguments})", "else:"]
        x, y, z = loaded.grid
        start = f"run({x}, {y}, {z}, current, function, packed, None, None, None, {arguments})"
        lines.append(f"    {start}" if relied else start)
        names = {"run": loaded.run, "function": loaded.function, "packed": loaded.packed, "unaligned": self._run_unaligned}
        return lines, names | {"stream": current_stream(), "device": self.device.index or 0, "count": counters(self.device)}

    def _run_unaligned(self, stream: int, *arguments: Any) -> None:
        with self._lock:
            if self._unaligned is None:
                plain = self.source.unaligned()
                self._unaligned = load(self._submit(plain, DEFAULT).result(), plain)
        self._unaligned(stream, *arguments)

    def _times(
        self, ways: Sequence[CompileOptions], tensors: Sequence[torch.Tensor], numbers: Sequence[Any]
    ) -> Sequence[float]:
        """The time in milliseconds of the kernel with each of the options ``ways``; infinite if the device cannot load it."""
        waiting = [self._submit(self.source, way) for way in ways]
        outputs = [spec.new() for spec in self.at(self.outputs, numbers)]  # they must outlive the runs
        pointers = [tensor.data_ptr() for tensor in (*tensors, *outputs)]
        counter = counters(self.device)(current_stream()(self.device.index or 0))
        given = [*pointers, *numbers, *([counter.data_ptr()] if self.source.counter else [])]
        loaded = [_load_or_none(each, self.source) for each in waiting]
        runs = [_bound(kernel, self.device.index or 0, given) for kernel in loaded if kernel is not None]
        found = iter(by_turns(runs, self._clock()))
        return [inf if kernel is None else next(found) for kernel in loaded]

    def _submit(self, source: KernelSource, options: CompileOptions) -> Future[CompiledKernel]:
        return compile_pool().submit(source, self.target, options)

    def _clock(self) -> EventClock:
        return EventClock()

    def _device_name(self) -> str:
        return torch.cuda.get_device_name(self.device)

    def _on_device(self) -> AbstractContextManager[Any]:
        return torch.cuda.device(self.device) if self.device.type == "cuda" else nullcontext()

    def _guarded(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """``function`` with the kernel's device as the current one, if there are several devices."""
        if self.device.type != "cuda" or torch.cuda.device_count() == 1:
            return function

        def on_device(*arguments: Any) -> Any:
            if torch.cuda.current_device() == self.device.index:
                return function(*arguments)
            with self._on_device():
                return function(*arguments)

        return on_device


def _load_or_none(compiled: Future[CompiledKernel], source: KernelSource) -> LoadedKernel | None:
    try:
        return load(compiled.result(), source)
    except KernelError:
        return None


def _bound(kernel: LoadedKernel, device: int, arguments: Sequence[Any]) -> Callable[[], None]:
    stream = current_stream()
    return lambda: kernel(stream(device), *arguments)


# program counters: one int32 for all launches on a stream, which run one after another and each reset it to 0


class Counters:
    """A counter for each stream of ``device``, created at its first use."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._made = dict[int, torch.Tensor]()

    def __call__(self, stream: int) -> torch.Tensor:
        """The counter of the current stream, whose number is ``stream``.

        During capture of a CUDA graph, it is a new counter that each replay sets to 0, since a graph may run on any stream.
        """
        if is_captured(self.device):
            return self._new()
        found = self._made.get(stream)
        return found if found is not None else self._made.setdefault(stream, self._new())

    def _new(self) -> torch.Tensor:
        return torch.zeros(1, dtype=torch.int32, device=self.device)


@cache
def counters(device: torch.device) -> Counters:
    """The counters of ``device``, shared by all its kernels."""
    return Counters(device)


def is_captured(device: torch.device) -> bool:
    """Whether a CUDA graph captures the work on the current stream of ``device``."""
    return device.type == "cuda" and torch.cuda.is_current_stream_capturing()


# a loaded kernel: Triton's launcher with the kernel's function on the device


@dataclass(frozen=True)
class LauncherSource:
    """The interface that Triton's launcher expects of a source: the argument types by name, and no constants."""

    signature: dict[str, str]
    constants: dict[tuple[int, ...], Any] = field(default_factory=dict[tuple[int, ...], Any])


@dataclass(frozen=True)
class LoadedKernel:
    """A loaded kernel with its ``grid``; ``scalars`` is the number of scalar arguments after its pointers.

    ``run(x, y, z, stream, function, packed, None, None, None, *pointers, *numbers, *counters)`` launches the kernel. A kernel
    with a counter has a static grid.

    The three None arguments are profiler hooks.
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
    """Load ``compiled``, a variant of ``source``, on the current device. KernelError if the device cannot load it."""
    from triton.compiler import CompiledKernel as TritonKernel
    from triton.runtime.errors import OutOfResources

    extension = TritonTarget.of(compiled.target).binary
    files = {"kernel.json": compiled.folder / "launch.json", f"kernel.{extension}": compiled.folder / f"kernel.{extension}"}
    signature = LauncherSource({argument.name: argument.type for argument in source.parameters})
    try:
        kernel: Any = TritonKernel(signature, {name: str(path) for name, path in files.items()}, compiled.folder.name)
        run = kernel.run
    except OutOfResources as error:
        raise KernelError(f"kernel {source.name} does not fit the device: {error}", hint="choose smaller blocks") from error
    except (OSError, json.JSONDecodeError) as error:
        raise KernelError(f"compiled kernel {source.name} is damaged: {error}", hint=f"remove {compiled.folder}") from error
    x, y, z = (*source.grid, 1, 1)[:3]
    assert run is not None
    scalars = sum(not argument.is_pointer for argument in source.arguments)
    return LoadedKernel(run, kernel.function, kernel.packed_metadata, (x, y, z), scalars)


def current_stream() -> Callable[[int], int]:
    """A function that maps the number of a device to its current stream, as a launch expects it."""
    from triton.runtime import driver

    active: Any = driver.active
    return active.get_current_stream


# autotuning: measure a kernel with several compile options on this device


MOST_WARPS = 16
STAGES = (2, 3, 4)


def candidates(source: KernelSource) -> list[CompileOptions]:
    """The options to measure, the default first. Each thread has at least one lane."""
    most = min(MOST_WARPS, max(source.lanes // 32, 1))
    warps = [count for count in (source.warps // 2, source.warps * 2, source.warps * 4) if 1 <= count <= most]
    found = [DEFAULT, *(CompileOptions(warps=count) for count in warps)]
    if "tl.dot(" not in source.source:
        return found
    return [DEFAULT, *(CompileOptions(warps=each.warps, stages=stages) for each in found for stages in STAGES)]


def tuned(
    source: KernelSource,
    device: str,
    times: Callable[[Sequence[CompileOptions]], Sequence[float]],
    cache: Path | None = None,
) -> CompileOptions:
    """The fastest of the candidates by ``times``, or the cached result for a ``device`` of this name."""
    path = (cache_folder() if cache is None else cache) / "tuned" / f"{_key(source, device)}.json"
    known = _read(path)
    if known is not None:
        return known
    ways = candidates(source)
    measured = times(ways)
    best = ways[min(range(len(ways)), key=lambda way: measured[way])]
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(f".{id(best)}")
    part.write_text(json.dumps({**asdict(best), "milliseconds": list(measured)}), encoding="utf-8")
    part.replace(path)
    return best


def _key(source: KernelSource, device: str) -> str:
    parts = [FORMAT, source.code(), device, triton_version(), asdict(DEFAULT)]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _read(path: Path) -> CompileOptions | None:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return CompileOptions(fp_fusion=found["fp_fusion"], warps=found["warps"], stages=found["stages"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
