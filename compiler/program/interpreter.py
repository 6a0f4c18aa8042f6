"""``fxc.Interpreter``: run a program op by op; subclasses observe or change it, as those of ``torch.fx.Interpreter`` do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from time import perf_counter
from typing import Any

from xdsl.ir import Operation, SSAValue

from fxc.dialects.text.syntax import written_name
from fxc.interpret.torch_level import ReferenceInterpreter
from fxc.program.execute import BoundProgram, arguments, outcome_of
from fxc.program.program import Program, require_program
from fxc.program.program_signature import signature_of


class Interpreter(ReferenceInterpreter):
    """Runs ``program`` on real tensors. The methods of ``torch.fx.Interpreter`` may be overridden, and call ``super()``.

    ``run_node(op)`` returns the value of an operation, or a list of several; ``self.env`` maps its operands to their values. It
    calls ``call_function(target, args, kwargs)`` for operators and Python functions, ``call_method`` and ``call_module`` for
    captured calls, and ``get_attr`` for tensors of the model. It is also called for operations in called functions and in the
    branches of ``cond``. ``placeholder`` returns an input, ``output`` the result. Parameters, buffers and inputs are copied
    first, so tensors of the caller are never written.
    """

    def __init__(self, program: Program) -> None:
        require_program(program, "Interpreter")
        super().__init__(BoundProgram(program).interpreter.functions, live=program.live)
        self.program = program
        self.env: Mapping[SSAValue, Any] = {}

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """The result of the program. Inputs (``args``, ``kwargs``) and result are nested as in the captured model.

        InputError for inputs whose dtypes or sizes are not those of the program; NoRuleError for an operation without a rule.
        """
        bound, known = BoundProgram(self.program), arguments(self.program)
        self.tensor, self.submodule = bound.binding.tensor, bound.binding.submodule
        signature = signature_of(self.program)
        if signature.nesting is None:
            absent = [argument for argument in known if not argument.is_state][len(args) :]
            args += tuple([argument.default_value for argument in absent if argument.default is not None])
        signature.check(args, kwargs)
        bound_values = zip(known, bound.bind(signature.leaves(args, kwargs) or ()), strict=True)
        self.args_iter = iter([value for argument, value in bound_values if not argument.is_state])
        values = [self.get_attr(a.name, (), {}) if a.is_state else self.placeholder(a.name, (), {}) for a in known]
        returned = self.call(self.program.main, values)
        return self.output("output", (outcome_of(self.program.main, returned, [a.name for a in known], {}).value,), {})

    def op(self, op: Operation, env: Mapping[SSAValue, Any]) -> Sequence[Any]:
        outer, self.env = self.env, env
        try:
            value = self.run_node(op)
        finally:
            self.env = outer
        return value if len(op.results) != 1 else [value]

    def run_node(self, op: Operation) -> Any:
        """The value of ``op``; a list for several results or none."""
        results = super().op(op, self.env)
        return results[0] if len(op.results) == 1 else results

    def placeholder(self, target: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The next input, whose name is ``target``."""
        return next(self.args_iter)

    def output(self, target: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The result of the program, given as ``args[0]``."""
        return args[0]


class Profiler(Interpreter):
    """An ``fxc.Interpreter`` that measures operations. ``print(profiler.summary())`` after calls of ``run``.

    ``seconds``: operation -> the time of each call, which includes those of the operations that it runs.
    """

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self.seconds = dict[Operation, list[float]]()

    def run_node(self, op: Operation) -> Any:
        start = self._now()
        value = super().run_node(op)
        self.seconds.setdefault(op, []).append(self._now() - start)
        return value

    def _now(self) -> float:
        import torch

        if torch.cuda.is_initialized():
            torch.cuda.synchronize()
        return perf_counter()

    def summary(self) -> str:
        """A table with a line for each operation, the slowest first."""
        total = sum(map(sum, self.seconds.values()))
        rows = [f"{'value':24} {'operation':40} {'calls':>5} {'mean ms':>9} {'share':>6}"]
        for op, times in sorted(self.seconds.items(), key=lambda item: -sum(item[1])):
            name = f"%{written_name(op.results[0])}" if op.results else ""
            mean, share = 1e3 * sum(times) / len(times), sum(times) / total
            rows.append(f"{name:24} {op.name:40} {len(times):5} {mean:9.3f} {share:6.1%}")
        return "\n".join(rows)
