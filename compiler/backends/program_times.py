"""How long programs take: what a pass asks that chooses between forms of a program."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from math import inf
from time import perf_counter
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.dialects.func import FuncOp

from fxc.dialects.entry import ArgumentFacts, argument_attributes
from fxc.dialects.syntax import print_module
from fxc.dialects.torch_ops.traits import is_onednn
from fxc.dialects.types import SYMBOLS, device
from fxc.errors import KernelError
from fxc.runtime.cpu_features import host_features
from fxc.runtime.object_cache import ObjectCache, cache_key, default_cache_folder
from fxc.runtime.precision import float32_precisions
from fxc.semantics.seeded import Seeded

SECONDS, MOST_TURNS = 0.03, 20
"""What a trial on the CPU may take for each program, beside two times each, and how often it is run at most."""
FIRST_TURNS, BEHIND = 3, 1.5
"""After so many turns what takes so many times the least is out; what is left alone has won."""


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
    from fxc.backends.triton.measure import EventClock, by_turns

    runs = [_run_or_none(module) for module in modules]
    found = iter(by_turns([run for run in runs if run is not None], EventClock()))
    return [inf if run is None else next(found) for run in runs]


def _kept(modules: Sequence[ModuleOp]) -> list[float]:
    """Times on this CPU, from an earlier time where there was one."""
    settings = torch.get_num_threads(), torch.backends.mkldnn.enabled, float32_precisions()
    machine = str(sorted(host_features().names)), str(settings), str(torch.__version__)
    cache, key = ObjectCache(default_cache_folder() / "times"), cache_key(*machine, *map(print_module, modules))
    if (known := cache.get(key)) is not None:
        return json.loads(known)
    found = _least([_run_or_none(module) for module in modules])
    cache.put(key, json.dumps(found).encode())
    return found


def _least(runs: Sequence[Callable[[], Any] | None]) -> list[float]:
    """The least that each takes in milliseconds, by turns, for as long as it is not clear which takes the least."""
    best, racing = [inf] * len(runs), [i for i, run in enumerate(runs) if run is not None]
    spent, turns = 0.0, 0
    while turns < 2 or (spent < SECONDS * len(runs) and turns < MOST_TURNS and len(racing) > 1):
        for i in racing:
            start = perf_counter()
            runs[i]()  # type: ignore[misc]
            time = perf_counter() - start
            best[i], spent = min(best[i], time * 1e3), spent + time
        turns += 1
        if turns >= FIRST_TURNS:
            racing = [i for i in racing if best[i] < BEHIND * min(best)]
    return best


def _run_or_none(module: ModuleOp) -> Callable[[], Any] | None:
    """Runs ``main`` on made-up arguments, after a first time; None where it cannot, or is not to."""
    from fxc.backends.fx import to_fx
    from fxc.program import Program

    if not torch.backends.mkldnn.enabled and any(map(is_onednn, module.walk())):
        return None
    main, seeded = _main(module), Seeded(module.attributes.get(SYMBOLS))
    state, inputs = dict[str, Any](), list[Any]()
    for index, type in enumerate(main.function_type.inputs):
        name = _state_name(main, index)
        if name is None:
            inputs.append(seeded.value(type))
        else:
            state[name] = seeded.value(type)
    with torch.no_grad():
        try:
            function = to_fx(Program(module, state))
            function(*inputs)
        except (KernelError, RuntimeError):  # PyTorch raises the second where this machine lacks what an operator needs
            return None
    return torch.no_grad()(lambda: function(*inputs))


def _state_name(main: FuncOp, index: int) -> str | None:
    """The name of argument ``index`` where it is the model's own."""
    return ArgumentFacts.of(argument_attributes(main)[index]).state_name


def _main(module: ModuleOp) -> FuncOp:
    return next(op for op in module.ops if isinstance(op, FuncOp) and op.sym_name.data == "main")
