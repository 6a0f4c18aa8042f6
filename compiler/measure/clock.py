"""The timer that passes use: ``FxcContext.times``, which loads PyTorch at its first call."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ModuleOp


def times(modules: Sequence[ModuleOp]) -> Sequence[float] | None:
    """Measure ``modules``; see ``fxc.measure.program_times.program_times``."""
    from fxc.measure.program_times import program_times

    return program_times(modules)
