"""Instrumentations of a pipeline run: hooks around every pass, with the current module; statistics, and dumps of the IR."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Set
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Protocol

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from fxc.dialects.text.syntax import print_module
from fxc.passes.analysis.statistics import recording


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


@dataclass
class PassStatistics:
    """One run of one pass. ``ops_after``: None where it failed; ``seconds``: wall time, verification included."""

    name: str
    ops_before: int
    ops_after: int | None = None
    seconds: float = 0.0
    counters: Counter[str] = field(default_factory=Counter[str])


@dataclass
class Statistics:
    """An instrumentation that records a ``PassStatistics`` for every pass run, in order."""

    runs: list[PassStatistics] = field(default_factory=list[PassStatistics])
    _start: float = field(default=0.0, init=False, repr=False)
    _recording: ExitStack = field(default_factory=ExitStack, init=False, repr=False)

    def before_pass(self, run: PassRun) -> None:
        statistics = PassStatistics(run.name, _count_ops(run))
        self.runs.append(statistics)
        self._recording.enter_context(recording(statistics.counters))
        self._start = time.perf_counter()

    def after_pass(self, run: PassRun) -> None:
        self.runs[-1].seconds = time.perf_counter() - self._start
        self._recording.close()
        self.runs[-1].ops_after = _count_ops(run)

    def after_failure(self, run: PassRun, error: BaseException) -> None:
        self._recording.close()

    def rows(self) -> list[tuple[str, str, str, str]]:
        """Pass, ops before, ops after, counters."""
        return [
            (
                run.name,
                str(run.ops_before),
                "failed" if run.ops_after is None else f"{run.ops_after} ({run.ops_after - run.ops_before:+})",
                ", ".join(f"{what} {amount}" for what, amount in sorted(run.counters.items()) if amount),
            )
            for run in self.runs
        ]


def _count_ops(run: PassRun) -> int:
    return sum(1 for _ in run.subject.walk())


@dataclass
class PrintIR:
    """An instrumentation that dumps IR.

    ``before`` and ``after`` are names of passes to dump around. ``after_change`` dumps only after passes that changed the
    IR: all passes, unless ``after`` names some. ``after_failure_too`` also dumps the IR that a failing pass left, as far as it
    can be printed.
    """

    write: Callable[[str], object]
    before: Set[str] = frozenset()
    after: Set[str] = frozenset()
    before_all: bool = False
    after_all: bool = False
    after_change: bool = False
    after_failure_too: bool = False
    debuginfo: bool = False
    generic: bool = False
    _texts: list[str] = field(default_factory=list[str], init=False, repr=False)

    def before_pass(self, run: PassRun) -> None:
        if self.before_all or run.name in self.before:
            self._dump("Before", run, self._text(run))
        if self.after_change:
            self._texts.append(self._text(run))

    def after_pass(self, run: PassRun) -> None:
        previous = self._texts.pop() if self.after_change else None
        if not (self.after_all or run.name in self.after or (self.after_change and not self.after)):
            return
        text = self._text(run)
        if text != previous:
            self._dump("After", run, text)

    def after_failure(self, run: PassRun, error: BaseException) -> None:
        if self.after_change:
            self._texts.pop()
        if not self.after_failure_too:
            return
        try:
            text = self._text(run)
        except Exception as unprintable:  # a failing pass may leave any IR; the error of the pass is reported
            text = f"// cannot be printed: {type(unprintable).__name__}: {unprintable}\n"
        self._dump("After", run, text, " Failed")

    def _text(self, run: PassRun) -> str:
        return print_module(run.subject, debuginfo=self.debuginfo, generic=self.generic)

    def _dump(self, when: str, run: PassRun, text: str, outcome: str = "") -> None:
        where = ""
        if run.anchor is not None:
            symbol = run.anchor.get_attr_or_prop("sym_name")
            where = f" ('{run.anchor.name}' operation" + (f": @{symbol.data})" if isinstance(symbol, StringAttr) else ")")
        self.write(f"// -----// IR Dump {when} {run.name}{where}{outcome} //----- //\n{text}\n")
