"""Trace fills of integer tensors without gradients: after PyTorch's fills they require one, which traced operators refuse."""

from __future__ import annotations

from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map_only

_FILLS = frozenset(
    {torch.Tensor.fill_, torch.Tensor.index_fill_, torch.Tensor.masked_fill_, torch.Tensor.__setitem__, torch.fill_}
)
"""Functions that write a number, which may be in a tensor, to elements of a tensor."""


class IntegerFills(TorchFunctionMode):
    """``y.fill_(x)``, with an integer tensor ``y`` and a tensor ``x`` that requires a gradient, as ``y.fill_(x.detach())``."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in _FILLS and args and not (args[0].is_floating_point() or args[0].is_complex()):
            args, kwargs = tree_map_only(torch.Tensor, _detached, (args, kwargs))
        return func(*args, **kwargs)


def _detached(x: torch.Tensor) -> torch.Tensor:
    return x.detach() if x.requires_grad else x
