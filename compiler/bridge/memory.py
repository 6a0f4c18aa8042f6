"""The memory of tensors in a trace."""

from __future__ import annotations

from typing import Any

import torch
from torch._C._functorch import get_unwrapped, is_functorch_wrapped_tensor
from torch._subclasses.functional_tensor import FunctionalTensor

_torch: Any = torch


def memory_of(tensor: Any) -> int:
    """What identifies the memory of ``tensor``, which its views have, too; a transform may wrap it."""
    while is_functorch_wrapped_tensor(tensor):
        tensor = get_unwrapped(tensor)
    if isinstance(tensor, FunctionalTensor):
        tensor = _torch._from_functional_tensor(tensor.elem)
    return tensor.untyped_storage()._cdata if tensor.layout is torch.strided else id(tensor)
