"""Instrumentations of a pipeline run: hooks around every pass, with the current module."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass


@dataclass(frozen=True)
class PassRun:
    """One pass before or after it runs on ``module``.

    Where the pass is anchored, ``anchor`` is the op that it transforms and ``module`` a temporary module with that op and
    declarations of the symbols that it uses.
    """

    context: Context
    instance: ModulePass
    module: ModuleOp
    anchor: Operation | None = None

    @property
    def name(self) -> str:
        return self.instance.name

    @property
    def subject(self) -> Operation:
        """The op that the pass transforms: the anchor, else the module."""
        return self.module if self.anchor is None else self.anchor


class Instrumentation(Protocol):
    """Hooks around each pass. They may read the module and must not change it; an exception stops the pipeline.

    ``before_pass`` hooks run in order, the others in reverse. Exactly one of the others runs after each ``before_pass``.
    """

    def before_pass(self, run: PassRun) -> None: ...

    def after_pass(self, run: PassRun) -> None:
        """The pass succeeded, and its result is valid (if verification is on)."""
        ...

    def after_failure(self, run: PassRun, error: BaseException) -> None:
        """The pass raised ``error`` or left invalid IR: the module may be in any state."""
        ...
