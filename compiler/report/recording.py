"""Run the passes of a compilation again, and record each: its time, its counts, and the IR that it left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from xdsl.dialects.builtin import ModuleOp

from fxc.compilation.passes import Passes
from fxc.dialects.text.syntax import print_module
from fxc.driver.instrumentation import PassRun, PassStatistics, Statistics
from fxc.driver.pipeline import passes_in
from fxc.passes.rewriting.remarks import remarking
from fxc.program.program import Program


@dataclass
class Recording:
    """``captured``: the IR before the passes. ``runs``: the passes in order. ``texts``: the IR before them and after each.

    ``module``: the IR after all of them. ``remarks``: why passes did not transform an op, one line each.
    """

    captured: ModuleOp
    module: ModuleOp
    runs: Sequence[PassStatistics] = ()
    texts: list[str] = field(default_factory=list[str])
    remarks: list[str] = field(default_factory=list[str])


def record(captured: Program, passes: Passes) -> Recording:
    """Run ``passes`` on a copy of ``captured``. FxcError where a pass fails."""
    program, statistics = captured.copy(), Statistics()
    snapshots = _Snapshots(program)
    recording = Recording(captured.module, program.module, statistics.runs, snapshots.texts)
    quiet = replace(passes, options=replace(passes.options, print_ir=False, timing=False, check_numerics=False))
    with remarking({each.name for each in passes_in(passes.steps)}, recording.remarks.append):
        quiet.compile(program, lambda _: None, snapshots, statistics)
    recording.module = program.module
    return recording


@dataclass
class _Snapshots:
    """An instrumentation that prints the whole program before the first pass and after each."""

    program: Program
    texts: list[str] = field(default_factory=list[str])

    def before_pass(self, run: PassRun) -> None:
        if not self.texts:
            self.texts.append(print_module(self.program.module))

    def after_pass(self, run: PassRun) -> None:
        self.texts.append(print_module(self.program.module))

    def after_failure(self, run: PassRun, error: BaseException) -> None:
        self.texts.append(self.texts[-1])
