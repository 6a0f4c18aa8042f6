"""Check each pass: run the module before and after, and stop at the first pass that changes the numbers.

Each public function, and each function that has a derivative, together with it, runs on the reference interpreter with the same
generated inputs, the same generator seed and copies of the program's tensors, at any IR level. Its results and the final values
of its arguments must agree. If floating-point numbers differ, both modules run again in float64: rounding shrinks with higher
precision, a wrong result does not.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, cast

import torch
from torch.utils._python_dispatch import _disable_current_modes
from xdsl.dialects.builtin import AnyFloat, ArrayAttr, FloatAttr, ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Operation, OpResult, SSAValue

from fxc.bridge.location import node_name
from fxc.dialects.attributes.types import is_tensor
from fxc.dialects.attributes.values import leaves
from fxc.dialects.context import FxcContext
from fxc.dialects.fusion import GroupOp
from fxc.dialects.fx import OutputOp
from fxc.dialects.text.diagnostics import one_line, place_of, to_stderr
from fxc.dialects.text.syntax import clone_module
from fxc.errors import NoRuleError, NumericsError
from fxc.interpret.torch_level import error_of
from fxc.numerics.differences import Difference, difference, is_rounding
from fxc.numerics.reference_run import (
    ReferenceResult,
    ReferenceRun,
    Subject,
    differences,
    interface,
    snapshot,
    subjects,
    why_not,
)

if TYPE_CHECKING:
    from fxc.driver.instrumentation import Instrumentation, PassRun


CONSTANTS_MOVE = 4.0
"""The allowed difference in float64 runs, as a multiple of the difference when the last digit of all constants changes."""

BEYOND_ROUNDING = 10.0
"""Multiples of the dtype's tolerance above which a difference is an error even if float64 runs agree."""


_Key = tuple[str, str]
"""The name of a value, and the level of its operation if that is in the body of a group."""


SETS, FEW = 3, 1 << 13
"""The number of input sets for a function that takes and returns at most ``FEW`` elements."""


class HasState(Protocol):
    """The required parts of a program: its tensors by name, and the modules and functions of this process that it calls."""

    @property
    def state(self) -> Mapping[str, torch.Tensor]: ...
    @property
    def live(self) -> Mapping[str, Any]: ...


def instrumentation(context: FxcContext) -> Instrumentation:
    """Return the check for a module without weights: its state is generated, too."""
    return CheckNumerics()


@dataclass(frozen=True)
class _Ran:
    """The result of a function, and its run."""

    run: ReferenceRun
    outcome: ReferenceResult


@dataclass(frozen=True)
class _Snapshot:
    """A copy ``module`` of ``source``, and function name -> results on sets of inputs, or the reason why it cannot run."""

    source: ModuleOp
    module: ModuleOp
    ran: dict[str, list[_Ran] | str] = field(default_factory=dict[str, "list[_Ran] | str"])


