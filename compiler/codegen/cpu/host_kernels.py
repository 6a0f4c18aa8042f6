"""Compile the kernels of a host program to one object file, and load them as functions that take addresses."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from fxc.codegen.cpu.choices import shares_work
from fxc.codegen.cpu.kernel_printer import kernel_module
from fxc.codegen.cpu.machine_code import cached_object
from fxc.codegen.cpu.python_entry import ENTRY, print_entry
from fxc.dialects.tile import KernelOp
from fxc.runtime.cpu_features import CpuFeatures
from fxc.runtime.native_code import load_object
from fxc.runtime.native_function import native_function
from fxc.runtime.object_cache import ObjectCache, default_cache_folder
from fxc.runtime.openmp import openmp_symbols


def compile_kernels(kernels: Sequence[KernelOp], features: CpuFeatures) -> bytes:
    """An object file with the entries of ``kernels``. KernelError for an op that the CPU backend does not support."""
    module = kernel_module(kernels, features, lambda kernel: shares_work(kernel) and bool(openmp_symbols()))
    for kernel in kernels:
        print_entry(module, kernel)
    return cached_object(module.text(), features, ObjectCache(default_cache_folder() / "cpu"))


def load_kernels(code: bytes, names: Sequence[str]) -> Mapping[str, Callable[..., object]]:
    """The functions of an object file from ``compile_kernels``. Each takes addresses and returns 0 or a failure code.

    KernelError if the file cannot be loaded or lacks a kernel.
    """
    entries = load_object(code, [name + ENTRY for name in names])
    return {name: native_function(name, entries[name + ENTRY]) for name in names}
