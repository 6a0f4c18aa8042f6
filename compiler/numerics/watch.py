"""What ``options.check_numerics`` asks for: passes that are checked, and first calls that are compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.passes import ModulePass

from fxc.dialects.target import target_of
from fxc.dialects.text.syntax import clone_module
from fxc.dialects.tile import LaunchOp
from fxc.driver.runner import RunOptions, run_pipeline
from fxc.program.program import Look, Program


@dataclass(frozen=True)
class NumericsWatch:
    """Checks every pass; with ``calls``, compares the first call of whatever is compiled, too."""

    calls: bool
    verify_each: bool = True

    def run(self, program: Program, passes: Sequence[ModulePass]) -> None:
        """Run ``passes`` over ``program``, in place. NumericsError for one that changes the numbers."""
        from fxc.numerics.check_numerics import CheckNumerics

        options = RunOptions(verify_each=self.verify_each, instrumentations=(CheckNumerics(program),))
        run_pipeline(program.context, program.module, passes, options)

    def look(self, captured: Program, program: Program, *, boxed: bool = False) -> Look | None:
        """What compares the first call of ``program`` with that of ``captured``."""
        if not self.calls:
            return None
        from fxc.codegen.contract import launch_runner, launch_writer
        from fxc.numerics.second_look import SecondLook

        target = target_of(program.module)
        return SecondLook(
            captured.module,
            clone_module(program.module),
            captured.state,
            dict(program.state),
            program.live,
            lambda op: launch_runner(op, target) if isinstance(op, LaunchOp) else launch_writer(op, target),
            boxed,
        )
