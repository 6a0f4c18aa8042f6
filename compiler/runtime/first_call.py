"""Compare the first call of a function with a reference; later calls run unchanged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

import torch

Look: TypeAlias = Callable[[Sequence[Any], Callable[[], Any]], tuple[Any, bool]]
"""Run a call with these inputs; return its result, and whether it was compared."""


class FirstCall:
    """``run``, whose calls go through ``look`` until one is compared. ``boxed``: ``run`` takes its inputs in one list."""

    def __init__(self, look: Look, run: Callable[..., Any], *, boxed: bool = False) -> None:
        self._look, self._later, self._boxed = look, run, boxed
        self.run: Callable[..., Any] = self._first

    def __call__(self, *args: Any) -> Any:
        return self.run(*args)

    def _first(self, *args: Any) -> Any:
        returned, compared = self._look(list(args[0] if self._boxed else args), partial(self._later, *args))
        if compared:
            self.run = self._later
        return returned


class FirstCallOf(torch.nn.Module):
    """``module``, whose calls go through ``look`` until one is compared."""

    def __init__(self, look: Look, module: torch.nn.Module, *, boxed: bool = False) -> None:
        super().__init__()
        self.module, self._call = module, FirstCall(look, module, boxed=boxed)

    def __call__(self, *args: Any) -> Any:
        return self._call.run(*args)

    forward = __call__

    @property
    def code(self) -> str:
        """The Python code of ``module``."""
        return self.module.code  # type: ignore[return-value]
