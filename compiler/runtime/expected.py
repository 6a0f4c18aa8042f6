"""Checks of single tensors that an operator of PyTorch has returned, before code that takes addresses gets them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from fxc.errors import InputError
from fxc.runtime.native_kernel import TensorSpec


def expected(spec: TensorSpec) -> Callable[[Any], torch.Tensor]:
    """A function that gives a tensor which is as ``spec`` says, or a copy of it with these strides. InputError for another."""
    sizes, strides, dtype = torch.Size(spec.known_sizes()), spec.known_strides(), spec.dtype
    tensor, strided = torch.Tensor, torch.strided

    def check(value: Any) -> torch.Tensor:
        if (
            type(value) is tensor
            and value.shape == sizes
            and value.dtype is dtype
            and value.is_cpu
            and value.layout is strided
            and value.stride() == strides
            and not value.is_neg()
            and not value.is_conj()
        ):
            return value
        return _accepted(spec, value)

    return check


def _accepted(spec: TensorSpec, value: Any) -> torch.Tensor:
    if isinstance(value, torch.Tensor):
        value = value.resolve_conj().resolve_neg()
    if complaint := spec.complaint(value):
        raise InputError(f"{spec.name} {complaint}", hint="PyTorch's operator returned another tensor than it had promised")
    return spec.laid_out(value)
