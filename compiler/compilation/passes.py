"""Run the passes of a compilation: instrumented, timed, and with groups that fail lowered to calls of ATen."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from fxc.codegen.contract import target_named
from fxc.codegen.fallback import FIRST, Checkpoint, Lowering
from fxc.codegen.triton.ahead_of_time import kernels_awaited
from fxc.dialects.target import set_target
from fxc.driver.instrumentation import Instrumentation, PrintIR
from fxc.driver.pipeline import Step, pipeline_text, steps_from
from fxc.driver.pipeline_text import PassSpec, parse
from fxc.driver.registry import PassRegistry
from fxc.driver.runner import RunOptions, run_pipeline
from fxc.driver.timing import Timer
from fxc.measure.clock import times
from fxc.numerics.check_numerics import CheckNumerics
from fxc.options import AUTO, Options
from fxc.patterns.registry import registered
from fxc.pipelines import lays_out_memory, parse_pipeline
from fxc.program.program import Program
from fxc.runtime.autocast import allows_tf32
from fxc.runtime.units import duration

T = TypeVar("T")


@dataclass(frozen=True)
class Passes:
    """The passes of the text ``pipeline``, which is parsed on first use. ``timer`` records the times of all runs."""

    pipeline: str
    options: Options
    timer: Timer = field(default_factory=Timer)

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        registry = PassRegistry()
        for extra in self.options.passes:
            registry = registry.with_file(Path(extra)) if isinstance(extra, (str, Path)) else registry.with_pass(extra)
        return parse_pipeline(self.pipeline, registry)

    def without(self, name: str) -> Passes:
        """These passes without the pass or pipeline ``name``; the same object where there is none."""
        specs = parse(self.pipeline)
        others = [spec for spec in specs if not (isinstance(spec, PassSpec) and spec.name == name)]
        return self if len(others) == len(specs) else replace(self, pipeline=",".join(map(str, others)))

    def run(self, program: Program) -> None:
        """Run over ``program`` in place. The program may come from a user, so declared types are checked."""
        self._run(self.steps, program, check_types=lays_out_memory(self.steps))

    def compile(self, program: Program, finish: Callable[[Program], T], *watchers: Instrumentation) -> T:
        """Run over the captured ``program`` in place, and return the result of ``finish`` on it."""
        rest = steps_from(FIRST, self.steps)

        def start(program: Program, checkpoint: Checkpoint) -> None:
            self._run(self.steps, program, checkpoint, *watchers)

        def resume(program: Program) -> None:
            self._run(rest, program)

        def finished(program: Program) -> T:
            with kernels_awaited():
                return finish(program)

        return Lowering(start, resume, finished, lambda: pipeline_text(rest)).run(program)

    def _run(self, steps: Sequence[Step], program: Program, *more: Instrumentation, check_types: bool = False) -> None:
        options, watchers = self.options, list(more)
        program.context.times, program.context.patterns = times, registered()
        if options.target not in (None, AUTO):
            import torch

            settings = {"deterministic": torch.are_deterministic_algorithms_enabled(), "tf32": allows_tf32()}
            set_target(program.module, target_named(options.target), autotune=options.autotune, **settings)
        if options.print_ir:
            watchers.append(PrintIR(sys.stderr.write, after_change=True))
        if options.check_numerics:
            watchers.append(CheckNumerics(program))
        chosen = RunOptions(
            verify_each=options.verify_each, instrumentations=tuple(watchers), timer=self.timer, check_types=check_types
        )
        run_pipeline(program.context, program.module, steps, chosen)
        self.print_times()

    def print_times(self) -> None:
        """Print the recorded times, if ``options.timing``."""
        for name, wall, share, cpu, _ in self.timer.rows() if self.options.timing else ():
            print(f"{name:40} {duration(wall):>9} {share:6.1%} cpu {duration(cpu):>9}", file=sys.stderr)
