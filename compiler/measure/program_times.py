"""How long programs take: what a pass asks that chooses between forms of a program."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import inf
from time import perf_counter
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute

from fxc.codegen.triton.measure import EventClock, by_turns
from fxc.dialects.attributes.types import SYMBOLS, device
from fxc.dialects.entry import ArgumentFacts, argument_attributes
from fxc.dialects.text.syntax import print_module
from fxc.dialects.torch_ops.namespaces import is_onednn
from fxc.errors import KernelError
from fxc.interpret.example_values import Seeded
from fxc.program.program import Program
from fxc.runtime.cpu_features import host_features
from fxc.runtime.object_cache import ObjectCache, cache_key, default_cache_folder
from fxc.runtime.precision import float32_precisions

SECONDS, FEWEST_TURNS, MOST_TURNS = 0.012, 4, 20
"""What a trial on the CPU may take for each program, and how often those in the race are run, at least and at most."""
FIRST_TURNS, BEHIND = 3, 1.5
"""After so many turns what takes so many times the least is out; what is left alone has won."""
EVICTING = 8 << 20
"""Bytes that are written before each time: in a model other ops come in between, and a weight is in no core's own cache."""
BLOCK = 1 << 16
"""Elements of an argument that are made up: to draw all of a large weight takes longer than the trial."""


def program_times(modules: Sequence[ModuleOp]) -> Sequence[float] | None:
    """Milliseconds of ``main`` of each module, where its arguments are: infinite where a kernel cannot run there.

    Parameters are made up, and what depends on them alone is computed before. Times of a CPU are kept on disk. None where
    there is no such GPU.
    """
    types = [type for module in modules for type in _main(module).function_type.inputs if isinstance(type, TensorType)]
    places = {torch.device(device(type)).type for type in types}
    with _disable_current_modes():  # torch.compile asks under one in which no operator computes
        if places == {"cpu"}:
            return _kept(modules)
        return _on_gpu(modules) if places == {"cuda"} and torch.cuda.is_available() else None


def _on_gpu(modules: Sequence[ModuleOp]) -> list[float]:
    runs = _runs(modules)
    found = iter(by_turns([run for run in runs if run is not None], EventClock()))
    return [inf if run is None else next(found) for run in runs]


def _kept(modules: Sequence[ModuleOp]) -> list[float]:
    """Times on this CPU, from an earlier time where there was one."""
    settings = torch.get_num_threads(), torch.backends.mkldnn.enabled, float32_precisions()
    machine = str(sorted(host_features().names)), str(settings), str(torch.__version__)
    cache, key = ObjectCache(default_cache_folder() / "times"), cache_key(*machine, *map(print_module, modules))
    if (known := cache.get(key)) is not None:
        return json.loads(known)
    found = _least(_runs(modules))
    cache.put(key, json.dumps(found).encode())
    return found


@dataclass(frozen=True)
class _Run:
    """What runs a program. ``first``: milliseconds of its first time."""

    call: Callable[[], Any]
    first: float

    def __call__(self) -> Any:
        with torch.no_grad():
            return self.call()


def _least(runs: Sequence[_Run | None]) -> list[float]:
    """The least that each takes in milliseconds, by turns, for as long as it is not clear which takes the least."""
    racing = [i for i, run in enumerate(runs) if run is not None]
    best, spent, turns = [inf if run is None else run.first for run in runs], 0.0, 0
    others = torch.zeros(EVICTING, dtype=torch.uint8)
    while turns < 1 or (len(racing) > 1 and turns < MOST_TURNS and (turns < FEWEST_TURNS or spent < SECONDS * len(runs))):
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


class _Arguments(Seeded):
    """Arguments of programs: large ones repeat their first elements, and programs share those of one type in one place."""

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
    """What runs each of ``modules``, which have the same symbols."""
    arguments = _Arguments(modules[0].attributes.get(SYMBOLS))
    return [_run_or_none(module, arguments) for module in modules]


def _run_or_none(module: ModuleOp, arguments: _Arguments) -> _Run | None:
    """Runs ``main`` on made-up arguments, after a first time; None where it cannot, or is not to."""
    from fxc.export.graph_module import to_fx

    if not torch.backends.mkldnn.enabled and any(map(is_onednn, module.walk())):
        return None
    main = _main(module)
    state, inputs = dict[str, Any](), list[Any]()
    for index, type in enumerate(main.function_type.inputs):
        name = _state_name(main, index)
        if name is None:
            inputs.append(arguments.argument(index, type))
        else:
            state[name] = arguments.argument(index, type)
    with torch.no_grad():
        try:
            function = to_fx(Program(module, state))
            start = perf_counter()
            function(*inputs)
        except (KernelError, RuntimeError):  # PyTorch raises the second where this machine lacks what an operator needs
            return None
    return _Run(partial(function, *inputs), (perf_counter() - start) * 1e3)


def _state_name(main: FuncOp, index: int) -> str | None:
    """The name of argument ``index`` where it is the model's own."""
    return ArgumentFacts.of(argument_attributes(main)[index]).state_name


def _main(module: ModuleOp) -> FuncOp:
    return next(op for op in module.ops if isinstance(op, FuncOp) and op.sym_name.data == "main")
