"""Operators that end the process where a tensor has no elements, of which eager makes sure before it calls them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor


def _batch_norm_backward(grad: Tensor, x: Tensor, *args: Any) -> Sequence[Tensor | None]:
    if x.numel():
        return torch.ops.aten.native_batch_norm_backward.default(grad, x, *args)
    channels = torch.zeros(x.shape[1], dtype=x.dtype if args[0] is None else args[0].dtype, device=x.device)
    return tuple(
        made if wanted else None for made, wanted in zip((grad.clone(), channels, channels.clone()), args[-1], strict=True)
    )


NO_ELEMENTS: Mapping[Any, Callable[..., Any]] = {torch.ops.aten.native_batch_norm_backward.default: _batch_norm_backward}
"""Operator -> what stands for it."""
