"""``fxc.ExecutionPlan``: what runs after the pipeline, with the IR that it came from, to be kept in a file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

from fxc import plan_file
from fxc.backends.fx import to_fx
from fxc.program import Program
from fxc.runtime.plan import Plan
from fxc.runtime.signature import Signature

if TYPE_CHECKING:
    from torch.fx import GraphModule


class ExecutionPlan(Plan):
    """A plan (``plan(*args)``, ``code``, ``module``, ``stats``) and its IR, ``ir``, after the pipeline."""

    def __init__(
        self,
        ir: Program,
        module: GraphModule,
        signature: Signature,
        training: bool,
        times: Mapping[str, float] | None = None,
    ) -> None:
        super().__init__(module, signature, training, times)
        self.ir = ir

    def save(self, path: str | Path) -> None:
        """Writes the IR, the weights as they are now, and a manifest: a folder, or one file where ``path`` ends in ``.zip``.

        What was there before is replaced where it is a plan. Raises PlanFileError where it is not, or where the plan holds
        what a file cannot.
        """
        plan_file.write(Path(path), plan_file.Contents(self.ir, self.signature, self.training))

    @classmethod
    def load(cls, path: str | Path) -> ExecutionPlan:
        """Reads what ``save`` wrote. The file is data: nothing in it is imported, unpickled or called.

        Raises PlanFileError for a file that is damaged, incomplete, no plan, or of another fxc or PyTorch.
        """
        start = perf_counter()
        contents = plan_file.read(Path(path))
        read = perf_counter()
        module = to_fx(contents.program)
        times = {"read": (read - start) * 1e3, "export": (perf_counter() - read) * 1e3}
        return cls(contents.program, module, contents.signature, contents.training, times)
