"""Compile a KernelSource to a binary for a named GPU with Triton. The machine itself needs no GPU.

Needs ``pip install fxc[triton]``. Results are cached on disk under a key of everything that they depend on. Missing kernels
are compiled by several processes in parallel.
"""

from __future__ import annotations

import atexit
import functools
import hashlib
import importlib.metadata
import json
import os
import platform
import re
import shutil
from collections.abc import Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from pathlib import Path
from queue import Empty, SimpleQueue

from fxc.codegen.triton.kernel_source import KernelSource
from fxc.codegen.triton.workers import Resources, Worker
from fxc.errors import KernelError
from fxc.runtime.object_cache import default_cache_folder


@dataclass(frozen=True)
class TritonTarget:
    """A GPU target in Triton's terms: ``backend`` and ``arch`` are ("cuda", 90) or ("hip", "gfx942").

    ``warp`` is the number of hardware lanes of a warp, ``binary`` the kind of binary of a compiled kernel.
    """

    name: str
    backend: str
    arch: int | str
    warp: int
    binary: str

    @classmethod
    def of(cls, name: str) -> TritonTarget:
        """The target of a name. Raises KernelError if the name has neither form."""
        cuda, rocm = re.fullmatch(r"cuda:sm_(\d+)", name), re.fullmatch(r"rocm:(gfx\w+)", name)
        if cuda is not None:
            return cls(name, "cuda", int(cuda[1]), 32, "cubin")
        if rocm is not None:
            return cls(name, "hip", rocm[1], 64 if rocm[1].startswith("gfx9") else 32, "hsaco")
        raise KernelError(
            f"{name!r} is not a GPU that Triton compiles for", hint="a target is one like cuda:sm_90 or rocm:gfx942"
        )


FORMAT = 2
"""The version of the cache format; it changes when the meaning of a cached file changes."""


@dataclass(frozen=True)
class CompileOptions:
    """Options of Triton's compiler.

    ``fp_fusion`` allows fused multiply-add with a single rounding; without it, each operation rounds as in IEEE 754.
    ``warps`` overrides the kernel's number of warps, ``stages`` Triton's number of pipeline stages.
    """

    fp_fusion: bool = False
    warps: int | None = None
    stages: int | None = None


DEFAULT = CompileOptions()


@dataclass(frozen=True)
class CompiledKernel:
    """A compiled kernel.

    ``binary`` (a cubin or an hsaco) defines the function ``symbol``; ``assembly`` is PTX or AMD's; ``folder`` has all files.
    """

    symbol: str
    target: str
    binary: bytes
    assembly: str
    resources: Resources
    folder: Path


def compile_kernels(
    kernels: Sequence[KernelSource],
    target: str,
    options: CompileOptions = DEFAULT,
    *,
    cache: Path | None = None,
) -> list[CompiledKernel]:
    """Compile ``kernels`` for ``target`` ("cuda:sm_90"), in as many processes as there are CPUs.

    ``cache`` is a folder, by default that of the user. Raises KernelError if Triton is not installed, if the target is
    unknown, or if Triton rejects a kernel; then the message is Triton's.
    """
    folders = [Job.of(kernel, target, options, cache).folder for kernel in kernels]
    once = dict(zip(folders, kernels, strict=True))
    waiting = {folder: compile_pool().submit(kernel, target, options, cache) for folder, kernel in once.items()}
    try:
        return [waiting[folder].result() for folder in folders]
    finally:  # the first failure cancels all other jobs
        for future in waiting.values():
            future.cancel()


def compile_kernel(
    kernel: KernelSource, target: str, options: CompileOptions = DEFAULT, *, cache: Path | None = None
) -> CompiledKernel:
    """Compile one kernel; see ``compile_kernels``."""
    return compile_kernels([kernel], target, options, cache=cache)[0]


def triton_version() -> str:
    """The version of Triton. Raises KernelError if it is not installed."""
    try:
        return importlib.metadata.version("triton")
    except importlib.metadata.PackageNotFoundError as error:
        raise KernelError("Triton is not installed", hint="pip install fxc[triton]") from error


def cache_folder() -> Path:
    """The cache folder of compiled kernels, in fxc's cache folder."""
    return default_cache_folder() / "triton"


