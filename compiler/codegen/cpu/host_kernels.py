"""Compile the kernels of a host program to one object file, and load them as functions that take addresses."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from fxc.codegen.cpu.assert_rules import messages
from fxc.codegen.cpu.builder import Builder, ModuleText, i64
from fxc.codegen.cpu.choices import shares_work
from fxc.codegen.cpu.kernel_printer import kernel_module, symbol
from fxc.codegen.cpu.machine_code import cached_object
from fxc.codegen.cpu.types import I32, I64, PTR, Value
from fxc.dialects.tile import KernelOp
from fxc.runtime.cpu_features import CpuFeatures
from fxc.runtime.native_code import load_object, native_function
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


ENTRY = ".python"
"""The suffix of the name of an entry."""

RELEASES_FROM = 1 << 14
"""Minimum number of elements of the largest tensor for which the entry releases the GIL.

Releasing costs 50 ns. After a short kernel, the thread must also wait for up to one switch interval to acquire the GIL again.
"""


def print_entry(module: ModuleText, kernel: KernelOp) -> None:
    """Add ``PyObject *k.python(PyObject *, PyObject *const *arguments, Py_ssize_t)`` to ``module``.

    It returns 0 or the result of ``k.call``. Each argument is the address of a tensor; the kernel has no scalar arguments.
    Arguments are not checked.
    """
    b = Builder(module)
    pointers = [_pointer(b, index) for index in range(len(kernel.body.block.args))]
    state = b.call("PyEval_SaveThread", PTR) if _is_long(kernel) else None
    status = _call(b, kernel, pointers)
    if state is not None:
        b.call_void("PyEval_RestoreThread", state)
    b.line(f"ret {b.call('PyLong_FromLong', PTR, status)}")
    parameters = "ptr %self, ptr %arguments, i64 %count"
    module.functions.append(f"define ptr {symbol(kernel, ENTRY)}({parameters}) #0 {{\n{b.text()}}}\n")


def _pointer(b: Builder, index: int) -> Value:
    place = b.address(Value("%arguments", PTR), PTR, i64(index))
    return b.call("PyLong_AsVoidPtr", PTR, b.emit(PTR, f"load {place.type}, {place}, align 8"))


def _call(b: Builder, kernel: KernelOp, pointers: list[Value]) -> Value:
    listed = ", ".join(map(str, pointers))
    if not messages(kernel):
        b.line(f"call void {symbol(kernel, '.call')}({listed})")
        return i64(0)
    return b.cast("sext", b.emit(I32, f"call i32 {symbol(kernel, '.call')}({listed})"), I64.element)


def _is_long(kernel: KernelOp) -> bool:
    return max((kernel.elements(argument) or 0 for argument in kernel.body.block.args), default=0) >= RELEASES_FROM
