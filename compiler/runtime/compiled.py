"""The callable that ``fxc.compile`` returns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fxc.runtime.cache import CacheStats, PlanCache
from fxc.runtime.plan import Plan
from fxc.runtime.signature import Signature


class Compiled:
    """Run ``plan`` on inputs that fit ``signature``; with a ``cache``, compile a plan for inputs that fit no other.

    ``ir``: the program after the pipeline; ``print(compiled.ir)`` shows it. ``plan``: the ``fxc.ExecutionPlan`` that runs;
    with a cache, that of the first call. ``training``: whether results carry gradients.
    """

    def __init__(self, plan: Plan, cache: PlanCache | None = None) -> None:
        self.plan, self.cache = plan, cache

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.cache is None:
            return self.plan.call(*args, **kwargs)
        plan = self.cache.plan_for(args, kwargs)
        plan.hits += 1
        return plan.run(args, kwargs)

    @property
    def ir(self) -> Any:
        """The program after the pipeline, an ``fxc.Program``."""
        return self.plan.ir

    @property
    def signature(self) -> Signature:
        """The signature of ``plan``."""
        return self.plan.signature

    @property
    def training(self) -> bool:
        """Whether results carry gradients."""
        return self.plan.training

    @property
    def plans(self) -> tuple[Plan, ...]:
        """All cached plans, most recently used first."""
        return (self.plan,) if self.cache is None else self.cache.plans

    @property
    def stats(self) -> CacheStats:
        """Hits, misses and evictions of the plans."""
        return CacheStats(self.plan.hits, self.plan.misses, 0, 1) if self.cache is None else self.cache.stats

    def report(self, path: str | Path) -> None:
        """Write one HTML page about the compilation of ``plan``: see ``fxc.ExecutionPlan.report``."""
        self.plan.report(path)

    def __repr__(self) -> str:
        return repr(self.plan).replace(type(self.plan).__name__ + ":", "fxc.Compiled of")
