"""Runs pipelines over programs as options say: watched, timed, and with the groups that fail as calls."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TypeVar

from fxc.artifact import cache as program_cache
from fxc.codegen.contract import target_named
from fxc.codegen.fallback import FIRST, Checkpoint, Lowering
from fxc.dialects.target import set_target, target_of
from fxc.driver.instrumentation import Instrumentation
from fxc.driver.pipeline import Step, pipeline_text, steps_from
from fxc.driver.print_ir import PrintIR
from fxc.driver.registry import PassRegistry
from fxc.driver.runner import RunOptions, run_pipeline
from fxc.driver.timing import Timer
from fxc.export.graph_module import host_of
from fxc.numerics.check_numerics import CheckNumerics
from fxc.options import AUTO, Options
from fxc.pipelines import LATER_DERIVATIVE, parse_pipeline
from fxc.program.program import Program
from fxc.runtime.host_program import HostProgram

T = TypeVar("T")


def run_pipeline_on(program: Program, pipeline: str, options: Options) -> Timer:
    """Runs pipeline text over ``program`` in place, watched as ``options`` say; gives the times of its passes."""
    timer = Timer()
    run_steps(program, pipeline_steps(pipeline, options), options, timer)
    return timer


def lowering(pipeline: str, options: Options, timer: Timer, finish: Callable[[Program], T]) -> Lowering[T]:
    """The same, and then ``finish``, for programs in which the groups that fail are to run as calls."""
    steps = pipeline_steps(pipeline, options)
    rest = steps_from(FIRST, steps)

    def resume(program: Program) -> None:
        run_steps(program, rest, options, timer)

    def start(program: Program, checkpoint: Checkpoint) -> None:
        run_steps(program, steps, options, timer, checkpoint)

    return Lowering(start, resume, finish, lambda: pipeline_text(rest))


def pipeline_steps(pipeline: str, options: Options) -> tuple[Step, ...]:
    registry = PassRegistry()
    for extra in options.passes:
        registry = registry.with_file(Path(extra)) if isinstance(extra, (str, Path)) else registry.with_pass(extra)
    return parse_pipeline(pipeline, registry)


def run_steps(
    program: Program, steps: Sequence[Step], options: Options, timer: Timer, *more: Instrumentation, check_types: bool = False
) -> None:
    if options.target not in (None, AUTO):
        import torch

        deterministic = torch.are_deterministic_algorithms_enabled()
        set_target(program.module, target_named(options.target), autotune=options.autotune, deterministic=deterministic)
    watchers = list(more)
    if options.print_ir:
        watchers.append(PrintIR(sys.stderr.write, after_change=True))
    if options.check_numerics:
        watchers.append(CheckNumerics(program))
    run_pipeline(
        program.context,
        program.module,
        steps,
        RunOptions(verify_each=options.verify_each, instrumentations=tuple(watchers), timer=timer, check_types=check_types),
    )
    if options.timing:
        for name, wall, share, cpu, _ in timer.rows():
            print(f"{name:40} {wall:9.1f} ms {share:6.1%} cpu {cpu:9.1f} ms", file=sys.stderr)


@dataclass(frozen=True)
class LaterDerivatives:
    """Compiles the derivatives that are first needed at a call, as ``options`` say."""

    options: Options

    def __call__(self, program: Program, *, kernels: bool) -> HostProgram | None:
        """Run the passes over ``program``, a derivative whose gradients are marked, in place, or find what they made of an
        equal one. The host program, where it ends in one."""
        pipeline = LATER_DERIVATIVE.text(kernels=kernels and target_of(program.module) is not None, freeze=False)
        key = None
        if is_kept(self.options):
            key = program.key = program_cache.key_of(program, pipeline, text_of(self.options), named=False)
        entry = None if key is None else program_cache.find(key, program)
        if entry is not None:
            program.module = entry.module
            return host_of(program, entry.kernels.get(""))
        host = lowering(pipeline, self.options, Timer(), host_of).run(program)
        if key is not None and program.key is not None:
            program_cache.keep(key, program, {"": host.code} if host is not None and host.code is not None else {})
        return host


def is_kept(options: Options) -> bool:
    """Whether what is compiled with ``options`` is kept on disk."""
    return options.cache_plans and not (options.check_numerics or options.print_ir or options.passes)


def text_of(options: Options) -> str:
    """What ``options`` ask of passes beside the pipeline, with the target that its name stands for here."""
    target = None if options.target is None else str(target_named(options.target))
    return str((target, [(item.name, getattr(options, item.name)) for item in fields(options) if item.name not in _UNREAD]))


_UNREAD = (
    "pipeline",
    "verify_each",
    "check_numerics",
    "print_ir",
    "timing",
    "recompile",
    "cache_size",
    "cache_plans",
    "strict",
    "fallback",
    "group_seconds",
    "passes",
)
"""Options that change no program, or that are looked at in another way."""
