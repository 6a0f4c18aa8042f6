"""Compare the first call of a compiled function with the reference interpreter on the same inputs.

The captured program provides the expected numbers. The program after the last pass is interpreted step by step, and the machine
code of each kernel that it launches runs on the same operands, so that kernels with different results are named. Float64
distinguishes rounding from a wrong result: a result may be a few times as far from the float64 result as the interpreter's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map_only
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from fxc.codegen.contract import launch_runner, launch_writer
from fxc.dialects import plan
from fxc.dialects.entry import find_entry
from fxc.dialects.target import target_of
from fxc.dialects.text.diagnostics import one_line, place_of, to_stderr
from fxc.dialects.text.syntax import clone_module
from fxc.dialects.tile import LaunchOp
from fxc.errors import NoRuleError, NumericsError
from fxc.interpret.binding import Binding
from fxc.interpret.tile_level import launch, launch_into
from fxc.interpret.torch_level import ReferenceInterpreter, error_of, is_concrete
from fxc.numerics.differences import Difference, difference, is_rounding
from fxc.numerics.reference_run import ReferenceResult, ReferenceRun, differences, widened
from fxc.program.program import Look, Program
from fxc.runtime.shared_memory import copy_with

Launch = LaunchOp | plan.LaunchOp
Machine = Callable[[Launch], Callable[..., Any]]
"""Launch -> a function that runs its machine code: returns results for ``tile.launch``, writes them for ``plan.launch``."""


@dataclass(frozen=True)
class CallCheck:
    """Compares a call with the modules ``captured``, before the first pass, and ``final``, after the last.

    ``state`` and ``own_state``: their tensors. ``boxed``: the call may overwrite its arguments.
    """

    captured: ModuleOp
    final: ModuleOp
    state: Mapping[str, torch.Tensor]
    own_state: Mapping[str, torch.Tensor]
    live: Mapping[str, Any]
    machine: Machine
    boxed: bool = False
    write: Callable[[str], object] | None = to_stderr

    def __call__(self, inputs: Sequence[Any], run: Callable[[], Any]) -> tuple[Any, bool]:
        """Return the result of ``run`` for ``inputs``, and whether it was compared. NumericsError if the numbers differ."""
        inputs = list(inputs)
        if not is_concrete(inputs):
            return run(), False
        before = self._copied(inputs)
        expected, reason = _outcome(self.captured, before, self.state)
        if expected is None:
            self._say(f"the first call is not checked: {reason}")
            return run(), True
        returned = run()
        left = {} if self.boxed else {f"input {i}": value for i, value in enumerate(inputs)} | dict(self.state)
        self._compare(before, expected, ReferenceResult(tree_leaves(returned), left))
        return returned, True

    def _copied(self, inputs: Sequence[Any]) -> ReferenceRun:
        """Return a run on copies of the inputs and the state, and the state of the generator."""
        binding = Binding(self.captured, {}, self.live, lambda name, type: None)
        copies = tree_map_only(torch.Tensor, binding.copy, list(inputs))
        state = {name: binding.copy(tensor) for name, tensor in {**self.own_state, **self.state}.items()}
        return ReferenceRun(state, self.live, inputs=copies, generator=torch.get_rng_state())

    def _compare(self, run: ReferenceRun, expected: ReferenceResult, actual: ReferenceResult) -> None:
        exact: list[ReferenceResult | None] = []

        def in_float64() -> ReferenceResult | None:
            if not exact:
                exact.append(_outcome(self.captured, run, self.state, float64=True)[0])
            return exact[0]

        wrong = list(_wrong(expected, actual, in_float64))
        steps = _Steps(self.machine)
        own = ReferenceRun(dict(run.state), run.live, inputs=run.inputs, generator=run.generator)
        stepped, reason = _outcome(self.final, own, self.own_state, interpreter=steps.interpreter)
        if steps.wrong:
            raise self._kernels_error(steps.wrong, wrong)
        if stepped is None and not wrong:
            self._say(f"the kernels of the first call are not checked: {reason}")
        elif stepped is None:
            raise self._error(wrong, f"the program after the last pass cannot be interpreted: {reason}")
        elif any(_wrong(expected, stepped, in_float64)):
            where, found = next(_wrong(expected, stepped, in_float64))
            raise self._error([(where, found)], "a pass changed the numbers: no kernel differs from its interpretation")
        elif wrong:
            raise self._error(wrong, "the host program is wrong: no kernel differs from its interpretation")

    def _kernels_error(self, kernels: Sequence[_WrongKernel], wrong: Sequence[tuple[str, Difference]]) -> NumericsError:
        names = ", ".join(dict.fromkeys(f"@{each.name}" for each in kernels))
        first = kernels[0]
        lines = [
            f"the machine code of {names} gives other numbers than the reference interpreter, on the inputs of this call",
            f"  first in %{first.result} of @{first.name}: {first.difference.text}",
            *(f"  {where}: {found.text}" for where, found in wrong[:1]),
        ]
        hint = 'report the kernel; options={"target": None} compiles without kernels'
        return NumericsError("\n".join(lines), op=one_line(first.op), place=place_of(first.op), hint=hint)

    def _error(self, wrong: Sequence[tuple[str, Difference]], verdict: str) -> NumericsError:
        where, found = wrong[0]
        return NumericsError(
            f"the first call returns other numbers than the captured program: {verdict}\n  {where}: {found.text}",
            hint='options={"check_numerics": True} checks each pass',
        )

    def _say(self, text: str) -> None:
        if self.write is not None:
            self.write(f"check-numerics: {text}\n")


def _outcome(
    module: ModuleOp,
    run: ReferenceRun,
    state: Mapping[str, torch.Tensor],
    *,
    float64: bool = False,
    interpreter: type[ReferenceInterpreter] | Callable[..., ReferenceInterpreter] | None = None,
) -> tuple[ReferenceResult | None, str]:
    """Run the entry function of ``module``; None, with the reason, if it cannot be interpreted."""
    function = find_entry(module)
    assert isinstance(function, FuncOp)
    only = ReferenceRun(
        {name: run.state[name] for name in state}, run.live, inputs=run.inputs, generator=run.generator, interpreter=interpreter
    )
    try:
        return only(module, function, float64=float64), ""
    except NoRuleError as error:
        return None, error.message
    except Exception as error:  # any error of PyTorch on these inputs
        return None, str(error_of(error))


def _wrong(
    expected: ReferenceResult, actual: ReferenceResult, in_float64: Callable[[], ReferenceResult | None]
) -> Iterator[tuple[str, Difference]]:
    """Yield (result or argument, difference) for each that differs by more than rounding."""
    for where, found in differences(expected, actual):
        exact = in_float64() if 1 < found.excess < inf else None
        if found.excess > 1 and not (
            exact and is_rounding(exact.by_name().get(where), expected.by_name()[where], actual.by_name()[where])
        ):
            yield where, found


@dataclass(frozen=True)
class _WrongKernel:
    """A launch whose results differ between machine code and interpreter."""

    name: str
    op: Operation
    result: str
    difference: Difference


class _Steps:
    """Runs launches on the reference interpreter and, on copies of the same memory, in machine code."""

    def __init__(self, machine: Machine) -> None:
        self.machine, self.wrong = machine, list[_WrongKernel]()

    def interpreter(self, *args: Any, **kwargs: Any) -> ReferenceInterpreter:
        return _SteppedInterpreter(self, *args, **kwargs)

    def launch(self, op: LaunchOp, operands: Sequence[Any]) -> Sequence[Any]:
        results = launch(op, operands)
        actual = self.machine(op)(*_copied(operands))
        self.compare(op, results, actual, lambda: launch(op, widened(list(operands)), wide=True))
        return results

    def launch_into(self, op: plan.LaunchOp, operands: Sequence[Any]) -> None:
        inputs = len(op.inputs)
        copies, kept = _copied(operands), _copied(operands)
        launch_into(op, operands[:inputs], operands[inputs:])
        self.machine(op)(*copies)

        def in_float64() -> Sequence[Any]:
            made = dict[object, Any]()
            wide = [made.setdefault(_view_of(value), widened(value)) for value in kept]  # preserves aliases
            launch_into(op, wide[:inputs], wide[inputs:], wide=True)
            return wide[inputs:]

        self.compare(op, operands[inputs:], copies[inputs:], in_float64)

    def compare(
        self, op: Launch, expected: Sequence[Any], actual: Sequence[Any], in_float64: Callable[[], Sequence[Any]]
    ) -> None:
        for i, (old, new) in enumerate(zip(expected, actual, strict=True)):
            found = difference(old, new)
            if found is None or found.excess <= 1:
                continue
            if found.excess == inf or not is_rounding(in_float64()[i], old, new):
                values = op.outs if isinstance(op, plan.LaunchOp) else op.results
                name = op.callee.root_reference.data
                self.wrong.append(_WrongKernel(name, op, values[i]._name or str(i), found))


class _SteppedInterpreter(ReferenceInterpreter):
    def __init__(self, steps: _Steps, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.steps = steps

    def launch(self, op: LaunchOp, operands: Sequence[Any]) -> Sequence[Any]:
        return self.steps.launch(op, operands)

    def plan(self, op: Operation, operands: Sequence[Any]) -> Sequence[Any]:
        if isinstance(op, plan.LaunchOp):
            self.steps.launch_into(op, operands)
            return []
        return super().plan(op, operands)


def _copied(values: Sequence[Any]) -> list[Any]:
    """Copy tensors; copies share memory where the originals do."""
    storages = dict[int, torch.UntypedStorage]()
    return [copy_with(value, storages) if isinstance(value, torch.Tensor) else value for value in values]


def _view_of(value: Any) -> object:
    """A key of the elements that ``value`` has, and of how they are arranged."""
    if not isinstance(value, torch.Tensor) or not value.numel():
        return id(value)
    return value.data_ptr(), value.dtype, value.shape, value.stride()


def watch_first_call(captured: Program, program: Program, *, boxed: bool = False) -> Look:
    """Return the comparison of the first call of ``program`` with ``captured``. ``boxed``: it takes its inputs in one list."""
    target = target_of(program.module)
    return CallCheck(
        captured.module,
        clone_module(program.module),
        captured.state,
        dict(program.state),
        program.live,
        lambda op: launch_runner(op, target) if isinstance(op, LaunchOp) else launch_writer(op, target),
        boxed,
    )
