"""Trace ``torch.inference_mode`` as the switch of gradients that it is for results outside of it."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import torch


@contextmanager
def inference_as_no_grad() -> Generator[None, None, None]:
    """A context in which ``inference_mode()`` is ``no_grad()``: tracers record that switch, not the one of inference mode."""
    plain = torch.inference_mode.__enter__

    def enter(self: Any) -> None:
        if not self.mode:
            return plain(self)
        self._inference_mode_context = torch.no_grad()  # what __exit__ leaves
        return self._inference_mode_context.__enter__()

    torch.inference_mode.__enter__ = enter
    try:
        yield
    finally:
        torch.inference_mode.__enter__ = plain
