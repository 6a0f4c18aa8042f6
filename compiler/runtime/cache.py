"""Plans by argument spec: a call takes the plan that was made for arguments like its own, or has one made.

What is compared: for a tensor rank, dtype, device, layout, memory order, and whether a gradient flows to it (it requires one,
and grad mode is on); for any other argument type and value, so that None and a tensor differ, and 1 and True. Sizes and
numbers are compared where a plan was specialised to them; where its signature has a symbol, any value in the symbol's bounds
does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Lock, RLock
from typing import Any

import torch

from fxc.errors import PipelineError
from fxc.runtime.plan import Plan
from fxc.runtime.signature import Signature

MakePlan = Callable[[tuple[Any, ...], dict[str, Any]], Plan]


@dataclass(frozen=True)
class ArgumentSpec:
    """The calls that a plan serves: ``signature``, grad mode (``gradients``), and which inputs require a gradient.

    ``wants`` is None where no gradient can flow: it does not matter then what the inputs require.
    """

    signature: Signature
    wants: tuple[bool, ...] | None

    def matches(self, args: tuple[Any, ...], kwargs: dict[str, Any], gradients: bool) -> bool:
        leaves = self.signature.leaves(args, kwargs)
        if leaves is None or not self.signature.fits_leaves(leaves):
            return False
        return self.wants == (_wants(leaves) if gradients else None)


def _wants(leaves: Sequence[Any]) -> tuple[bool, ...]:
    return tuple([isinstance(leaf, torch.Tensor) and leaf.requires_grad for leaf in leaves])


@dataclass(frozen=True)
class CacheStats:
    """``hits`` and ``misses`` of calls, plans held (``size``) and plans dropped for newer ones (``evictions``)."""

    hits: int
    misses: int
    evictions: int
    size: int


_compiling = RLock()
"""Held while a plan is made. PyTorch's tracing changes classes of the whole process, so that two traces would meet."""


class PlanCache:
    """At most ``capacity`` plans; the one used longest ago goes first. Several threads may call at once.

    ``make`` makes the plan of a call. ``gradients``: whether results are to carry gradients where grad mode is on.
    """

    def __init__(self, capacity: int, make: MakePlan, *, gradients: bool) -> None:
        if capacity < 1:
            raise PipelineError(f"cache_size is {capacity}", hint="a cache holds at least one plan")
        self.capacity, self.make, self.gradients = capacity, make, gradients
        self._lock = Lock()
        self._entries: tuple[tuple[ArgumentSpec, Plan], ...] = ()  # the one used last comes first; replaced, never changed
        self._hits = self._misses = self._evictions = 0

    def plan_for(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Plan:
        """The plan of a call, made where there is none; threads that need the same one wait for one to make it."""
        plan = self._find(args, kwargs)
        if plan is not None:
            return plan
        with _compiling:
            plan = self._find(args, kwargs)
            if plan is None:
                with self._lock:
                    self._misses += 1
                plan = self.make(args, kwargs)
                plan.misses += 1
                self.add(args, kwargs, plan)
            return plan

    def add(self, args: tuple[Any, ...], kwargs: dict[str, Any], plan: Plan) -> None:
        """Holds ``plan`` for calls like this one, and drops the plan used longest ago where there are too many."""
        gradients = self.gradients and torch.is_grad_enabled()
        spec = ArgumentSpec(plan.signature, _wants(plan.signature.leaves(args, kwargs) or ()) if gradients else None)
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
        """The plans, the one used last first."""
        return tuple(plan for _, plan in self._entries)

    @property
    def specs(self) -> tuple[ArgumentSpec, ...]:
        """What each of ``plans`` serves."""
        return tuple(spec for spec, _ in self._entries)

    @property
    def stats(self) -> CacheStats:
        """The counts as of now."""
        with self._lock:
            return CacheStats(self._hits, self._misses, self._evictions, len(self._entries))
