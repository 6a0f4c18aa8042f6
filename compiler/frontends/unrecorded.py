"""Calls that no trace records: assignments to the data of a tensor, and hooks on gradients."""

from __future__ import annotations

from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from fxc.errors import TORCH_COMPILE, CaptureError

_HOOKS = frozenset[Any]([torch.Tensor.register_hook, torch.Tensor.register_post_accumulate_grad_hook])
"""Methods that register a function of a gradient."""


class GradientHook(NotImplementedError):
    """A hook on a gradient. Dynamo runs one on an input outside of its graph."""


class UnrecordedRefused(TorchFunctionMode):
    """Raise CaptureError where the data of a tensor is assigned, GradientHook for a hook."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if _is_data_set(func):
            raise CaptureError(
                "the model assigns to the data of a tensor, which no trace records",
                hint=f"write to it with copy_, compute a new tensor, or use {TORCH_COMPILE}",
            )
        if func in _HOOKS:
            raise GradientHook(f"{func.__name__} is not recorded")
        return func(*args, **(kwargs or {}))


def is_unrecorded(function: Any) -> bool:
    """Whether ``function``, as a mode gets it, assigns to the data of a tensor or registers a hook."""
    return _is_data_set(function) or function in _HOOKS


def _is_data_set(function: Any) -> bool:
    """Whether ``function`` implements ``tensor.data = other``: the tensor gets other memory."""
    return function == torch.Tensor.data.__set__  # type: ignore[attr-defined]
