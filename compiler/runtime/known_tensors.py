"""Tensors that are like those of calls before, found out in native code."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch._C._dynamo.guards import TensorGuards

MOST = 8
"""How often is learnt: callers that take turns, with grad mode on and off say, are not to make a guard each time."""


class KnownTensors:
    """``check``: whether tensors have the class, dtype, device, sizes, strides, lazy bits, grad flag of those learnt last."""

    def __init__(self) -> None:
        self.check: Callable[..., bool] = _nothing
        self._left = MOST

    def learn(self, *tensors: torch.Tensor) -> bool:
        """``tensors`` have been found to be right; True."""
        if self._left > 0:
            self._left -= 1
            sizes, strides = [[*tensor.shape] for tensor in tensors], [[*tensor.stride()] for tensor in tensors]
            guards = TensorGuards(*tensors, dynamic_dims_sizes=sizes, dynamic_dims_strides=strides)  # type: ignore[call-arg]
            self.check = guards.check
        return True


def _nothing(*tensors: torch.Tensor) -> bool:
    return False
