"""Kernels compiled in the background, while the plan that launches them is made."""

from __future__ import annotations

import atexit
import os
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from queue import Empty, SimpleQueue

from fxc.codegen.triton.ahead_of_time import CompiledKernel, CompileOptions, Job
from fxc.codegen.triton.kernel_source import KernelSource
from fxc.codegen.triton.workers import Worker


class CompilePool:
    """As many processes at most as there are CPUs; they are started when needed and stay for the next kernel."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(os.cpu_count() or 1, thread_name_prefix="fxc-triton")
        self._idle = SimpleQueue[Worker]()

    def submit(self, kernel: KernelSource, target: str, options: CompileOptions) -> Future[CompiledKernel]:
        """The compiled kernel, later, from disk if it is there; errors are those of ``compile_kernels``."""
        return self._threads.submit(self._compile, kernel, target, options)

    def close(self) -> None:
        """Drop what has not begun, and end the processes."""
        self._threads.shutdown(wait=True, cancel_futures=True)
        while (worker := self._take()) is not None:
            worker.__exit__()

    def _compile(self, kernel: KernelSource, target: str, options: CompileOptions) -> CompiledKernel:
        job = Job.of(kernel, target, options)
        found = job.result()
        if found is not None:
            return found
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


@cache
def compile_pool() -> CompilePool:
    """The one of this process."""
    pool = CompilePool()
    atexit.register(pool.close)
    return pool
