"""fxc: a readable compiler for PyTorch FX graphs.

``fxc.compile(model, args)`` compiles a model; ``fxc.capture``, ``fxc.run_passes`` and ``fxc.to_fx`` are its steps. Names load
on first use, so importing this package does not import torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from fxc.driver.gc_pause import collections_paused

if TYPE_CHECKING:
    from fxc import distributed, errors, testing
    from fxc.api import capture, compile, import_fx, run_passes, to_fx
    from fxc.execution_plan import ExecutionPlan
    from fxc.options import Options
    from fxc.patterns.register import register_pattern, trace_pattern
    from fxc.patterns.replace import replace_pattern
    from fxc.program.interpreter import Interpreter, Profiler
    from fxc.program.program import Program
    from fxc.runtime.cache import Compiled
    from fxc.runtime.memory_cache import release_memory
    from fxc.transformer import Transformer

_MODULES = ("distributed", "errors", "testing")
_HOMES = {
    "Compiled": "fxc.runtime.cache",
    "ExecutionPlan": "fxc.execution_plan",
    "Interpreter": "fxc.program.interpreter",
    "Options": "fxc.options",
    "Profiler": "fxc.program.interpreter",
    "Program": "fxc.program.program",
    "Transformer": "fxc.transformer",
    "capture": "fxc.api",
    "compile": "fxc.api",
    "import_fx": "fxc.api",
    "register_pattern": "fxc.patterns.register",
    "release_memory": "fxc.runtime.memory_cache",
    "replace_pattern": "fxc.patterns.replace",
    "run_passes": "fxc.api",
    "to_fx": "fxc.api",
    "trace_pattern": "fxc.patterns.register",
}

__all__ = [
    "Compiled",
    "ExecutionPlan",
    "Interpreter",
    "Options",
    "Profiler",
    "Program",
    "Transformer",
    "capture",
    "compile",
    "distributed",
    "errors",
    "import_fx",
    "register_pattern",
    "release_memory",
    "replace_pattern",
    "run_passes",
    "testing",
    "to_fx",
    "trace_pattern",
]


def __getattr__(name: str) -> Any:
    home = f"fxc.{name}" if name in _MODULES else _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'fxc' has no attribute {name!r}")
    with collections_paused():
        module = importlib.import_module(home)
    return module if name in _MODULES else getattr(module, name)


def __dir__() -> list[str]:
    return sorted(__all__)
