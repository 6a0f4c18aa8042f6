"""Host programs: Python code printed from the ``plan`` level, with the values of its names."""

from __future__ import annotations

import linecache
import platform
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from importlib.metadata import version
from itertools import count
from typing import Any
from weakref import finalize

import torch

from fxc.runtime.arena import Arenas
from fxc.runtime.host_cpu import CpuFeatures
from fxc.runtime.native_kernel import TensorSpec

_NUMBERS = count()


@dataclass(frozen=True)
class HostFacts:
    """The work of one call, and its memory, as in ``fxc.runtime.plan.PlanStats``."""

    launches: int = 0
    library_calls: int = 0
    subgraph_calls: int = 0
    allocations: int = 0
    arena_bytes: int = 0
    peak_bytes: int = 0
    sum_bytes: int = 0
    lower_bound_bytes: int = 0


@dataclass(frozen=True)
class KernelCode:
    """The machine code of a program's kernels. ``key``: versions, platform and CPU features; ``names``: the kernels in it."""

    code: bytes
    key: str
    names: tuple[str, ...]

    @staticmethod
    def key_of(features: CpuFeatures) -> str:
        """Return the key of code that this process compiles for ``features``."""
        parts = [platform.machine(), sys.platform, f"fxc {version('fxc')}", f"llvmlite {version('llvmlite')}", features.text]
        return " ".join(parts)


@dataclass(frozen=True)
class Weight:
    """A tensor of the program whose address kernels take: it must still fit ``spec``."""

    name: str
    tensor: torch.Tensor
    spec: TensorSpec


class HostProgram:
    """A module with the code ``source``, whose function ``main`` takes flat inputs and returns the outputs in their nesting.

    ``main`` checks nothing: callers pass plain tensors that fit the signature, check that ``weights`` fit their specs, and turn
    grad mode off if ``calls_library``. ``globals``: the values of names in ``source``. ``written_inputs``: the positions of
    inputs that a call writes; ``written_weights``: names in ``globals``. ``code``: the machine code of its kernels. ``boxed``:
    ``main`` takes its inputs in one list, which it empties, so that each is released after its last use.
    """

    def __init__(
        self,
        source: str,
        globals: Mapping[str, Any],
        facts: HostFacts,
        weights: Sequence[Weight] = (),
        *,
        calls_library: bool = True,
        written_inputs: Sequence[int] = (),
        written_weights: Sequence[str] = (),
        code: KernelCode | None = None,
        boxed: bool = False,
    ) -> None:
        self.code, self.boxed = code, boxed
        self.source, self.globals, self.facts, self.weights = source, dict(globals), facts, tuple(weights)
        self.calls_library = calls_library
        self.written_inputs, self._written_weights = tuple(written_inputs), tuple(written_weights)
        file = f"<fxc plan {next(_NUMBERS)}>"
        self._names = names = dict(self.globals)
        exec(compile(source, file, "exec"), names)
        self.main: Callable[..., Any] = names["main"]
        linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)  # tracebacks show the lines
        finalize(self, linecache.cache.pop, file, None)

    @property
    def written_weights(self) -> list[torch.Tensor]:
        """The weights that a call writes."""
        return [self.globals[name] for name in self._written_weights]

    def tensors(self) -> Iterator[torch.Tensor]:
        """Yield the tensors of the program: weights and constants."""
        for value in self.globals.values():
            if isinstance(value, torch.nn.Module):
                yield from (*value.parameters(), *value.buffers())
            elif isinstance(value, torch.Tensor):
                yield value

    def use_tensors(self, tensors: Mapping[int, torch.Tensor]) -> None:
        """Replace the tensors with these ids. Later callers of ``main`` must check the new ``weights``."""
        for names in (self.globals, self._names):
            for name, value in names.items():
                if isinstance(value, torch.Tensor):
                    names[name] = tensors.get(id(value), value)
                elif isinstance(value, torch.nn.Module):
                    use_tensors(value, tensors)
        self.weights = tuple(replace(weight, tensor=tensors.get(id(weight.tensor), weight.tensor)) for weight in self.weights)

    def __deepcopy__(self, memo: dict[int, Any]) -> HostProgram:
        """Copy the program with its tensors and arenas; code is shared."""
        globals = {name: _copied(value, memo) for name, value in self.globals.items()}
        weights = [Weight(weight.name, deepcopy(weight.tensor, memo), weight.spec) for weight in self.weights]
        return HostProgram(
            self.source,
            globals,
            self.facts,
            weights,
            calls_library=self.calls_library,
            written_inputs=self.written_inputs,
            written_weights=self._written_weights,
            code=self.code,
            boxed=self.boxed,
        )

    def __repr__(self) -> str:
        return f"<HostProgram: {self.facts.launches} launches, {self.facts.library_calls} library calls>"


def use_tensors(module: torch.nn.Module, tensors: Mapping[int, torch.Tensor]) -> None:
    """Replace the tensors with these ids, in ``module`` and its submodules."""
    for owner in module.modules():
        stores: list[Any] = [owner._parameters, owner._buffers, vars(owner)]
        for store in stores:
            for name, value in list(store.items()):
                if isinstance(value, torch.Tensor) and id(value) in tensors:
                    store[name] = tensors[id(value)]


def _copied(value: Any, memo: dict[int, Any]) -> Any:
    return deepcopy(value, memo) if isinstance(value, (torch.Tensor, torch.nn.Module, Arenas)) else value
