"""``fxc.ExecutionPlan``: what runs after the pipeline, with the IR that it came from, to be kept in a file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy, deepcopy
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from fxc.artifact import plan_file
from fxc.driver.gc_pause import collections_paused
from fxc.driver.timing import Timer
from fxc.options import Options
from fxc.runtime.entry import entry
from fxc.runtime.first_call import FirstCall
from fxc.runtime.host_program import HostProgram, KernelCode
from fxc.runtime.no_elements import NO_ELEMENTS
from fxc.runtime.plan import Plan
from fxc.runtime.second_backward import replace_operators
from fxc.runtime.signature import Signature
from fxc.runtime.subgraph import HostSubgraph

if TYPE_CHECKING:
    from torch.fx import GraphModule

    from fxc.program.program import Program


class ExecutionPlan(Plan):
    """A plan (``plan(*args)``, ``code``, ``module``, ``stats``) and its IR, ``ir``, after the pipeline.

    The IR of a plan from a trusted file is read when it is first asked for.
    """

    def __init__(
        self,
        ir: Program | Callable[[], Program],
        module: GraphModule | Callable[[], GraphModule],
        signature: Signature,
        training: bool,
        host: HostProgram | None = None,
    ) -> None:
        super().__init__(module, signature, training, host)
        self._ir = ir

    @property
    def ir(self) -> Program:
        """The program after the pipeline."""
        if callable(self._ir):
            with collections_paused():
                self._ir = self._ir()
        return self._ir

    @ir.setter
    def ir(self, ir: Program) -> None:
        self._ir = ir

    @classmethod
    def of(
        cls,
        ir: Program,
        signature: Signature,
        training: bool,
        kernels: Mapping[str, KernelCode] = MappingProxyType({}),
    ) -> ExecutionPlan:
        """The plan of a program after its pipeline: a host program, where the entry is at the plan level, else a graph.

        ``kernels``: their machine code, where a file had it, as ``kernel_codes`` returns it. Raises TargetError for a callee
        that a program may not name, WeightsError for a tensor without a value.
        """
        from fxc.export.graph_module import to_fx
        from fxc.export.host import host_program, is_plan

        host = host_program(ir, kernels.get("")) if is_plan(ir.main) else None
        module = partial(to_fx, ir)
        if host is None:
            module = to_fx(ir, codes=kernels)
            replace_operators(module, NO_ELEMENTS)
        return cls(ir, module, signature, training, host)

    @classmethod
    def ready(
        cls,
        ir: Callable[[], Program],
        host: HostProgram,
        signature: Signature,
        training: bool,
    ) -> ExecutionPlan:
        """The plan of a host program that is there already; ``ir`` reads the IR that it was made of."""
        plan = cls(ir, lambda: _graph(plan.ir), signature, training, host)
        return plan

    def __deepcopy__(self, memo: dict[int, Any]) -> ExecutionPlan:
        from fxc.dialects.text.syntax import clone_module
        from fxc.export.graph_module import to_fx

        ir = replace(self.ir, module=clone_module(self.ir.module), state=deepcopy(self.ir.state, memo))
        made = copy(self)
        made._live = None
        made.ir, made.host = ir, deepcopy(self.host, memo)
        made._module = deepcopy(self.module, memo) if self.host is None else partial(to_fx, ir)
        made._bind()
        return made

    def flat(self) -> Callable[..., Any]:
        """What runs, as a function of inputs, flat, whose fit the caller has seen to.

        Those with other strides than expected are copied, where kernels need them.
        """
        if self.host is None:
            run = self.module.forward
        else:
            run = entry(self.host, self.signature, lambda args, _: self.run_module(args), self)
        return run if self._look is None else FirstCall(self._look, run)

    def kernel_codes(self) -> dict[str, KernelCode]:
        """The machine code that this plan runs: its own under the empty name, else that of each module in its program."""
        if self.host is not None:
            found = {"": self.host.code}
        else:
            parts = [part for part in self.module.modules() if isinstance(part, HostSubgraph) and part.name]
            found = {part.name: part.host.code for part in parts}
        return {name: code for name, code in found.items() if code is not None}

    def save(self, path: str | Path) -> None:
        """Writes the IR, the weights as they are now, machine code of kernels, and a manifest: a folder, or one file where
        ``path`` ends in ``.zip``.

        What was there before is replaced where it is a plan. Raises PlanFileError where it is not, or where the plan holds
        what a file cannot.
        """
        from fxc.export.host import kernel_code

        code = None if self.host is None else kernel_code(self.ir)
        kernels = {} if code is None else {"": code}
        plan_file.write(Path(path), plan_file.Contents(self.ir, self.signature, self.training, kernels))

    @classmethod
    def load(cls, path: str | Path, *, trust_kernels: bool = False) -> ExecutionPlan:
        """Reads what ``save`` wrote. The file is data: nothing in it is imported, unpickled or called; kernels are compiled
        from the IR, or found in the cache of object files on this machine.

        ``trust_kernels``: the machine code in the file is called, and the Python that calls it is run, where they are whole and
        were made by these versions for this CPU; else kernels are compiled. Say so of files only that come from where your
        programs come from.

        Raises PlanFileError for a file that is damaged, incomplete, no plan, or of another fxc or PyTorch.
        """
        timer = Timer()
        with collections_paused():
            with timer.scope("read"):
                found = plan_file.read(Path(path), trust_kernels=trust_kernels)
            if isinstance(found, plan_file.Contents):
                from fxc.compilation.later_derivatives import LaterDerivatives

                options = Options.from_env()
                found.program.group_limit, found.program.later = options.group_limit, LaterDerivatives(options)
                with timer.scope("export"):
                    plan = cls.of(found.program, found.signature, found.training, found.kernels)
            else:
                plan = cls.ready(found.program, found.host, found.signature, found.training)
            plan.times = timer.stages()
            return plan


def _graph(ir: Program) -> GraphModule:
    from fxc.export.graph_module import to_fx

    return to_fx(ir)
