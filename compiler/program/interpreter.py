"""``fxc.Interpreter``: run a program op by op; subclasses observe or change it, like ``torch.fx.Interpreter``."""

from __future__ import annotations

from typing import Any

from fxc.interpret.torch_level import ReferenceInterpreter
from fxc.program.execute import BoundProgram, arguments, outcome_of
from fxc.program.program import Program, require_program
from fxc.program.program_signature import signature_of


class Interpreter(ReferenceInterpreter):
    """Runs ``program`` on real tensors. Override ``op(op, env)``, which returns the results of one op, and call ``super().op``.

    ``env`` maps the operands of the op to their values. ``op`` is also called for ops in called functions and in the branches
    of ``cond``. Parameters, buffers and inputs are copied first, so tensors of the caller are never written.
    """

    def __init__(self, program: Program) -> None:
        require_program(program, "Interpreter")
        super().__init__(BoundProgram(program).interpreter.functions, live=program.live)
        self.program = program

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """The result of the program. Inputs and result are nested as in the captured model. InputError for invalid inputs."""
        bound = BoundProgram(self.program)
        self.tensor, self.submodule = bound.binding.tensor, bound.binding.submodule
        signature = signature_of(self.program)
        signature.check(args, kwargs)
        values = bound.bind(signature.leaves(args, kwargs) or ())
        returned = self.call(self.program.main, values)
        return outcome_of(self.program.main, returned, [a.name for a in arguments(self.program)], {}).value
