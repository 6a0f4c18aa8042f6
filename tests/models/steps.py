"""One training step, and what there is to compare of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from tests.models.captures import kept, loss_of


def gradients(function: Callable[..., Any], model: nn.Module, inputs: tuple[Any, ...]) -> dict[str, Any]:
    """Result, gradients and buffers of one step of ``function``, which runs over the tensors of ``model``; these are kept."""
    with kept(model):
        torch.manual_seed(0)
        result = function(*inputs)
        loss_of(result).backward()
        grads = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
        buffers = {name: buffer.detach().clone() for name, buffer in model.named_buffers()}
        return {"result": result, "grads": grads, "buffers": buffers}


def values(function: Callable[..., Any], model: nn.Module, inputs: tuple[Any, ...]) -> dict[str, Any]:
    """Result and buffers of one call of ``function`` without autograd, which runs over the tensors of ``model``."""
    with kept(model), torch.no_grad():
        torch.manual_seed(0)
        result = function(*inputs)
        return {"result": result, "buffers": {name: buffer.clone() for name, buffer in model.named_buffers()}}
