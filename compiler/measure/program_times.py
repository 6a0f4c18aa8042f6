"""Measure the run time of programs, for passes that choose between variants, and of operations one by one, for a timeline."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from math import inf, isfinite
from time import perf_counter
from timeit import timeit
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue

from fxc.codegen.contract import target_named
from fxc.codegen.triton.device import EventClock, by_turns
from fxc.dialects.attributes.types import SYMBOLS, device, is_tensor
from fxc.dialects.base.effects import inner_operations
from fxc.dialects.context import FxcContext
from fxc.dialects.dist import CollectiveOp, WaitOp
from fxc.dialects.entry import ArgumentFacts, argument_attributes
from fxc.dialects.target import HOST, set_target
from fxc.dialects.text.syntax import print_module
from fxc.dialects.torch_ops.schema import is_onednn
from fxc.driver.runner import run_pipeline
from fxc.errors import KernelError
from fxc.export.graph_module import to_fx
from fxc.interpret.example_values import Seeded
from fxc.passes.analysis.structural_key import Structures
from fxc.passes.operators.costs import Costs
from fxc.passes.rewriting.outlining import outlined, with_entry
from fxc.pipelines import parse_pipeline
from fxc.program.program import Program
from fxc.runtime.autocast import float32_precisions
from fxc.runtime.host_cpu import host_features
from fxc.runtime.object_cache import ObjectCache, cache_key, default_cache_folder

SECONDS, FEWEST_TURNS, MOST_TURNS = 0.012, 4, 20
"""The time in seconds for each program of a measurement on the CPU, and the minimum and maximum number of rounds."""
FIRST_TURNS, BEHIND = 3, 1.5
"""After ``FIRST_TURNS`` rounds, programs that take ``BEHIND`` times the minimum are dropped; one that remains alone is best."""
LONG = 1.0
"""The time in seconds for each program, with its first run, after which no other round starts: what takes long varies less."""
EVICTING = 8 << 20
"""Bytes that are written before each run, to evict caches: in a model other ops run in between, so weights are not cached."""
BLOCK = 1 << 16
"""Number of random elements of an argument: sampling all of a large weight takes longer than the measurement."""


def program_times(modules: Sequence[ModuleOp], *, warm: bool = False) -> Sequence[float] | None:
    """The run time of ``main`` of each module in milliseconds, on the device of its arguments; infinite if it cannot run there.

    Parameters have random values, and values that depend only on parameters are computed before. Times of a CPU are cached on
    disk. None if the device is not the CPU or an available CUDA GPU. ``warm``: measure all, with their arguments in the caches
    of the CPU, instead of finding the fastest one.
    """
    types = [type for module in modules for type in _main(module).function_type.inputs if is_tensor(type)]
    places = {torch.device(device(type)).type for type in types}
    with _disable_current_modes():  # torch.compile calls this under a fake mode, in which no operator computes
        if places == {"cpu"}:
            return _cached(modules, _warm if warm else _least)
        return _on_gpu(modules) if places == {"cuda"} and torch.cuda.is_available() else None


def _on_gpu(modules: Sequence[ModuleOp]) -> list[float]:
    runs = _runs(modules)
    found = iter(by_turns([run for run in runs if run is not None], EventClock()))
    return [inf if run is None else next(found) for run in runs]


def _cached(modules: Sequence[ModuleOp], measure: Callable[[Sequence[_Run | None]], list[float]]) -> list[float]:
    """Times on this CPU, from the cache if it has them."""
    settings = torch.get_num_threads(), torch.backends.mkldnn.enabled, float32_precisions()
    machine = str(sorted(host_features().names)), str(settings), str(torch.__version__)
    cache, key = (
        ObjectCache(default_cache_folder() / "times"),
        cache_key(*machine, measure.__name__, *map(print_module, modules)),
    )
    if (known := cache.get(key)) is not None:
        return json.loads(known)
    found = measure(_runs(modules))
    cache.put(key, json.dumps(found).encode())
    return found


@dataclass(frozen=True)
class _Run:
    """An executable program. ``first``: the time of its first run in milliseconds."""

    call: Callable[[], Any]
    first: float

    def __call__(self) -> Any:
        with torch.no_grad():
            return self.call()


def _least(runs: Sequence[_Run | None]) -> list[float]:
    """The minimum time of each program in milliseconds. Programs run in alternation until it is clear which one is fastest."""
    racing = [i for i, run in enumerate(runs) if run is not None]
    best, spent, turns = [inf if run is None else run.first for run in runs], 0.0, 0
    first = sum(run.first for run in runs if run is not None) / 1e3
    others = torch.zeros(EVICTING, dtype=torch.uint8, device="cpu")
    while first + spent < LONG * len(runs) and (
        turns < 1 or (len(racing) > 1 and turns < MOST_TURNS and (turns < FEWEST_TURNS or spent < SECONDS * len(runs)))
    ):
        for i in racing:
            others.add_(1)
            start = perf_counter()
            runs[i]()  # type: ignore[misc]
            time = perf_counter() - start
            best[i], spent = min(best[i], time * 1e3), spent + time
        turns += 1
        if turns >= FIRST_TURNS:
            racing = [i for i in racing if best[i] < BEHIND * min(best)]
    return best


def _warm(runs: Sequence[_Run | None]) -> list[float]:
    """The minimum time of each program in milliseconds, run several times in succession."""
    return [inf if run is None else min(1e3 * timeit(run, number=1) for _ in range(MOST_TURNS)) for run in runs]


class _Arguments(Seeded):
    """Arguments of programs. Large arguments repeat their first elements; programs share arguments of equal index and type."""

    def __init__(self, symbols: Attribute | None) -> None:
        super().__init__(symbols)
        self._known = dict[tuple[int, Attribute], Any]()

    def argument(self, index: int, type: Attribute) -> Any:
        if (index, type) not in self._known:
            self._known[index, type] = self.value(type)
        return self._known[index, type]

    def elements(self, count: int, dtype: torch.dtype) -> torch.Tensor:
        block = super().elements(min(count, BLOCK), dtype)
        return block if count <= BLOCK else block.repeat(-(-count // BLOCK))[:count]


def _runs(modules: Sequence[ModuleOp]) -> list[_Run | None]:
    """The executables of ``modules``, which have the same symbols."""
    arguments = _Arguments(modules[0].attributes.get(SYMBOLS))
    return [_run_or_none(module, arguments) for module in modules]


def _run_or_none(module: ModuleOp, arguments: _Arguments) -> _Run | None:
    """Compile ``main`` and run it once on random arguments; None if it cannot run here or oneDNN is disabled for it."""

    if not torch.backends.mkldnn.enabled and any(map(is_onednn, module.walk())):
        return None
    main = _main(module)
    state, inputs = dict[str, Any](), list[Any]()
    for index, type in enumerate(main.function_type.inputs):
        name = ArgumentFacts.of(argument_attributes(main)[index]).state_name
        if name is None:
            inputs.append(arguments.argument(index, type))
        else:
            state[name] = arguments.argument(index, type)
    with torch.no_grad():
        try:
            function = to_fx(Program(module, state))
            start = perf_counter()
            function(*inputs)
        except (KernelError, RuntimeError):  # PyTorch raises RuntimeError if this machine does not support an operator
            return None
    return _Run(partial(function, *inputs), (perf_counter() - start) * 1e3)


def _main(module: ModuleOp) -> FuncOp:
    return next(op for op in module.ops if isinstance(op, FuncOp) and op.sym_name.data == "main")


_FUSE = "convert-dist-to-torch,outline-repeated{shortest=8 least=4},optimize{reductions=true},inline,convert-torch-to-dist"


def fuse_for_host(context: FxcContext, module: ModuleOp) -> None:
    """Make the operations of ``module`` those that run on this machine: kernels, calls and collectives."""
    set_target(module, target_named(HOST))
    run_pipeline(context, module, parse_pipeline(_FUSE))


def operation_times(context: FxcContext, module: ModuleOp, function: FuncOp) -> dict[Operation, float]:
    """The microseconds of each computation of ``function``, lowered and run alone with random tensors; equal ones once.

    Those that cannot run alone are missing.
    """
    costs, structures = Costs(function), Structures()
    keys, alone = dict[Operation, Hashable](), dict[Hashable, ModuleOp]()
    for op in inner_operations(function):
        if isinstance(op, (CollectiveOp, WaitOp)) or costs.of(op).time <= 0:
            continue
        found = structures.of(op)
        if reads := _tensors(found.reads):
            keys[op] = found.key
            if found.key not in alone:
                alone[found.key] = with_entry(module, outlined("main", [op], reads, op.results))
                run_pipeline(context, alone[found.key], parse_pipeline("lower-kernels,lower-to-plan"))
    times = program_times([*alone.values()], warm=True) if alone else None
    known = dict(zip(alone, times or (), strict=times is not None))
    return {op: 1e3 * known[key] for op, key in keys.items() if isfinite(known.get(key, float("inf")))}


def _tensors(values: list[SSAValue]) -> list[SSAValue]:
    """The distinct ``values``; none of them where one is no tensor."""
    return list(dict.fromkeys(values)) if all(is_tensor(value.type) for value in values) else []