class CheckNumerics:
    """An instrumentation that raises NumericsError after a pass that changes the numbers.

    ``notes``: rounding differences that passes caused. ``skipped``: comparisons that were impossible, with reasons.
    ``checked``: the number of comparisons of a changed function after a pass. Notes and reasons also go to ``write``, each
    once.
    """

    def __init__(
        self, program: HasState | None = None, *, seed: int = 0, write: Callable[[str], object] | None = to_stderr
    ) -> None:
        self._state = dict[str, Any]() if program is None else dict(program.state)
        self._live: Mapping[str, Any] = dict[str, Any]() if program is None else program.live
        self._seed, self._write = seed, write
        self._before: _Snapshot | None = None
        self._last: _Snapshot | None = None
        self.notes, self.skipped, self.checked = list[str](), list[str](), 0

    def before_pass(self, run: PassRun) -> None:
        known = self._last
        if known is None or known.source is not run.module:  # else unchanged since the last pass
            known = _Snapshot(run.module, clone_module(run.module))
        self._before = known

    def after_pass(self, run: PassRun) -> None:
        before = self._before
        assert before is not None
        self._last = before
        if before.module.is_structurally_equivalent(run.module):
            return
        self._last = after = _Snapshot(run.module, clone_module(run.module))
        found = subjects(after.module)
        with _disable_current_modes():  # torch.compile runs passes in a mode that disables computation
            for name, subject in subjects(before.module).items():
                if name in found:
                    self._compare(run.name, before, after, name, subject, found[name])
                elif isinstance(subject, FuncOp):
                    self._skip(f"{run.name}: {name} is no public function with a body any more")

    def after_failure(self, run: PassRun, error: BaseException) -> None:
        self._before = self._last = None

    # one function, before and after one pass

    def _compare(self, who: str, before: _Snapshot, after: _Snapshot, name: str, old: Subject, new: Subject) -> None:
        first = before.ran.get(name)
        if first is None:
            first = before.ran[name] = self._first_run(before.module, old)
        if isinstance(first, str):
            self._skip(f"{name} is not checked: {first}")
            return
        changed = "it takes other arguments than before" if interface(old) != interface(new) else None
        if (reason := changed or why_not(after.module, new)) is not None:
            if changed is None:
                after.ran[name] = reason
            self._skip(f"{who}: {name} is not checked: {reason}")
            return
        self.checked += 1
        ran = list[_Ran]()
        for earlier in first:
            try:
                outcome = earlier.run(after.module, new)
            except NoRuleError as error:
                self.checked -= 1
                after.ran[name] = error.message
                self._skip(f"{who}: {name} is not checked: {error.message}")
                return
            except Exception as error:
                raise self._fails(who, name, error) from error
            ran.append(_Ran(earlier.run, outcome))
            if found := list(differences(earlier.outcome, outcome)):
                outcomes = earlier.outcome, outcome
                self._judge(_Case(who, name, earlier.run, before.module, after.module, old, new, outcomes), found)
        after.ran[name] = ran

    def _first_run(self, module: ModuleOp, subject: Subject) -> list[_Ran] | str:
        """Run on one set of inputs, or on ``SETS`` if the function is small: a single set may not reveal a wrong maximum."""
        if (reason := why_not(module, subject)) is not None:
            return reason
        for positive in (False, True):  # integers may be indices, or divisors
            run = ReferenceRun(self._state, self._live, self._seed, positive)
            try:
                found = [_Ran(run, run(module, subject))]
                break
            except NoRuleError as error:
                return error.message
            except Exception as error:  # any error of the program on generated inputs
                reason = f"it does not run on made-up inputs: {type(error).__name__}: {error}".splitlines()[0]
        else:
            return reason or ""
        if found[0].outcome.elements() > FEW:
            return found
        for seed in range(1, SETS):
            run = ReferenceRun(self._state, self._live, self._seed + seed, positive)
            with suppress(Exception):  # other generated inputs may be invalid
                found.append(_Ran(run, run(module, subject)))
        return found

    def _judge(self, case: _Case, found: list[tuple[str, Difference]]) -> None:
        """Raise an error, or note a rounding difference."""
        where, worst = max(found, key=lambda pair: pair[1].excess)
        if worst.excess == math.inf:
            raise case.error(where, worst, "a wrong result, not rounding", float64=False)
        reference, reason = case.float64_differences()
        if reference is None:
            if worst.excess > 1:
                raise case.error(where, worst, f"beyond the tolerance of the dtype; {reason}", float64=False)
            self._note(f"{case.who}: {case.name}: within the tolerance ({worst.text}); {reason}")
            return
        wrong = [(place, found) for place, found in reference if found.excess > 1]
        sure = any(found.excess == math.inf for _, found in wrong)
        if sure or (wrong and not case.is_of_constants([place for place, _ in wrong])):
            raise case.error(wrong[0][0], wrong[0][1], "a wrong result, not rounding: it differs in float64, too", float64=True)
        if worst.excess > BEYOND_ROUNDING and not case.is_rounding_of_halves(where):
            because = f"rounding, as float64 runs agree, but {worst.excess:.3g} times the tolerance of the dtype"
            raise case.error(where, worst, because, float64=False)
        self._note(f"{case.who}: {case.name}: rounding in {where}: {worst.text}")

    def _fails(self, who: str, name: str, error: Exception) -> NumericsError:
        ours = error_of(error)
        return NumericsError(
            f"pass {who} breaks {name}: it ran before the pass, and raises after it: {ours.message}",
            op=ours.op,
            place=ours.place,
            hint=f"fxc-opt --print-ir-before={who} shows the input of the pass",
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


@dataclass(frozen=True)
class _Case:
    """A function whose numbers differ before and after a pass."""

    who: str
    name: str
    run: ReferenceRun
    before: ModuleOp
    after: ModuleOp
    old: Subject
    new: Subject
    outcomes: tuple[ReferenceResult, ReferenceResult]

    def is_rounding_of_halves(self, place: str) -> bool:
        """Whether there are half types, in which kernels round less often, and the new value is about as far from its float64
        value as the old one."""
        if not any(_is_half(result.type) for op in self.before.walk() for result in op.results):
            return False
        exact = self.run(self.after, self.new, float64=True).by_name()
        old, new = (outcome.by_name().get(place) for outcome in self.outcomes)
        return is_rounding(exact.get(place), old, new)

    def float64_differences(self) -> tuple[list[tuple[str, Difference]] | None, str]:
        """Return the differences of float64 runs; None, with the reason, if one cannot run."""
        try:
            old = self.run(self.before, self.old, float64=True)
            new = self.run(self.after, self.new, float64=True)
        except Exception as error:  # such as an operator without a float64 kernel
            return None, f"there is no float64 reference ({type(error).__name__}: {error})".splitlines()[0]
        return list(differences(old, new, strict=True)), ""

    def is_of_constants(self, places: Sequence[str]) -> bool:
        """Whether the float64 runs differ at ``places`` by no more than the rounding of constants to their type causes.

        The constant in ``x * 0.1`` changes when it becomes a float32 number; float64 runs do not shrink that difference.
        """
        moved = list[dict[str, Any]]()
        given = list[dict[str, Any]]()
        for module, subject in ((self.before, self.old), (self.after, self.new)):
            given.append(self.run(module, subject, float64=True).by_name())
            other = with_moved_constants(module)
            moved.append(self.run(other, subjects(other)[self.name], float64=True).by_name())
        for place in places:
            values = [each[place] for each in (*given, *moved) if isinstance(each.get(place), torch.Tensor)]
            if len(values) != 4:
                return False
            old, new, other_old, other_new = values
            allowed = CONSTANTS_MOVE * ((old - other_old).abs().max() + (new - other_new).abs().max())
            if not (old - new).abs().max() <= allowed:
                return False
        return True

    def error(self, where: str, found: Difference, verdict: str, *, float64: bool) -> NumericsError:
        """Return the error, naming the first value that differs, or the result if no inner value does."""
        first = self.first_value(float64)
        if first is not None:
            op, value, inside = first
            text = f"first in {value}, made by {op.name}: {inside.text}; {where}: {found.text}"
        else:
            op, text = self.maker(where), f"{where}: {found.text}"
        return NumericsError(
            f"pass {self.who} changes the numbers of {self.name}: {verdict}\n  {text}",
            op=None if op is None else one_line(op),
            place=None if op is None else place_of(op),
            hint=f"fxc-opt --print-ir-before={self.who} --print-ir-after={self.who} shows what the pass did",
        )

    def first_value(self, float64: bool) -> tuple[Operation, str, Difference] | None:
        """Return the first value of the new module that differs from the value of the same name in the old one.

        The result has its operation, its name and the difference.
        """
        try:
            old = self.values(self.before, self.old, float64)
            new = self.values(self.after, self.new, float64)
        except Exception:  # optional detail of the error
            return None
        for key, values in new.items():
            for (op, value), (_, before) in zip(values, old.get(key, ()), strict=False):
                found = difference(before, value, strict=float64)
                alike = not isinstance(value, torch.Tensor) or getattr(before, "shape", None) == value.shape
                if found is not None and found.excess > 1 and alike and len(values) == len(old[key]):
                    return op, f"%{key[0]}", found
        return None

    def values(self, module: ModuleOp, subject: Subject, float64: bool) -> dict[_Key, list[tuple[Operation, Any]]]:
        """Return every named value that was made or written, with its operation, in execution order.

        In the body of a group, a name may denote different steps of a formula at different levels.
        """
        found = dict[_Key, list[tuple[Operation, Any]]]()

        def add(op: Operation, made: SSAValue, value: Any) -> None:
            name, node = made._name, node_name(op.location)
            if name is None or (node or "").removeprefix(f"{name}_").isdecimal():  # xDSL copies a name without its number
                name = node
            if name is not None:
                level = op.name.partition(".")[0] if isinstance(op.parent_op(), GroupOp) else ""
                number = f"#{made.index}" if isinstance(made, OpResult) and len(op.results) > 1 else ""
                found.setdefault((f"{name}{number}", level), []).append((op, value))

        self.run(module, subject, float64=float64, watch=snapshot(add))
        return found

    def maker(self, where: str) -> Operation | None:
        """Return the operation of the new function that makes ``result <i>``."""
        if not isinstance(self.new, FuncOp):
            return self.new if isinstance(self.new, Operation) else None
        terminator = self.new.body.block.last_op
        word, _, number = where.partition(" ")
        if word != "result" or not number.isdecimal() or not isinstance(terminator, (OutputOp, ReturnOp)):
            return None
        returned = list(leaves(terminator.trees()[0][0])) if isinstance(terminator, OutputOp) else list(terminator.operands)
        mutated = sum("fx.mutates" in attributes.data for attributes in self.new.res_attrs or ())
        index = int(number) + mutated
        value = returned[index] if index < len(returned) else None
        return value.owner if isinstance(value, SSAValue) and isinstance(value.owner, Operation) else None


def _is_half(type: Attribute) -> bool:
    return is_tensor(type) and isinstance(type.element_type, AnyFloat) and type.element_type.bitwidth < 32


# modules with perturbed constants, to measure the effect of rounding a constant to its type


ULP = 2.0**-23
"""The relative size of the last digit of a float32."""


def with_moved_constants(module: ModuleOp) -> ModuleOp:
    """Copy ``module`` with float constants one digit of float32 larger, except those exact in any type, such as 0.5 or 30."""
    moved = clone_module(module)
    for op in moved.walk():
        for values in (op.properties, op.attributes):
            for name, value in values.items():
                values[name] = _moved(value)
    return moved


def _moved(value: Attribute) -> Attribute:
    if isinstance(value, ArrayAttr):
        return ArrayAttr([_moved(each) for each in cast("ArrayAttr[Attribute]", value)])
    if not isinstance(value, FloatAttr):
        return value
    number = cast("FloatAttr[AnyFloat]", value)
    return number if _is_short(number.value.data) else FloatAttr(number.value.data * (1 + ULP), number.type)


def _is_short(number: float) -> bool:
    """Whether ``number`` has at most twelve significant bits."""
    if not math.isfinite(number):
        return True
    (bits,) = struct.unpack("<q", struct.pack("<d", number))
    return bits & ((1 << 41) - 1) == 0
