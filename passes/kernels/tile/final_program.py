"""What the last program of a kernel computes, when all programs have stored: steps that read what lies in memory then."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.ir import Block, SSAValue

from fxc.dialects.tile import LastProgramOp, ScheduleAttr
from fxc.passes.kernels.tiling.loop_nests import Plan
from fxc.passes.kernels.tiling.loops import loop
from fxc.passes.kernels.tiling.programs import Programs
from fxc.passes.kernels.tiling.writer import Writer


@dataclass(frozen=True)
class LastStep:
    """Plans, how they are computed, and the number of the kernel's argument for each tensor that they read or make."""

    plans: Sequence[Plan]
    schedule: ScheduleAttr
    places: Mapping[SSAValue, int]


def last_program(steps: Sequence[LastStep], pointers: Sequence[SSAValue]) -> LastProgramOp:
    """``steps`` one after another, each of whose programs follow one another as well. ``pointers``: the kernel's arguments."""
    body = Block(arg_types=[pointer.type for pointer in pointers])
    for argument, pointer in zip(body.args, pointers, strict=True):
        argument.name_hint = pointer.name_hint
    for step in steps:
        arguments: dict[SSAValue, SSAValue] = {value: body.args[place] for value, place in step.places.items()}
        for plan in step.plans:
            _write(Writer(body), plan, arguments, step.schedule)
    unused = [argument for argument in body.args if argument.first_use is None]
    taken = [pointer for place, pointer in enumerate(pointers) if body.args[place] not in unused]
    for argument in unused:
        body.erase_arg(argument)
    return LastProgramOp.of(taken, body)


def _write(writer: Writer, plan: Plan, arguments: Mapping[SSAValue, SSAValue], schedule: ScheduleAttr) -> None:
    run = Programs(plan, writer, arguments, schedule)
    first = writer.index(0)
    if run.count == 1:
        run.write(first)
    elif run.count:
        loop(writer, first, writer.index(run.count), 1, [], lambda program, carried: run.write(program))