def key_of(kernel: KernelSource, target: str, options: CompileOptions, version: str) -> str:
    """A cache key of everything that a binary depends on."""
    parts = [FORMAT, kernel.code(), target, asdict(options), version, platform.machine()]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class Job:
    """A kernel to compile; ``folder`` is the location of its result."""

    kernel: KernelSource
    target: TritonTarget
    options: CompileOptions
    folder: Path

    @classmethod
    def of(cls, kernel: KernelSource, target: str, options: CompileOptions = DEFAULT, cache: Path | None = None) -> Job:
        """A job for ``kernel``. Raises the errors of ``compile_kernels``."""
        found, folder = TritonTarget.of(target), cache_folder() if cache is None else cache
        return cls(kernel, found, options, folder / key_of(kernel, target, options, triton_version()))

    def compile(self, worker: Worker) -> None:
        """Compile the kernel in ``worker``. KernelError if Triton rejects it."""
        what = {"kernel": self.kernel.as_json(), "target": asdict(self.target), "options": asdict(self.options)}
        answer = worker.request({**what, "folder": str(self.folder)})
        if "error" in answer:
            message = f"Triton cannot compile {self.kernel.name} for {self.target.name}: {answer['error']}"
            raise KernelError(message, hint="fxc-opt --emit=triton shows the source")

    def result(self) -> CompiledKernel | None:
        """The result that a worker wrote; None if it is missing or incomplete."""
        try:
            facts = json.loads((self.folder / "kernel.json").read_text(encoding="utf-8"))
            binary = (self.folder / f"kernel.{self.target.binary}").read_bytes()
            assembly = (self.folder / "kernel.s").read_text(encoding="utf-8")
        except (OSError, ValueError):
            return None
        if hashlib.sha256(binary).hexdigest() != facts["sha256"] or not (self.folder / "launch.json").is_file():
            return None
        resources = Resources(**facts["resources"])
        return CompiledKernel(facts["symbol"], self.target.name, binary, assembly, resources, self.folder)

    def finished(self) -> CompiledKernel:
        """The result of a compiled job."""
        kernel = self.result()
        if kernel is None:
            raise KernelError(f"a compiled kernel was removed while it was to be read: {self.folder}", hint="try again")
        return kernel


class CompilePool:
    """Compiles kernels in the background with at most one process per CPU. The processes are reused."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(os.cpu_count() or 1, thread_name_prefix="fxc-triton")
        self._idle = SimpleQueue[Worker]()

    def submit(
        self, kernel: KernelSource, target: str, options: CompileOptions, cache: Path | None = None
    ) -> Future[CompiledKernel]:
        """A future of the compiled kernel, from the disk cache if it is there. Raises the errors of ``compile_kernels``."""
        future = self._threads.submit(self._compile, kernel, target, options, cache)
        if (awaited := _AWAITED.get()) is not None:
            awaited.append(future)
        return future

    def close(self) -> None:
        """Cancel pending jobs and end the processes."""
        self._threads.shutdown(wait=True, cancel_futures=True)
        while (worker := self._take()) is not None:
            worker.__exit__()

    def _compile(self, kernel: KernelSource, target: str, options: CompileOptions, cache: Path | None) -> CompiledKernel:
        job = Job.of(kernel, target, options, cache)
        exists = job.folder.exists()  # before it is read: another process may write it now
        found = job.result()
        if found is not None:
            return found
        if exists:
            shutil.rmtree(job.folder, ignore_errors=True)  # damaged
        worker = self._take() or Worker().__enter__()
        try:
            job.compile(worker)
        finally:
            if worker.process.poll() is None:
                self._idle.put(worker)
        return job.finished()

    def _take(self) -> Worker | None:
        try:
            return self._idle.get_nowait()
        except Empty:
            return None


@functools.cache
def compile_pool() -> CompilePool:
    """The compile pool of this process."""
    pool = CompilePool()
    atexit.register(pool.close)
    return pool


_AWAITED: ContextVar[list[Future[CompiledKernel]] | None] = ContextVar("awaited", default=None)


@contextmanager
def kernels_awaited() -> Generator[None, None, None]:
    """Wait for the kernels that are submitted in the context. KernelError for the first that Triton rejects."""
    token = _AWAITED.set(futures := [])
    try:
        yield
    finally:
        _AWAITED.reset(token)
    for future in futures:
        future.result()
