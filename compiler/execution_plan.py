"""``fxc.ExecutionPlan``: the executable result of a pipeline with its IR; can be saved to a file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy, deepcopy
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from fxc.artifact import plan_file
from fxc.driver.gc_pause import collections_paused
from fxc.driver.timing import Timer
from fxc.errors import PlanFileError
from fxc.options import Options
from fxc.runtime import autocast
from fxc.runtime.autograd import HostSubgraph
from fxc.runtime.entry import boxed_entry, entry
from fxc.runtime.first_call import FirstCall
from fxc.runtime.host_program import HostProgram, KernelCode
from fxc.runtime.plan import Plan
from fxc.runtime.replacements import NO_ELEMENTS, replace_operators
from fxc.runtime.signature import Signature

if TYPE_CHECKING:
    from torch.fx import GraphModule

    from fxc.compilation.passes import Passes
    from fxc.program.program import Program


@dataclass(frozen=True)
class Source:
    """What a plan was compiled from: the name of the model, the captured program without weights, and the passes."""

    title: str
    captured: Program
    passes: Passes


class ExecutionPlan(Plan):
    """A plan (``plan(*args)``, ``code``, ``module``, ``stats``) and its IR after the pipeline, ``ir``.

    The IR of a plan from a trusted file is read on first access. ``source``: None for a plan that was read from a file.
    """

    source: Source | None = None

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
        """The plan of a program after its pipeline: a host program if the entry is at the plan level, else a graph.

        ``kernels``: machine code from a file, as ``kernel_codes`` returns it. Raises TargetError for a callee that a program
        may not name, WeightsError for a tensor without a value.
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
        """The plan of an existing host program; ``ir`` reads the IR that it was made from."""
        plan = cls(ir, lambda: _graph(plan.ir), signature, training, host)
        return plan

    def __deepcopy__(self, memo: dict[int, Any]) -> ExecutionPlan:
        from fxc.dialects.text.syntax import clone_module
        from fxc.export.graph_module import to_fx

        ir = replace(self.ir, module=clone_module(self.ir.module), state=deepcopy(self.ir.state, memo))
        made = copy(self)
        made._live = made._stored = None
        made.ir, made.host = ir, deepcopy(self.host, memo)
        made._module = deepcopy(self.module, memo) if self.host is None else partial(to_fx, ir)
        made._bind()
        return made

    def flat(self) -> Callable[..., Any]:
        """The executable function on flat inputs. The caller checks that the inputs fit the signature, except for conditions on
        sizes that passes added.

        Inputs whose strides differ from the expected ones are copied where kernels require it.
        """
        if self.host is None:
            run = self.signature.checked_sizes(self.module.forward)
        else:
            other = self.signature.checked_sizes(lambda *args: self.run_module(args))
            run = entry(self.host, self.signature, lambda args, _: other(*args), self)
        return run if self._look is None else FirstCall(self._look, run)

    def boxed(self) -> Callable[[list[Any]], Any]:
        """``flat`` for inputs in one list. A host program that is marked ``plan.boxed`` releases each after its last use."""
        if self.host is None or not self.host.boxed:
            flat = self.flat()
            return lambda inputs: flat(*inputs)
        run = boxed_entry(self.host, self.signature, self.signature.checked_sizes(lambda *args: self.run_module(args)))
        return run if self._look is None else FirstCall(self._look, run, boxed=True)

    def kernel_codes(self) -> dict[str, KernelCode]:
        """The machine code of this plan: under the empty name for a host program, else by the name of each module."""
        if self.host is not None:
            found = {"": self.host.code}
        else:
            parts = [part for part in self.module.modules() if isinstance(part, HostSubgraph) and part.name]
            found = {part.name: part.host.code for part in parts}
        return {name: code for name, code in found.items() if code is not None}

    def save(self, path: str | Path) -> None:
        """Write a folder, or one file if ``path`` ends in ``.zip``: IR, current weights, machine code and a manifest.

        An existing plan at ``path`` is replaced. Raises PlanFileError where ``path`` is something else, or where the plan holds
        values that a file cannot store.
        """
        from fxc.export.host import kernel_code

        code = None if self.host is None else kernel_code(self.ir)
        kernels = {} if code is None else {"": code}
        plan_file.write(Path(path), plan_file.Contents(self.ir, self.signature, self.training, kernels))

    def __reduce__(self) -> Any:
        """As the bytes of the file that ``save`` writes: ``pickle`` and ``torch.save`` copy weights, not the model."""
        with TemporaryDirectory() as folder:
            self.save(path := Path(folder) / "plan.zip")
            return _from_bytes, (path.read_bytes(),)

    def report(self, path: str | Path) -> None:
        """Write one HTML page about the compilation, for any browser, without network: the passes with what each changed,
        the kernels beside the lines of the model, calls of ATen, memory, and the graph.

        The passes run once more to record them, so their times are those of this run. PipelineError for a plan that was read
        from a file, InputError where ``path`` cannot be written.
        """
        if self.source is None:
            return super().report(path)
        from fxc.report.page import write_page
        from fxc.report.recording import record

        with autocast.off():
            recording = record(self.source.captured, self.source.passes)
        times = {name: self.times[name] for name in ("capture", "export") if name in self.times}
        write_page(path, self.source.title, recording, times)

    @classmethod
    def load(cls, path: str | Path, *, trust_kernels: bool = False) -> ExecutionPlan:
        """Read the plan that ``save`` wrote to ``path``.

        The file is data: nothing in it is imported, unpickled or called; kernels are compiled from the IR, or loaded from the
        cache of object files on this machine.

        ``trust_kernels``: run the machine code in the file, and the Python code that calls it, if they are intact and were made
        by these versions for this CPU; else compile the kernels. Set it only for files from a source that you trust to run
        programs.

        Raises PlanFileError for a file that is damaged, incomplete, not a plan, or of another version of fxc or PyTorch.
        """
        timer = Timer()
        with collections_paused():
            with timer.scope("read"):
                found = plan_file.read(Path(path), trust_kernels=trust_kernels)
            if isinstance(found, plan_file.Contents):
                from fxc.compilation.passes import LaterDerivatives
                from fxc.program.process_groups import bind_groups, call_of

                options = Options.from_env()
                found.program.group_limit, found.program.later = options.group_limit, LaterDerivatives(options)
                bind_groups(found.program.module)
                with timer.scope("export"):
                    plan = cls.of(found.program, found.signature, found.training, found.kernels)
                if (around := call_of(found.program, found.signature)) is not None:
                    plan.call_through(around)
            else:
                plan = cls.ready(found.program, found.host, found.signature, found.training)
            plan.times = timer.stages()
            return plan


class StepPlan(ExecutionPlan):
    """The plan of a forward whose backward is compiled with it: ``step`` takes flat inputs. ``ir`` is the program of both."""

    def __init__(self, ir: Program, module: GraphModule, signature: Signature, step: Callable[..., Any]) -> None:
        self.step = step
        super().__init__(ir, module, signature, training=True)

    def run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self._live is not None and not self._live.is_same():
            self._take_over(self._live)
        leaves = self.signature.leaves(args, kwargs)
        assert leaves is not None, "they fit"
        with autocast.off():
            return self.step(*leaves)

    def save(self, path: str | Path) -> None:
        """PlanFileError: the file of a plan holds one function."""
        raise PlanFileError("a plan for training with DTensors cannot be saved", hint="save one that is compiled for inference")


def _from_bytes(data: bytes) -> ExecutionPlan:
    """The plan in a pickle, which may run code anyway, so its kernels are trusted."""
    with TemporaryDirectory() as folder:
        (path := Path(folder) / "plan.zip").write_bytes(data)
        return ExecutionPlan.load(path, trust_kernels=True)


def _graph(ir: Program) -> GraphModule:
    from fxc.export.graph_module import to_fx

    return to_fx(ir)
