"""Compile LLVM IR text to machine code. The object cache stores the result, so equal text for equal CPUs is compiled once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import llvmlite.binding

from fxc.errors import KernelError
from fxc.runtime.cpu_features import CpuFeatures
from fxc.runtime.native_code import load_object, target_machine
from fxc.runtime.object_cache import ObjectCache, cache_key

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
