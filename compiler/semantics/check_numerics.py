"""Runs the module before and after each pass, and stops at the first pass that changes the numbers.

Each public function runs on the reference interpreter over the same made-up inputs, the same generator seed and copies of the
program's tensors; what it returns and what it leaves in its arguments must be the same. Where floating numbers differ, both
modules run again in float64: rounding shrinks with the precision, a wrong result does not.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import torch
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation, SSAValue

from fxc.dialects.context import FxcContext
from fxc.dialects.diagnostics import one_line, place_of
from fxc.dialects.fx import OutputOp
from fxc.dialects.syntax import clone_module, print_module
from fxc.dialects.values import leaves
from fxc.errors import NumericsError
from fxc.location import node_name
from fxc.semantics.differences import Difference, difference
from fxc.semantics.interpret import error_of
from fxc.semantics.reference_run import Outcome, ReferenceRun, public_functions, snapshot, why_not

if TYPE_CHECKING:
    from fxc.instrumentation import Instrumentation, PassRun

BEYOND_ROUNDING = 10.0
"""Multiples of the dtype's tolerance above which a difference is an error though float64 says that it is rounding."""


class HasState(Protocol):
    """What is needed of a program: its tensors by name, and the modules and functions of this process that it calls."""

    @property
    def state(self) -> Mapping[str, torch.Tensor]: ...
    @property
    def live(self) -> Mapping[str, Any]: ...


def instrumentation(context: FxcContext) -> Instrumentation:
    """The check for a module without weights: its state is made up, too."""
    return CheckNumerics()


@dataclass(frozen=True)
class _Ran:
    """What a function did, and how it was run."""

    run: ReferenceRun
    outcome: Outcome


@dataclass(frozen=True)
class _Snapshot:
    """A module as it was, and function name -> what it did, or why it could not be run."""

    text: str
    module: ModuleOp
    ran: dict[str, _Ran | str] = field(default_factory=dict)


class CheckNumerics:
    """An instrumentation that raises NumericsError after a pass that changes the numbers.

    ``notes``: rounding that passes caused. ``skipped``: what could not be compared, and why. ``checked``: how many runs of a
    pass changed a function and were compared. Notes and reasons also go to ``write``, each once.
    """

    def __init__(
        self, program: HasState | None = None, *, seed: int = 0, write: Callable[[str], object] | None = sys.stderr.write
    ) -> None:
        self._state = {} if program is None else dict(program.state)
        self._live = {} if program is None else program.live
        self._seed, self._write = seed, write
        self._before: _Snapshot | None = None
        self._last: _Snapshot | None = None
        self.notes, self.skipped, self.checked = list[str](), list[str](), 0

    def before_pass(self, run: PassRun) -> None:
        text = print_module(run.module, debuginfo=True)
        known = self._last
        self._before = known if known is not None and known.text == text else _Snapshot(text, clone_module(run.module))

    def after_pass(self, run: PassRun) -> None:
        before = self._before
        assert before is not None
        text = print_module(run.module, debuginfo=True)
        if text == before.text:
            return
        after = _Snapshot(text, clone_module(run.module))
        functions = {function.sym_name.data: function for function in public_functions(after.module)}
        for function in public_functions(before.module):
            name = function.sym_name.data
            if name in functions:
                self._compare(run.name, before, after, function, functions[name])
            else:
                self._skip(f"{run.name}: @{name} is no public function with a body any more")
        self._last = after

    def after_failure(self, run: PassRun, error: BaseException) -> None:
        self._before = None

    # one function, before and after one pass

    def _compare(self, who: str, before: _Snapshot, after: _Snapshot, old: FuncOp, new: FuncOp) -> None:
        name = old.sym_name.data
        first = before.ran.get(name)
        if first is None:
            first = before.ran[name] = self._first_run(before.module, old)
        if isinstance(first, str):
            self._skip(f"@{name} is not checked: {first}")
            return
        if (reason := why_not(after.module, new)) is not None:
            after.ran[name] = reason
            self._skip(f"{who}: @{name} is not checked: {reason}")
            return
        self.checked += 1
        try:
            outcome = first.run(after.module, new)
        except Exception as error:
            raise self._fails(who, name, error) from error
        after.ran[name] = _Ran(first.run, outcome)
        found = list(_differences(first.outcome, outcome))
        if found:
            self._judge(_Case(who, first.run, before.module, after.module, old, new), found)

    def _first_run(self, module: ModuleOp, function: FuncOp) -> _Ran | str:
        if (reason := why_not(module, function)) is not None:
            return reason
        for positive in (False, True):  # integers may be indices, or divisors
            run = ReferenceRun(self._state, self._live, self._seed, positive)
            try:
                return _Ran(run, run(module, function))
            except Exception as error:  # whatever the program raises on inputs that were made up
                reason = f"it does not run on made-up inputs: {type(error).__name__}: {error}".splitlines()[0]
        return reason or ""

    def _judge(self, case: _Case, found: list[tuple[str, Difference]]) -> None:
        """Raises, or notes that it is rounding."""
        where, worst = max(found, key=lambda pair: pair[1].excess)
        if worst.excess == float("inf"):
            raise case.error(where, worst, "a wrong result, not rounding", float64=False)
        reference, reason = case.float64_differences()
        if reference is None:
            if worst.excess > 1:
                raise case.error(where, worst, f"beyond the tolerance of the dtype; {reason}", float64=False)
            self._note(f"{case.who}: @{case.name}: within the tolerance ({worst.text}); {reason}")
            return
        wrong = [(place, found) for place, found in reference if found.excess > 1]
        if wrong:
            raise case.error(wrong[0][0], wrong[0][1], "a wrong result, not rounding: it differs in float64, too", float64=True)
        if worst.excess > BEYOND_ROUNDING:
            because = f"rounding, as float64 runs agree, but {worst.excess:.3g} times the tolerance of the dtype"
            raise case.error(where, worst, because, float64=False)
        self._note(f"{case.who}: @{case.name}: rounding in {where}: {worst.text}")

    def _fails(self, who: str, name: str, error: Exception) -> NumericsError:
        ours = error_of(error)
        return NumericsError(
            f"pass {who} breaks @{name}: it ran before the pass, and raises after it: {ours.message}",
            op=ours.op,
            place=ours.place,
        )

    def _note(self, text: str) -> None:
        self._say(self.notes, text)

    def _skip(self, text: str) -> None:
        self._say(self.skipped, text)

    def _say(self, kept: list[str], text: str) -> None:
        if text not in kept:
            kept.append(text)
            if self._write is not None:
                self._write(f"check-numerics: {text}\n")


