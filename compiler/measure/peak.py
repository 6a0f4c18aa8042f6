"""Measure the memory that a call allocates at one time."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, cast

import torch


def peak_bytes(call: Callable[[], Any]) -> int:
    """Bytes on the CPU that PyTorch allocates at one time during ``call``, beyond those from before it."""
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
