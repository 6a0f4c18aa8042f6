"""Checks around kernels that take addresses: of results of PyTorch operators, and of the status that kernels return.

A check has no importable name; its origin is the call from which another process can make it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import torch

from fxc.errors import BoundsError, InputError
from fxc.runtime.guards import CodeNames, all_of
from fxc.runtime.native_kernel import TensorSpec, spec_tests

T = TypeVar("T")

_ORIGINS = WeakKeyDictionary[Any, tuple[str, tuple[Any, ...]]]()


def made_by(name: str, made: T, *args: Any) -> T:
    """Register ``made`` as the result of ``name(*args)``, for ``origin``."""
    _ORIGINS[made] = name, args
    return made


def origin(value: Any) -> tuple[str, tuple[Any, ...]] | None:
    """Return the name of the function that made ``value``, and its arguments; None if unknown."""
    try:
        return _ORIGINS.get(value)
    except TypeError:  # unhashable, or not weakly referenceable
        return None


def expected(spec: TensorSpec) -> Callable[[Any], torch.Tensor]:
    """Return a check of a tensor against ``spec``: copies it if strides differ, raises InputError for other mismatches."""
    names = CodeNames()
    lines = [
        f"if {all_of(spec_tests('value', names, spec))}: return value",
        f"return {names.of(partial(_accepted, spec))}(value)",
    ]
    return made_by("expected", names.function(["value"], lines), spec)


def _accepted(spec: TensorSpec, value: Any) -> torch.Tensor:
    if complaint := spec.complaint(value):
        raise InputError(f"{spec.name} {complaint}", hint="PyTorch's operator returned another tensor than it had promised")
    return spec.laid_out(value)


def passed(kernel: str, failures: Sequence[str]) -> Callable[[int], None]:
    """Return a function that checks the status of ``kernel``: 0, or the 1-based index in ``failures``, then BoundsError."""

    def check(status: int) -> None:
        if status:
            raise BoundsError(failures[status - 1], place=f"kernel {kernel}")

    return made_by("passed", check, kernel, failures)