def _differences(before: Outcome, after: Outcome, *, strict: bool = False) -> Iterator[tuple[str, Difference]]:
    """(result or argument, difference) for each that differs."""
    if len(before.results) != len(after.results):
        yield "the results", Difference(f"{len(before.results)} results became {len(after.results)}")
        return
    for i, (old, new) in enumerate(zip(before.results, after.results, strict=True)):
        if (found := difference(old, new, strict=strict)) is not None:
            yield f"result {i}", found
    for name, old in before.arguments.items():
        if name in after.arguments and (found := difference(old, after.arguments[name], strict=strict)) is not None:
            yield f"what is left in {name}", found


@dataclass(frozen=True)
class _Case:
    """A function whose numbers differ before and after a pass."""

    who: str
    run: ReferenceRun
    before: ModuleOp
    after: ModuleOp
    old: FuncOp
    new: FuncOp

    @property
    def name(self) -> str:
        return self.old.sym_name.data

    def float64_differences(self) -> tuple[list[tuple[str, Difference]] | None, str]:
        """How the float64 runs differ; None, with the reason, where one cannot be run."""
        try:
            old = self.run(self.before, self.old, float64=True)
            new = self.run(self.after, self.new, float64=True)
        except Exception as error:  # an operator without a float64 kernel, say
            return None, f"there is no float64 reference ({type(error).__name__}: {error})".splitlines()[0]
        return list(_differences(old, new, strict=True)), ""

    def error(self, where: str, found: Difference, verdict: str, *, float64: bool) -> NumericsError:
        """The error that names the first value that differs, or what is returned where no value inside does."""
        first = self.first_value(float64)
        if first is not None:
            op, index, inside = first
            result = op.results[index]._name
            value = f"%{result}" if result else f"result {index} of {op.name}"
            text = f"first in {value}, made by {op.name}: {inside.text}; {where}: {found.text}"
        else:
            op, text = self.maker(where), f"{where}: {found.text}"
        return NumericsError(
            f"pass {self.who} changes the numbers of @{self.name}: {verdict}\n  {text}",
            op=None if op is None else one_line(op),
            place=None if op is None else place_of(op),
            hint=f"fxc-opt --print-ir-before={self.who} --print-ir-after={self.who} shows what the pass did",
        )

    def first_value(self, float64: bool) -> tuple[Operation, int, Difference] | None:
        """The first value of the new module that differs from the value of the same name in the old one."""
        try:
            old = self.values(self.before, self.old, float64)
            new = self.values(self.after, self.new, float64)
        except Exception:  # the verdict stands without it
            return None
        counts = dict[str, int]()
        for name, op, index, value in new:
            nth = counts[name] = counts.get(name, 0) + 1
            same = [pair for pair in old if pair[0] == name]
            if len(same) != sum(pair[0] == name for pair in new):
                continue
            found = difference(same[nth - 1][3], value, strict=float64)
            if found is not None and found.excess > 1:
                return op, index, found
        return None

    def values(self, module: ModuleOp, function: FuncOp, float64: bool) -> list[tuple[str, Operation, int, Any]]:
        """(name, op, result index, value) of every named value, in the order of the run."""
        found = list[tuple[str, Operation, int, Any]]()

        def add(op: Operation, index: int, value: Any) -> None:
            name = op.results[index]._name or node_name(op.location)
            if name is not None:
                found.append((name if len(op.results) == 1 else f"{name}#{index}", op, index, value))

        self.run(module, function, float64=float64, watch=snapshot(add))
        return found

    def maker(self, where: str) -> Operation | None:
        """The op of the new function that makes ``result <i>``."""
        terminator = self.new.body.block.last_op
        word, _, number = where.partition(" ")
        if word != "result" or not number.isdecimal() or not isinstance(terminator, (OutputOp, ReturnOp)):
            return None
        returned = list(leaves(terminator.trees()[0][0])) if isinstance(terminator, OutputOp) else list(terminator.operands)
        mutated = sum("fx.mutates" in attributes.data for attributes in self.new.res_attrs or ())
        index = int(number) + mutated
        value = returned[index] if index < len(returned) else None
        return value.owner if isinstance(value, SSAValue) and isinstance(value.owner, Operation) else None
