"""What passes measure programs by: ``FxcContext.times``, which loads PyTorch when it is first asked."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ModuleOp


def times(modules: Sequence[ModuleOp]) -> Sequence[float] | None:
    """See ``fxc.measure.program_times.program_times``."""
    from fxc.measure.program_times import program_times

    return program_times(modules)
