"""A process that says where its start goes: ``python benchmarks/start_process.py REQUEST``, for ``start_stages.py``."""

from __future__ import annotations

import json
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from functools import partial
from importlib.machinery import ExtensionFileLoader, SourceFileLoader
from typing import Any
from unittest import mock

OWN = ("torch", "fxc", "xdsl", "sympy", "llvmlite")
"""Packages whose imports have a line each."""


class Clock:
    """Seconds by name; what is timed inside of something else counts there no more."""

    def __init__(self) -> None:
        self.seconds, self._stack = defaultdict[str, float](float), [""]
        self._last = time.perf_counter()

    def switch(self) -> None:
        now = time.perf_counter()
        self.seconds[self._stack[-1]] += now - self._last
        self._last = now

    @contextmanager
    def of(self, name: str) -> Generator[None]:
        self.switch()
        self._stack.append(name)
        try:
            yield
        finally:
            self.switch()
            self._stack.pop()

    def timed(self, name: Callable[..., str], run: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any, **kwargs: Any) -> Any:
            with self.of(name(*args)):
                return run(*args, **kwargs)

        return timed


def _labelled(label: str, *_: Any) -> str:
    return label


def importing(loader: Any, module: Any) -> str:
    package = module.__name__.partition(".")[0]
    return f"importing {package if package in OWN else 'others'}"


def stages(request: dict[str, Any], within: Clock) -> dict[str, float]:
    """Seconds, one stage after the other; what happens in them too is timed by ``within``."""
    found, last = {"Python": time.monotonic() - request["begin"]}, time.perf_counter()

    def end(name: str) -> float:
        nonlocal last
        found[name], last = (now := time.perf_counter()) - last, now
        return found[name]

    import torch

    end("import torch")
    from cpu_models import MODELS

    torch.set_num_threads(request["threads"])
    case, load = MODELS[request["model"]], request["load"]
    inputs = case.inputs(1, tiny=request["tiny"])
    model = None if load else case.model(tiny=request["tiny"])
    end("inputs" if load else "model and inputs")
    import fxc

    make: Any = fxc.ExecutionPlan.load if load else fxc.compile
    end("import fxc")
    options = {"target": "host", "freeze": request["frozen"]}
    with torch.no_grad(), ExitStack() as patches:
        if not load:
            from fxc.codegen.cpu import machine_code
            from fxc.measure import program_times

            for place, name, label in ((program_times, "program_times", "trials"), (machine_code, "object_code", "LLVM")):
                timed = within.timed(partial(_labelled, label), getattr(place, name))
                patches.enter_context(mock.patch.object(place, name, timed))
        run = make(load, trust_kernels=True) if load else make(model, inputs, options=options)
        total = end("rest of it")
        own = {name: spent / 1e3 for name, spent in (run if load else run.plan).stats.times.items()}
        found |= own | {"rest of it": total - sum(own.values())}
        run(*inputs)
        end("first call")
        run(*inputs)
        end("second call")
    return found


def main() -> None:
    within = Clock()
    with ExitStack() as patches:
        for loader in (SourceFileLoader, ExtensionFileLoader):
            patches.enter_context(mock.patch.object(loader, "exec_module", within.timed(importing, loader.exec_module)))
        found = stages(json.loads(sys.argv[1]), within)
    within.switch()
    del within.seconds[""]
    print(json.dumps({"stages": found, "within": within.seconds}))


if __name__ == "__main__":
    main()
