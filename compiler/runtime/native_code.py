"""Load object files into this process, with the symbols that they may refer to."""

from __future__ import annotations

import ctypes
import hashlib
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from ctypes.util import find_library
from functools import cache
from itertools import count
from types import MappingProxyType
from typing import Any

import llvmlite.binding

from fxc.errors import KernelError
from fxc.runtime.host_cpu import CpuFeatures, features_named, host_features, openmp_symbols
from fxc.runtime.host_program import KernelCode

llvm: Any = llvmlite.binding  # a module without types
orc: Any = llvmlite.binding.orcjit

_LOCK = threading.RLock()  # llvmlite's lock guards single calls
_MAGIC: Mapping[str, bytes] = MappingProxyType({"linux": b"\x7fELF", "darwin": b"\xcf\xfa\xed\xfe"})
"""The first bytes of an object file."""
_SMALLEST = 64
"""The size of its header in bytes."""
_NUMBERS = count()  # the linker never takes a name twice
_LOADED = dict[tuple[bytes, ...], Any]()
"""Digest of an object and its functions -> the library, which lives as long as the process: callables hold bare addresses."""


@cache
def _initialize() -> None:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    if (mathematics := find_library("m")) is not None:
        llvm.load_library_permanently(mathematics)


def target_machine(features: CpuFeatures) -> Any:
    """Return LLVM's target machine for this platform, with exactly these features."""
    with _LOCK:
        _initialize()
        target = llvm.Target.from_default_triple()
        return target.create_target_machine(features=features.text, opt=3, reloc="pic", codemodel="default", jit=True)


@cache
def _linker() -> Any:
    """Return LLVM's linker, JITLink. It keeps the sections of an object together, whatever else is in the address space."""
    _initialize()
    return orc.create_lljit_compiler(use_jit_link=True, suppress_errors=True)


def load_object(code: bytes, names: Sequence[str]) -> dict[str, int]:
    """Load an object file and return the addresses of its functions. KernelError if that fails or one is missing."""
    if not code.startswith(_MAGIC.get(sys.platform, b"")) or len(code) < _SMALLEST:  # LLVM would crash
        raise KernelError("machine code that cannot be loaded: it is no object file")
    key = hashlib.sha256(code).digest(), *(name.encode() for name in names)
    with _LOCK:
        if (loaded := _LOADED.get(key)) is None:
            loaded = _LOADED[key] = _linked(code, names)
    return {name: loaded[name] for name in names}


def _linked(code: bytes, names: Sequence[str]) -> Any:
    library = orc.JITLibraryBuilder().add_object_img(code).add_current_process()
    for name, address in {**openmp_symbols(), **python_symbols()}.items():
        library.import_symbol(name, address)
    for name in names:
        library.export_symbol(name)
    try:
        return library.link(_linker(), f"kernels {next(_NUMBERS)}")
    except RuntimeError as error:
        raise KernelError(f"machine code that cannot be loaded: {error}") from error


def load_stored(code: KernelCode, features: str, entry: str) -> Mapping[str, Callable[..., object]]:
    """Load kernels that were compiled for ``features``, or for this CPU if empty: kernel name -> function.

    ``entry``: the suffix of the symbols. KernelError if this process would not generate such code, or it cannot be loaded.
    """
    here = host_features()
    wanted = features_named(features) if features else here
    if not wanted.names <= here.names or code.key != KernelCode.key_of(wanted):
        raise KernelError("machine code of another CPU or version")
    addresses = load_object(code.code, [name + entry for name in code.names])
    return {name: native_function(name, addresses[name + entry]) for name in code.names}


SYMBOLS = ("PyLong_AsVoidPtr", "PyLong_FromLong", "PyEval_SaveThread", "PyEval_RestoreThread")
"""Functions of CPython that the code calls; all are in the stable ABI."""

_FASTCALL = 0x0080


class _Method(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("code", ctypes.c_void_p), ("flags", ctypes.c_int), ("doc", ctypes.c_char_p)]


_METHODS = list[_Method]()  # functions hold bare addresses of these


@cache
def python_symbols() -> Mapping[str, int]:
    """Return the addresses of ``SYMBOLS`` in this process."""
    return {name: ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0 for name in SYMBOLS}


@cache
def native_function(name: str, address: int) -> Callable[..., object]:
    """Return a builtin function with the machine code at ``address``: a call costs a sixth of one through ctypes.

    The code is ``PyObject *code(PyObject *, PyObject *const *arguments, Py_ssize_t)``. Nothing checks the arguments: callers
    must have checked them.
    """
    method = _Method(name.encode(), address, _FASTCALL, None)
    _METHODS.append(method)
    new = ctypes.pythonapi.PyCFunction_NewEx
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p] * 3
    return new(ctypes.addressof(method), None, None)
