"""Looks for programs on which fxc differs from eager, and makes each as small as it gets in bounded time."""

from __future__ import annotations

import contextlib
import logging
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random
from time import monotonic

import torch
from hypothesis import HealthCheck, Phase, find, settings
from hypothesis.errors import NoSuchExample

from tests.fuzz.check import Difference, NotCounted, check
from tests.fuzz.programs import Program
from tests.fuzz.reduction import reductions
from tests.fuzz.strategy import programs

SHRINK_SECONDS, SHRINK_PROGRAMS = 10.0, 80
"""The longest that one failure is made smaller for: seconds where a run has seconds, else programs."""


@dataclass
class Failure:
    program: Program
    word: str
    reason: str
    kind: str
    seen: int = 1

    @property
    def key(self) -> tuple[str, tuple[str, ...]]:
        return self.kind, tuple(sorted(set(self.program.operators)))

    def __str__(self) -> str:
        more = f" ({self.seen} such programs)" if self.seen > 1 else ""
        return f"{self.word}: {self.program.route}: {self.reason}{more}\n{self.program.test}"


@dataclass
class Counts:
    """Of different programs."""

    mode: str
    programs: int = 0
    not_counted: int = 0
    seconds: float = 0.0
    failures: list[Failure] = field(default_factory=list)

    def __str__(self) -> str:
        words = [failure.word for failure in self.failures]
        found = ", ".join(
            f"{words.count(word)} {word if word == 'wrong' or words.count(word) == 1 else word + 's'}"
            for word in dict.fromkeys(["wrong", "error", *words])
        )
        result = found if words else "all as eager"
        return f"{self.mode}: {self.programs} programs, {result}, {self.not_counted} not counted, {self.seconds:.0f} s"


class _Stop(BaseException):
    """Ends a search from within; hypothesis lets it through."""


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """What fails or is odd is reported once, not by those who notice it first."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


class Search:
    """``before``: told each program before it runs."""

    def __init__(
        self,
        mode: str,
        seed: int,
        seconds: float | None = None,
        examples: int | None = None,
        before: Callable[[Program], None] = lambda program: None,
        report: Callable[[Failure], None] = lambda failure: None,
        device: str = "cpu",
    ) -> None:
        self.counts, self.device = Counts(mode), device
        self.random, self.before, self.report = Random(f"{mode} {seed}"), before, report
        self.seconds, self.examples = seconds, examples
        self.known: dict[str, Difference | None] = {}
        self.smallest: tuple[Program, Difference] | None = None

    def run(self) -> Counts:
        self.start = monotonic()
        torch.set_num_threads(1)
        with quiet():
            while self._goes_on():
                with contextlib.suppress(_Stop):
                    self._find()
                self._keep()
        self.counts.seconds = monotonic() - self.start
        return self.counts

    def _goes_on(self) -> bool:
        if self.seconds is not None and monotonic() - self.start > self.seconds:
            return False
        return self.examples is None or self.counts.programs + self.counts.not_counted < self.examples

    def _find(self) -> None:
        count = 500 if self.examples is None else self.examples
        profile = settings(
            max_examples=count,
            deadline=None,
            database=None,
            phases=[Phase.generate, Phase.shrink],
            suppress_health_check=list(HealthCheck),
        )
        with contextlib.suppress(NoSuchExample):
            find(programs(self.counts.mode, self.device), self._fails, settings=profile, random=self.random)

    def _fails(self, program: Program) -> bool:
        source = program.check + program.source
        if self.smallest is not None:
            return self._is_smaller(program, source)
        if source in self.known:
            return False
        if not self._goes_on():
            raise _Stop
        difference = self._difference(program, source)
        if difference is None or self._is_known(program, difference):
            return False
        self.smallest, self.shrink_start, self.shrunk = (program, difference), monotonic(), 0
        self._reduce()
        return True

    def _is_smaller(self, program: Program, source: str) -> bool:
        """Whether ``program``, which is tried in the place of a larger one, fails in the same way."""
        assert self.smallest is not None
        first = self.smallest[1]
        if source not in self.known:
            self.shrunk += 1
            if self.shrunk > SHRINK_PROGRAMS or (self.seconds is not None and self._is_late()):
                raise _Stop
        difference = self.known[source] if source in self.known else self._difference(program, source, counted=False)
        if difference is None or difference.kind != first.kind:
            return False
        if program.complexity < self.smallest[0].complexity:
            self.smallest = program, difference
        return True

    def _reduce(self) -> None:
        """Leaves out steps, results and inputs while the failure stays: hypothesis takes longer to find that out."""
        assert self.smallest is not None
        again = True
        while again:
            again = False
            for smaller in reductions(self.smallest[0]):
                if self._is_smaller(smaller, smaller.check + smaller.source) and self.smallest[0] is smaller:
                    again = True
                    break

    def _is_late(self) -> bool:
        now = monotonic()
        assert self.seconds is not None
        return now - self.shrink_start > SHRINK_SECONDS or now - self.start > self.seconds + 4

    def _difference(self, program: Program, source: str, counted: bool = True) -> Difference | None:
        self.before(program)
        found: Difference | None = None
        try:
            check_program(program)
            self.counts.programs += counted
        except Difference as difference:
            found = difference.with_traceback(None)
            found.__cause__ = found.__context__ = None
            self.counts.programs += counted
        except NotCounted:
            self.counts.not_counted += counted
        self.known[source] = found
        return found

    def _is_known(self, program: Program, difference: Difference) -> bool:
        """Whether the failure is most likely one that was made small before: all its operators are there."""
        operators = set(program.operators)
        for failure in self.counts.failures:
            if failure.kind == difference.kind and operators.issuperset(failure.program.operators):
                failure.seen += 1
                return True
        return False

    def _keep(self) -> None:
        if self.smallest is None:
            return
        with contextlib.suppress(_Stop):
            self._reduce()
        program, difference = self.smallest
        self.smallest = None
        failure = Failure(program, difference.word, difference.reason, difference.kind)
        for other in self.counts.failures:
            if other.key == failure.key:
                other.seen += 1
                return
        self.counts.failures.append(failure)
        self.report(failure)


def check_program(program: Program) -> None:
    f, inputs = program.functions()
    check(program.route, f, inputs, program.sizes or ((),), program.numbers, program.device)
