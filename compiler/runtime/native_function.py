"""Machine code as a Python function that takes addresses: a call costs a sixth of one through ctypes."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from functools import cache

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


def native_function(name: str, address: int) -> Callable[..., object]:
    """Return a builtin function with the machine code at ``address``.

    The code is ``PyObject *code(PyObject *, PyObject *const *arguments, Py_ssize_t)``. Nothing checks the arguments: callers
    must have checked them.
    """
    method = _Method(name.encode(), address, _FASTCALL, None)
    _METHODS.append(method)
    new = ctypes.pythonapi.PyCFunction_NewEx
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p] * 3
    return new(ctypes.addressof(method), None, None)
