"""Measure the memory that a call allocates at one time."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from typing import Any, cast

import torch


def peak_bytes(call: Callable[[], Any], device: str = "cpu") -> int:
    """Bytes on ``device``, ``cpu`` or ``cuda``, that PyTorch allocates at one time during ``call``, beside those before it."""
    return (_on_gpu if device == "cuda" else _on_cpu)(call)


def _on_gpu(call: Callable[[], Any]) -> int:
    gc.collect()  # what is freed during the call would hide what it allocates
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    call()
    return torch.cuda.max_memory_allocated() - before


def _on_cpu(call: Callable[[], Any]) -> int:
    os.environ.setdefault("KINETO_LOG_LEVEL", "6")  # else the profiler writes to stderr when it starts and stops
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        call()
    assert profile.profiler is not None and profile.profiler.kineto_results is not None
    events = cast("list[Any]", profile.profiler.kineto_results.events())
    live = most = 0
    for event in sorted((event for event in events if event.name() == "[memory]"), key=lambda event: event.start_ns()):
        live += event.nbytes()
        most = max(most, live)
    return most
