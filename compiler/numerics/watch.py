"""Comparison of first calls with the reference interpreter, enabled by ``options.check_numerics``."""

from __future__ import annotations

from fxc.codegen.contract import launch_runner, launch_writer
from fxc.dialects.target import target_of
from fxc.dialects.text.syntax import clone_module
from fxc.dialects.tile import LaunchOp
from fxc.numerics.call_check import CallCheck
from fxc.program.program import Look, Program


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
