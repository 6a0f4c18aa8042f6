"""How long programs take: what a pass asks that chooses between forms of a program."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from math import inf
from time import perf_counter
from typing import Any

import torch
from xdsl.dialects.builtin import ModuleOp, StringAttr, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute

from fxc.dialects.entry import STATE_KINDS
from fxc.dialects.syntax import print_module
from fxc.dialects.types import SYMBOLS, device
from fxc.errors import KernelError
from fxc.runtime.cpu_features import host_features
from fxc.runtime.object_cache import ObjectCache, cache_key, default_cache_folder
from fxc.semantics.seeded import Seeded

SECONDS, MOST_TURNS = 0.03, 20
"""What a trial on the CPU may take for each program, beside two times each, and how often it is run at most."""


def program_times(modules: Sequence[ModuleOp]) -> Sequence[float] | None:
    """Milliseconds of ``main`` of each module, where its arguments are: infinite where a kernel cannot run there.

    Parameters are made up, and what depends on them alone is computed before. Times of a CPU are kept on disk. None where
    there is no such GPU.
    """
    types = [type for module in modules for type in _main(module).function_type.inputs if isinstance(type, TensorType)]
    places = {torch.device(device(type)).type for type in types}
    if places == {"cpu"}:
        return _kept(modules)
    if places != {"cuda"} or not torch.cuda.is_available():
        return None
    from fxc.backends.triton.measure import EventClock, by_turns

    runs = [_run_or_none(module) for module in modules]
    found = iter(by_turns([run for run in runs if run is not None], EventClock()))
    return [inf if run is None else next(found) for run in runs]


def _kept(modules: Sequence[ModuleOp]) -> list[float]:
    """Times on this CPU, from an earlier time where there was one."""
    machine = str(sorted(host_features().names)), str(torch.get_num_threads()), str(torch.__version__)
    cache, key = ObjectCache(default_cache_folder() / "times"), cache_key(*machine, *map(print_module, modules))
    if (known := cache.get(key)) is not None:
        return json.loads(known)
    found = _least([_run_or_none(module) for module in modules])
    cache.put(key, json.dumps(found).encode())
    return found


def _least(runs: Sequence[Callable[[], Any] | None]) -> list[float]:
    """The least that each takes in milliseconds, by turns."""
    best = [inf] * len(runs)
    spent, turns = 0.0, 0
    while turns < 2 or (spent < SECONDS * len(runs) and turns < MOST_TURNS):
        for i, run in enumerate(runs):
            if run is not None:
                start = perf_counter()
                run()
                time = perf_counter() - start
                best[i], spent = min(best[i], time * 1e3), spent + time
        turns += 1
    return best


def _run_or_none(module: ModuleOp) -> Callable[[], Any] | None:
    """Runs ``main`` on made-up arguments, after a first time; None where it cannot."""
    from fxc.backends.fx import to_fx
    from fxc.program import Program

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
    attributes: dict[str, Attribute] = dict(main.arg_attrs.data[index].data) if main.arg_attrs else {}
    kind, name = attributes.get("fx.kind"), attributes.get("fx.name")
    own = isinstance(kind, StringAttr) and kind.data in STATE_KINDS and isinstance(name, StringAttr)
    return name.data if own else None  # type: ignore[union-attr]


def _main(module: ModuleOp) -> FuncOp:
    return next(op for op in module.ops if isinstance(op, FuncOp) and op.sym_name.data == "main")
