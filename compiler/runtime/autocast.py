"""The autocast state of a call, and the float32 precision settings of PyTorch."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import torch
from torch import backends


def float32_precisions() -> tuple[str, ...]:
    """Return the float32 precision of products and convolutions in each library: "ieee", "tf32" or "bf16".

    ``torch.set_float32_matmul_precision`` sets these too. ``torch.get_float32_matmul_precision`` is not used: it raises an
    error if they were set separately.
    """
    mkldnn: Any = backends.mkldnn
    cudnn: Any = backends.cudnn
    places = (backends, mkldnn, mkldnn.matmul, mkldnn.conv, backends.cuda.matmul, cudnn, cudnn.conv)
    return tuple(["ieee" if place.fp32_precision == "none" else str(place.fp32_precision) for place in places])


def allows_tf32() -> bool:
    """Return whether products of float32 on CUDA devices may round their factors to TF32."""
    return backends.cuda.matmul.fp32_precision == "tf32"


Autocast = tuple[tuple[str, str], ...]
"""``(device type, dtype)`` for each device type with autocast on."""

is_on = torch._C._is_any_autocast_enabled
"""Whether autocast is on for some device type; takes 0.1 us."""


def current() -> Autocast:
    """Return the autocast state of this thread."""
    if not is_on():
        return ()
    kinds = [kind for kind in torch._C._autocast_supported_devices() if torch.is_autocast_enabled(kind)]
    return tuple((kind, str(torch.get_autocast_dtype(kind)).removeprefix("torch.")) for kind in kinds)


def off() -> ExitStack:
    """Return a context in which autocast is off: a compiled program contains its casts."""
    stack = ExitStack()
    for kind, _ in current():
        stack.enter_context(torch.autocast(kind, enabled=False))
    return stack


def text(state: Autocast) -> str:
    """Format ``state`` for an error message."""
    return " and ".join(f"torch.autocast({kind!r}, torch.{dtype})" for kind, dtype in state) or "no torch.autocast"
