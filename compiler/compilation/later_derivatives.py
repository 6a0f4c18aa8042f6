"""Derivatives that are compiled at a call, when gradients first come that the passes did not expect."""

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
    """Compiles the derivatives that are first needed at a call, as ``options`` say."""

    options: Options

    def __call__(self, program: Program, *, kernels: bool) -> HostProgram | None:
        """Run the passes over ``program``, a derivative whose gradients are marked, in place, or find what they made of an
        equal one. The host program, where it ends in one."""
        pipeline = LATER_DERIVATIVE.text(kernels=kernels and target_of(program.module) is not None, freeze=False)
        cached = CachedCompilation.of(program, Passes(pipeline, self.options), named=False)
        return cached.compile(
            lambda program, kernels: host_of(program, kernels.get("")),
            lambda host: {} if host is None or host.code is None else {"": host.code},
        )
