"""Machine code as a function that Python calls with addresses: a sixth of what a call through ctypes costs."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from functools import cache

SYMBOLS = ("PyLong_AsVoidPtr", "PyLong_FromLong", "PyEval_SaveThread", "PyEval_RestoreThread")
"""Functions of CPython that such code calls; all are of the stable ABI."""

_FASTCALL = 0x0080


class _Method(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("code", ctypes.c_void_p), ("flags", ctypes.c_int), ("doc", ctypes.c_char_p)]


_METHODS = list[_Method]()  # functions hold bare addresses of them


@cache
def python_symbols() -> Mapping[str, int]:
    """The addresses of ``SYMBOLS`` in this process."""
    return {name: ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0 for name in SYMBOLS}


def native_function(name: str, address: int) -> Callable[..., object]:
    """A builtin function whose code, ``PyObject *code(PyObject *, PyObject *const *arguments, Py_ssize_t)``, is at ``address``.

    Nothing checks what it is given: it is for callers that have checked already.
    """
    method = _Method(name.encode(), address, _FASTCALL, None)
    _METHODS.append(method)
    new = ctypes.pythonapi.PyCFunction_NewEx
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p] * 3
    return new(ctypes.addressof(method), None, None)
