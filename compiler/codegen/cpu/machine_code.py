"""Compile LLVM IR text to machine code, and the kernels of a host program to one object file.

The object cache stores the result, so equal text for equal CPUs is compiled once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import llvmlite.binding

from fxc.codegen.cpu.builder import Builder, ModuleText, i64
from fxc.codegen.cpu.choices import shares_work
from fxc.codegen.cpu.kernel_printer import kernel_module, symbol
from fxc.codegen.cpu.memory_rules import messages
from fxc.codegen.cpu.types import I32, I64, PTR, Value
from fxc.dialects.tile import KernelOp
from fxc.errors import KernelError
from fxc.runtime.host_cpu import CpuFeatures, openmp_symbols
from fxc.runtime.native_code import load_object, native_function, target_machine
from fxc.runtime.object_cache import ObjectCache, cache_key, default_cache_folder

llvm: Any = llvmlite.binding  # a module without types

_OPTIMIZATION = 1
"""The optimization level of the IR pipeline. Kernels already have vectors and unrolled loops, so higher levels gain nothing."""


def compile_module(text: str, names: Sequence[str], features: CpuFeatures, cache: ObjectCache | None) -> dict[str, int]:
    """The addresses of the functions ``names`` in ``text``. KernelError if LLVM rejects the text."""
    code = object_code(text, features) if cache is None else cached_object(text, features, cache)
    return load_object(code, names)


def cached_object(text: str, features: CpuFeatures, cache: ObjectCache) -> bytes:
    """``object_code``, cached in ``cache``."""
    key = cache_key(text, llvmlite.__version__, str(_OPTIMIZATION), features.text)
    code = cache.get(key)
    if code is None:
        code = object_code(text, features)
        cache.put(key, code)
    return code


def object_code(text: str, features: CpuFeatures) -> bytes:
    """The object file of ``text``."""
    machine = target_machine(features)
    return machine.emit_object(_optimized(text, machine))


def assembly(text: str, features: CpuFeatures) -> str:
    """The assembly text of ``object_code``."""
    machine = target_machine(features)
    return machine.emit_assembly(_optimized(text, machine))


def _optimized(text: str, machine: Any) -> Any:
    try:
        module = llvm.parse_assembly(text)
        module.verify()
    except RuntimeError as error:
        raise KernelError(f"LLVM refuses the code of a kernel: {error}", hint="see it with fxc-opt --emit=llvm") from error
    module.triple = machine.triple
    module.data_layout = str(machine.target_data)
    tuning = llvm.create_pipeline_tuning_options(speed_level=_OPTIMIZATION)
    tuning.loop_vectorization = tuning.slp_vectorization = tuning.loop_interleaving = tuning.loop_unrolling = False
    builder = llvm.create_pass_builder(machine, tuning)
    builder.getModulePassManager().run(module, builder)
    return module


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
