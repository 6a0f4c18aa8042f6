"""Trace calls as eager executes them, where PyTorch's traces record another operator, or refuse the call."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map_only

_FILLS = frozenset(
    {torch.Tensor.fill_, torch.Tensor.index_fill_, torch.Tensor.masked_fill_, torch.Tensor.__setitem__, torch.fill_}
)
"""Functions that write a number, which may be in a tensor, to elements of a tensor."""

_POOLS = frozenset({torch.max_pool1d, functional.max_pool1d})


class EagerCalls(TorchFunctionMode):
    """Trace these calls as eager executes them:

    - ``y.fill_(x)``, with an integer tensor ``y`` and a tensor ``x`` that requires a gradient, as ``y.fill_(x.detach())``:
      after PyTorch's fill ``y`` requires a gradient, which traced operators refuse.
    - ``max_pool1d(x)`` without a gradient, on the CPU, with a contiguous result: traces record the operator that also returns
      the places of the maxima, whose result has the memory order of ``x``.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in _FILLS and args and not (args[0].is_floating_point() or args[0].is_complex()):
            args, kwargs = tree_map_only(torch.Tensor, _detached, (args, kwargs))
        result = func(*args, **kwargs)
        if func in _POOLS and isinstance(result, torch.Tensor) and result.is_cpu and not result.requires_grad:
            return result.contiguous()
        return result


def _detached(x: torch.Tensor) -> torch.Tensor:
    return x.detach() if x.requires_grad else x
