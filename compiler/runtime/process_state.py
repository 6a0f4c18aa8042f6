"""State of the process that a model may read by functions of ``torch``, and that a capture specializes."""

from __future__ import annotations

import torch

READS = (
    "is_grad_enabled",
    "is_inference_mode_enabled",
    "are_deterministic_algorithms_enabled",
    "get_num_threads",
    "initial_seed",
)
"""The functions, by name."""

SETS = (
    "set_default_dtype",
    "set_default_device",
    "set_default_tensor_type",
    "set_float32_matmul_precision",
    "set_flush_denormal",
    "set_num_threads",
    "set_deterministic_debug_mode",
    "use_deterministic_algorithms",
)
"""Functions that set such state, by name."""

Reads = tuple[tuple[str, int], ...]
"""``(name, value)`` for each function that a model has called."""


def difference(reads: Reads) -> str | None:
    """How the state of this thread differs from ``reads``; None if it does not."""
    found = ((name, value, getattr(torch, name)()) for name, value in reads)
    texts = (f"torch.{name}(), which was {was} when it was compiled, and is {now}" for name, was, now in found if was != now)
    return next(texts, None)
