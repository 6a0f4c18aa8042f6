"""What may watch a pipeline run: called around every pass, with the module as it is then."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass


@dataclass(frozen=True)
class PassRun:
    """One pass about to run, or just run, on ``module``.

    Where the pass is anchored, ``anchor`` is the op that it works on and ``module`` a temporary module with that op and
    declarations of what it refers to.
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
        """The op to look at: the anchor, else the module."""
        return self.module if self.anchor is None else self.anchor


class Instrumentation(Protocol):
    """Hooks around each pass. They may read the module and must not change it; what they raise stops the pipeline.

    ``before_pass`` hooks run in the order given, the others in reverse. After ``before_pass`` exactly one of the others
    runs.
    """

    def before_pass(self, run: PassRun) -> None: ...

    def after_pass(self, run: PassRun) -> None:
        """The pass succeeded, and what it left verifies (where that is checked)."""
        ...

    def after_failure(self, run: PassRun, error: BaseException) -> None:
        """The pass raised ``error`` or left invalid IR: the module may be in any state."""
        ...
