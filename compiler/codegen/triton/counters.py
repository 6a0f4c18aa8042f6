"""Counters of programs: an int32 for the launches of a stream, which run one after another and each leave it at 0."""

from __future__ import annotations

from functools import cache

import torch


class Counters:
    """A counter for each stream of ``device``, made when it is first used."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._made = dict[int, torch.Tensor]()

    def __call__(self, stream: int) -> torch.Tensor:
        """That of the current stream, whose number is ``stream``. A CUDA graph that is recorded gets one of its own, set to 0
        whenever it runs: it may run on any stream."""
        if is_captured(self.device):
            return self._new()
        found = self._made.get(stream)
        return found if found is not None else self._made.setdefault(stream, self._new())

    def _new(self) -> torch.Tensor:
        return torch.zeros(1, dtype=torch.int32, device=self.device)


@cache
def counters(device: torch.device) -> Counters:
    """Those of ``device``: all kernels that run there share them."""
    return Counters(device)


def is_captured(device: torch.device) -> bool:
    """Whether a CUDA graph records what is started on ``device``."""
    return device.type == "cuda" and torch.cuda.is_current_stream_capturing()
