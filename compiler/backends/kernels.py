"""Runs kernels of the ``tile`` dialect: by a backend that compiles them for the target, else by the reference interpreter.

A backend is a module with ``launch_runner(op, target)``. It returns a function that takes what the launch takes and gives a
list of its results, new tensors as their types say; or None where it does not compile this kernel for these tensors. Without
a target the interpreter runs: slow, and every access of memory is checked.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import torch

from fxc.dialects.target import PRESETS, CpuAttr, GpuAttr, TargetAttr
from fxc.dialects.tile import LaunchOp
from fxc.errors import PipelineError, nearest
from fxc.runtime.cpu_features import features_named, host_features
from fxc.semantics.tile_interpreter import launch

Runner = Callable[..., list[Any]]

BACKENDS: Mapping[type, str] = MappingProxyType({CpuAttr: "fxc.backends.cpu", GpuAttr: "fxc.backends.triton"})
"""The module that compiles kernels for a kind of target."""


HOST = "host"
"""The name of the machine that this process runs on."""


def target_named(name: str) -> TargetAttr:
    """The machine called ``name``: a preset of ``fxc.dialects.target``, or ``host``. PipelineError where there is none.

    ``host`` is the widest preset of a CPU that this one has the instructions of, so that a plan moves to others like it.
    """
    if name == HOST:
        return _host()
    if name not in PRESETS:
        names = [HOST, *PRESETS]
        raise PipelineError(f"there is no target {name}", hint=nearest(name, names) or f"targets: {', '.join(names)}")
    return PRESETS[name]


def _host() -> CpuAttr:
    has = host_features()
    fitting = [
        target
        for target in PRESETS.values()
        if isinstance(target, CpuAttr) and features_named(target.features.data).names <= has.names
    ]
    widest = max(fitting, key=lambda target: target.vector_bits.value.data)
    return CpuAttr.of(**widest.fields() | {"threads": torch.get_num_threads()})


def launch_runner(op: LaunchOp, target: TargetAttr | None) -> Runner:
    """What runs ``op`` on ``target``: the reference interpreter, where no target is given or no backend compiles it."""
    name = BACKENDS.get(type(target))
    compiles = getattr(importlib.import_module(name), "launch_runner", None) if name is not None else None
    compiled = compiles(op, target) if compiles is not None else None
    return compiled or (lambda *operands: launch(op, operands))


class KernelLaunch(torch.nn.Module):
    """A ``tile.launch`` as a node of a graph: takes its operands, gives a list of new tensors."""

    def __init__(self, op: LaunchOp, target: TargetAttr | None) -> None:
        super().__init__()
        self.run = launch_runner(op, target)

    def __call__(self, *operands: Any) -> list[Any]:
        return self.run(*operands)  # without Module's hooks, which cost more than a small kernel

    forward = __call__
