"""Loops of PyTorch (``scan``, ``while_loop``) in traces."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from functools import wraps
from types import MappingProxyType
from typing import Any
from unittest import mock

import torch
from torch.utils._pytree import tree_map_only

from fxc.bridge.memory import memory_of

_torch: Any = torch
LOOPS = MappingProxyType({"scan": (1, 3), "while_loop": (2, 3)})
"""Loop -> the places of the arguments that its body takes as they are in the first iteration."""


def separate(loop: str, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """``args`` of a loop with a copy of each tensor that the body takes and that shares memory with one before it.

    PyTorch traces the body with those of the first iteration, and does not distinguish tensors that are one.
    """
    seen = set[int]()

    def own(tensor: torch.Tensor) -> torch.Tensor:
        memory = memory_of(tensor)
        tensor = tensor.clone() if memory in seen else tensor
        seen.add(memory)
        return tensor

    return tuple(tree_map_only(torch.Tensor, own, arg) if place in LOOPS[loop] else arg for place, arg in enumerate(args))


@contextmanager
def loops_separated() -> Generator[None, None, None]:
    """A context in which loops are called with ``separate`` operands."""
    with ExitStack() as stack:
        for name in LOOPS:
            loop = getattr(_torch.ops.higher_order, name)
            plain = loop.__class__.__call__

            @wraps(plain)
            def call(self: Any, *args: Any, plain: Any = plain, name: str = name, **kwargs: Any) -> Any:
                return plain(self, *separate(name, args), **kwargs)

            stack.enter_context(mock.patch.object(loop.__class__, "__call__", call))
        yield
