"""Load object files into this process, with the symbols that they may refer to."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from ctypes.util import find_library
from functools import cache
from types import MappingProxyType
from typing import Any

import llvmlite.binding

from fxc.errors import KernelError
from fxc.runtime.cpu_features import CpuFeatures, features_named, host_features
from fxc.runtime.host_program import KernelCode
from fxc.runtime.native_function import native_function, python_symbols
from fxc.runtime.openmp import openmp_symbols

llvm: Any = llvmlite.binding  # a module without types

_LOCK = threading.RLock()  # llvmlite's lock guards single calls, a load needs several
_MAGIC: Mapping[str, bytes] = MappingProxyType({"linux": b"\x7fELF", "darwin": b"\xcf\xfa\xed\xfe"})
"""The first bytes of an object file."""
_SMALLEST = 64
"""The size of its header in bytes."""
_ENGINES = list[Any]()  # code lives as long as the process: callables hold its bare addresses


@cache
def _initialize() -> None:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    if (mathematics := find_library("m")) is not None:
        llvm.load_library_permanently(mathematics)
    for name, address in {**openmp_symbols(), **python_symbols()}.items():
        llvm.add_symbol(name, address)


def target_machine(features: CpuFeatures) -> Any:
    """Return LLVM's target machine for this platform, with exactly these features."""
    with _LOCK:
        _initialize()
        target = llvm.Target.from_default_triple()
        return target.create_target_machine(features=features.text, opt=3, reloc="pic", codemodel="default", jit=True)


def load_object(code: bytes, names: Iterable[str], features: CpuFeatures) -> dict[str, int]:
    """Load an object file and return the addresses of its functions. KernelError if that fails or one is missing."""
    if not code.startswith(_MAGIC.get(sys.platform, b"")) or len(code) < _SMALLEST:  # LLVM would crash
        raise KernelError("machine code that cannot be loaded: it is no object file")
    with _LOCK:
        try:
            reference = llvm.ObjectFileRef.from_data(code)
            engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), target_machine(features))
            engine.add_object_file(reference)
            engine.finalize_object()
        except RuntimeError as error:
            raise KernelError(f"machine code that cannot be loaded: {error}") from error
        addresses: dict[str, int] = {name: engine.get_function_address(name) for name in names}
        missing = sorted(name for name, address in addresses.items() if not address)
        if missing:
            raise KernelError(f"machine code without the functions {', '.join(missing)}")
        _ENGINES.append(engine)
        return addresses


def load_stored(code: KernelCode, features: str, entry: str) -> Mapping[str, Callable[..., object]]:
    """Load kernels that were compiled for ``features``, or for this CPU if empty: kernel name -> function.

    ``entry``: the suffix of the symbols. KernelError if this process would not generate such code, or it cannot be loaded.
    """
    here = host_features()
    wanted = features_named(features) if features else here
    if not wanted.names <= here.names or code.key != KernelCode.key_of(wanted):
        raise KernelError("machine code of another CPU or version")
    addresses = load_object(code.code, [name + entry for name in code.names], wanted)
    return {name: native_function(name, addresses[name + entry]) for name in code.names}
