"""Calls for a batch of gradients, as ``is_grads_batched=True`` and vectorized Jacobians make: one call for each of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import torch
from torch.utils._pytree import tree_map

from fxc.errors import InputError
from fxc.runtime.lazy import is_legacy_batched

_torch: Any = torch
_enter: Callable[[], int] = cast(Any, torch._C)._vmapmode_increment_nesting
_leave: Callable[[], int] = cast(Any, torch._C)._vmapmode_decrement_nesting


def is_batched(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and is_legacy_batched(value)


def for_each(function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """Call ``function``, which may be native code, for each entry of the batch, and return batches of its results.

    At least one argument is a batch. InputError for batches of batches.
    """
    outer = _leave()
    try:
        if outer:
            hint = "compute one of the Jacobians with vectorize=False"
            raise InputError("an input is a batch of batches of gradients", hint=hint)
        rows = [_torch._remove_batch_dim(value, 1, 1, 0) if is_batched(value) else None for value in args]
        count = next(row.shape[0] for row in rows if row is not None)
        results = [
            function(*(value if row is None else row[i] for value, row in zip(args, rows, strict=True))) for i in range(count)
        ]
        return tree_map(_stacked, *results)
    finally:
        _enter()


def _stacked(*each: Any) -> Any:
    return _torch._add_batch_dim(torch.stack(each), 0, 1) if isinstance(each[0], torch.Tensor) else each[0]
