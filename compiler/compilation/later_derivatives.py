"""Compile derivatives at a call, when gradients occur that the passes did not expect."""

from __future__ import annotations

from dataclasses import dataclass

from fxc.compilation.cached import CachedCompilation
from fxc.compilation.passes import Passes
from fxc.dialects.target import target_of
from fxc.export.graph_module import host_of
from fxc.options import Options
from fxc.pipelines import LATER_DERIVATIVE
from fxc.program.program import Program
from fxc.runtime.host_program import HostProgram


@dataclass(frozen=True)
class LaterDerivatives:
    """Compiles derivatives on first use, with ``options``."""

    options: Options

    def __call__(self, program: Program, *, kernels: bool) -> HostProgram | None:
        """Compile ``program`` in place: a derivative with marked gradients.

        Loads the result for an equal program from the cache if it is there. Returns the host program if the pipeline makes one.
        """
        pipeline = LATER_DERIVATIVE.text(kernels=kernels and target_of(program.module) is not None, freeze=False)
        cached = CachedCompilation.of(program, Passes(pipeline, self.options), named=False)
        return cached.compile(
            lambda program, kernels: host_of(program, kernels.get("")),
            lambda host: {} if host is None or host.code is None else {"": host.code},
        )
