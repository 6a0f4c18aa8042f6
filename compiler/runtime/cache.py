"""A cache of plans by argument spec: a call runs the plan whose spec matches its arguments, or compiles a new one.

A spec compares rank, dtype, device, layout and memory order of a tensor, and whether a gradient flows to it (it requires one,
and grad mode is on). It compares type and value of any other argument: None and a tensor differ, and so do 1 and True. Sizes
and numbers are compared where a plan is specialized to them. Where the signature has a symbol, any value in the symbol's
bounds matches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock, RLock
from typing import Any

import torch
from torch._C._dynamo import eval_frame

from fxc.errors import CaptureError, PipelineError, PlanFileError
from fxc.runtime.plan import Plan
from fxc.runtime.signature import Signature

MakePlan = Callable[[tuple[Any, ...], dict[str, Any]], Plan]
FallBack = Callable[[tuple[Any, ...], dict[str, Any], CaptureError, Plan], Callable[..., Any]]
_SKIPPED = eval_frame._FrameExecStrategy(eval_frame._FrameAction.SKIP, eval_frame._FrameAction.SKIP)


@dataclass(frozen=True)
class ArgumentSpec:
    """The calls that a plan can run: ``signature``, and which inputs require a gradient (``wants``).

    ``wants`` is None if no gradient can flow (grad mode is off, or results carry none): ``requires_grad`` is ignored then.
    """

    signature: Signature
    wants: tuple[bool, ...] | None

    def matches(self, args: tuple[Any, ...], kwargs: dict[str, Any], gradients: bool) -> bool:
        leaves = self.signature.leaves(args, kwargs)
        if leaves is None or not self.signature.fits_leaves(leaves):
            return False
        return self.wants == (_requires_grad(leaves) if gradients else None)


def _requires_grad(leaves: Sequence[Any]) -> tuple[bool, ...]:
    return tuple([isinstance(leaf, torch.Tensor) and leaf.requires_grad for leaf in leaves])


@dataclass(frozen=True)
class CacheStats:
    """Calls that found a plan (``hits``) or not (``misses``), cached plans (``size``), and dropped plans (``evictions``)."""

    hits: int
    misses: int
    evictions: int
    size: int


_compiling = RLock()
"""Held during compilation. PyTorch's tracing patches classes of the process, so two traces would interfere."""


class PlanCache:
    """A thread-safe LRU cache of at most ``capacity`` plans.

    ``make`` compiles the plan of a call. ``gradients``: whether results carry gradients when grad mode is on. ``fall_back``:
    what makes ``other`` for a later call that cannot be captured; it runs the calls that fit no plan from then on.
    """

    def __init__(self, capacity: int, make: MakePlan, *, gradients: bool, fall_back: FallBack | None = None) -> None:
        if capacity < 1:
            raise PipelineError(f"cache_size is {capacity}", hint="a cache holds at least one plan")
        self.capacity, self.make, self.gradients = capacity, make, gradients
        self.fall_back = fall_back
        self.other: Any = None
        self._lock = Lock()
        self._entries: tuple[tuple[ArgumentSpec, Plan], ...] = ()  # most recently used first; replaced, never mutated
        self._hits = self._misses = self._evictions = 0

    def __getstate__(self) -> Any:
        message = "a compilation with the option recompile holds its model, which cannot be copied or pickled with it"
        raise PlanFileError(message, hint="pickle or save one of its plans")

    def plan_for(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Plan | None:
        """Return the plan of a call, compiled if there is none, or None for a call of ``other``.

        Threads that need the same plan wait for one compilation.
        """
        plan = self._find(args, kwargs)
        if plan is not None or self.other is not None:
            return plan
        with _compiling:
            plan = self._find(args, kwargs)
            if plan is None:
                with self._lock:
                    self._misses += 1
                try:
                    plan = self.make(args, kwargs)
                except CaptureError as error:
                    if self.fall_back is None or not self._entries:
                        raise
                    self.other = self.fall_back(args, kwargs, error, self.plans[-1])
                    return None
                plan.misses += 1
                self.add(args, kwargs, plan)
            return plan

    def add(self, args: tuple[Any, ...], kwargs: dict[str, Any], plan: Plan) -> None:
        """Cache ``plan`` for calls like this one, and evict the least recently used plan over capacity."""
        gradients = self.gradients and torch.is_grad_enabled()
        spec = ArgumentSpec(plan.signature, _requires_grad(plan.signature.leaves(args, kwargs) or ()) if gradients else None)
        with self._lock:
            entries = ((spec, plan), *self._entries)
            self._evictions += max(0, len(entries) - self.capacity)
            self._entries = entries[: self.capacity]

    def _find(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Plan | None:
        gradients = self.gradients and torch.is_grad_enabled()
        for entry in self._entries:
            spec, plan = entry
            if spec.matches(args, kwargs, gradients):
                with self._lock:
                    self._hits += 1
                    if self._entries[0] is not entry and entry in self._entries:
                        self._entries = (entry, *(other for other in self._entries if other is not entry))
                return plan
        return None

    @property
    def plans(self) -> tuple[Plan, ...]:
        """The plans, most recently used first."""
        return tuple(plan for _, plan in self._entries)

    @property
    def specs(self) -> tuple[ArgumentSpec, ...]:
        """The spec of each of ``plans``."""
        return tuple(spec for spec, _ in self._entries)

    @property
    def stats(self) -> CacheStats:
        """The current counts."""
        with self._lock:
            return CacheStats(self._hits, self._misses, self._evictions, len(self._entries))


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
        if plan is None:
            return self.cache.other(*args, **kwargs)
        if plan.signature.returned is not None:
            return plan.call(*args, **kwargs)
        plan.hits += 1
        return plan.run(args, kwargs)

    # Dynamo ends its graph before a call, and traces nothing inside of it: kernels take addresses.
    vars(__call__)["_torchdynamo_disable"] = True
    eval_frame.set_code_exec_strategy(__call__.__code__, _SKIPPED)

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
        """Write one HTML page about the compilation of ``plan`` to ``path``: see ``fxc.ExecutionPlan.report``.

        PipelineError for a model that runs in parts.
        """
        self.plan.report(path)

    def __repr__(self) -> str:
        return repr(self.plan).replace(type(self.plan).__name__ + ":", "fxc.Compiled of")
