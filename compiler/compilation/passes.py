"""Run the passes of a compilation: instrumented, timed, and with groups that fail lowered to calls of ATen.

A compilation goes through the disk cache: the result is loaded if it is there, else compiled and stored.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from fxc.artifact import cache
from fxc.codegen.contract import target_named
from fxc.codegen.fallback import FIRST, Checkpoint, Lowering
from fxc.codegen.triton.ahead_of_time import kernels_awaited
from fxc.dialects.target import set_target, target_of
from fxc.dialects.text.diagnostics import to_stderr
from fxc.driver.instrumentation import Instrumentation, PrintIR
from fxc.driver.pipeline import Step, pipeline_text, steps_from
from fxc.driver.pipeline_text import PassSpec, parse
from fxc.driver.registry import PassRegistry
from fxc.driver.runner import RunOptions, run_pipeline
from fxc.driver.timing import Timer
from fxc.export.graph_module import host_of
from fxc.measure.clock import times
from fxc.numerics.check_numerics import CheckNumerics
from fxc.options import AUTO, Options
from fxc.patterns.registry import registered
from fxc.pipelines import LATER_DERIVATIVE, lays_out_memory, parse_pipeline
from fxc.program.program import Program
from fxc.runtime.autocast import allows_tf32
from fxc.runtime.host_program import HostProgram, KernelCode
from fxc.runtime.plan import FROM_DISK, PLAN_CACHE
from fxc.runtime.rank_store import RankStore
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
            watchers.append(PrintIR(to_stderr, after_change=True))
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
            to_stderr(f"{name:40} {duration(wall):>9} {share:6.1%} cpu {duration(cpu):>9}\n")


Kernels = Mapping[str, KernelCode]
"""Machine code of the kernels of a program: under the empty name, and under the names of modules in it."""


@dataclass(frozen=True)
class CachedCompilation:
    """A compilation of ``program`` by ``passes``. ``key``: its cache key; None where it is not cached."""

    program: Program
    passes: Passes
    key: str | None

    @classmethod
    def of(cls, program: Program, passes: Passes, *, named: bool = True) -> CachedCompilation:
        """``named``: whether the names of values are part of the key."""
        program.key = None
        if is_cached(passes.options) and not has_patterns(passes.pipeline):
            with passes.timer.scope(PLAN_CACHE):
                program.key = cache.key_of(program, passes.pipeline, text_of(passes.options), named=named)
        return cls(program, passes, program.key)

    def ready(self) -> cache.Ready | None:
        """The cached host program, ready to run; None where the entry has none."""
        return None if self.key is None else self._looked_up(cache.find_ready, self.key)

    @contextmanager
    def once_among_ranks(self, store: RankStore | None) -> Generator[None, None, None]:
        """Compile in this context, where one of the ranks that have an equal program does so; others cache its result before.

        The result is a cache entry with its checksum. Ranks whose programs differ compile each their own.
        """
        key = self.key
        if store is None or key is None or cache.packed(key) is not None:
            yield
        elif store.claim(key):
            try:
                yield
            finally:
                store.publish(key, cache.packed(key) or b"")
        else:
            if (entry := store.plan(key)) is not None:
                cache.put(key, entry)
            yield

    def compile(
        self,
        finish: Callable[[Program, Kernels], T],
        kernels: Callable[[T], Kernels],
        host: Callable[[T], HostProgram | None] = lambda made: None,
    ) -> T:
        """The result of ``finish`` on the program after the passes, which run only if there is no cache entry.

        ``kernels`` and ``host`` extract from the result what to store: machine code, and a host program that can run unchanged.
        """
        program, timer = self.program, self.passes.timer
        entry = None if self.key is None else self._looked_up(cache.find, self.key)
        if entry is not None:
            program.module = entry.module
            return finish(program, entry.kernels)
        made = self.passes.compile(program, lambda program: finish(program, {}))
        if self.key is not None and program.key is not None:  # no group failed
            with timer.scope(PLAN_CACHE):
                cache.store(self.key, program, kernels(made), host(made))
        return made

    def _looked_up(self, find: Callable[[str, Program], T | None], key: str) -> T | None:
        with self.passes.timer.scope(PLAN_CACHE):
            found = find(key, self.program)
        if found is not None:
            self.passes.timer.rename(PLAN_CACHE, FROM_DISK)
            self.passes.print_times()
        return found


def is_cached(options: Options) -> bool:
    """Whether compilations with ``options`` are stored on disk."""
    return options.cache_plans and not (options.check_numerics or options.print_ir or options.passes)


_OF_FILES = re.compile(r"apply-patterns *\{[^}]*\bfiles\b")


def has_patterns(pipeline: str) -> bool:
    """Whether patterns that no key states are applied: registered ones, or those of files."""
    return bool(registered()) or _OF_FILES.search(pipeline) is not None


def text_of(options: Options) -> str:
    """The options that passes depend on beside the pipeline, with the target resolved to its description."""
    target = None if options.target is None else str(target_named(options.target))
    return str((target, [(item.name, getattr(options, item.name)) for item in fields(options) if item.name not in _UNREAD]))


@dataclass(frozen=True)
class LaterDerivatives:
    """Compiles derivatives on first use, with ``options``."""

    options: Options

    def __call__(self, program: Program, *, kernels: bool) -> HostProgram | None:
        """Compile ``program`` in place: a derivative with marked gradients.

        Loads the result for an equal program from the cache if it is there. Returns the host program if the pipeline makes one.
        """
        pipeline = LATER_DERIVATIVE.text(kernels=kernels and target_of(program.module) is not None, freeze=False)
        cached = CachedCompilation.of(program, Passes(pipeline, self.options), named=False)
        return cached.compile(
            lambda program, kernels: host_of(program, kernels.get("")),
            lambda host: {} if host is None or host.code is None else {"": host.code},
        )


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
"""Options that do not change the result of the passes."""
