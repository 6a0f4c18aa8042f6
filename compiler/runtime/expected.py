"""Checks around code that takes addresses: of tensors that an operator of PyTorch has returned, and of what kernels say."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

from fxc.errors import BoundsError, InputError
from fxc.runtime.guards import Names, all_of
from fxc.runtime.native_kernel import TensorSpec, spec_tests
from fxc.runtime.origins import made_by


def expected(spec: TensorSpec) -> Callable[[Any], torch.Tensor]:
    """A function that gives a tensor which is as ``spec`` says, or a copy of it with these strides. InputError for another."""
    names = Names()
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
    """A function of what ``kernel`` says: 0, or the number, from 1 on, of what failed. BoundsError where that is so."""

    def check(status: int) -> None:
        if status:
            raise BoundsError(failures[status - 1], place=f"kernel {kernel}")

    return made_by("passed", check, kernel, failures)
