"""Selects the code that runs a kernel of the ``tile`` dialect: a backend for the target, or the reference interpreter.

A backend is a module with ``launch_runner(op, target)``. It returns a function that takes the operands of the launch and
returns a list of new tensors of the result types. It returns None if it cannot compile this kernel for these tensors.
Without a target, the interpreter runs the kernel: it is slow and checks every memory access.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from itertools import chain
from types import MappingProxyType
from typing import Any

import torch
from xdsl.dialects.builtin import ModuleOp

from fxc.codegen.triton.device import device_target
from fxc.dialects import plan
from fxc.dialects.attributes.types import device, is_tensor
from fxc.dialects.fusion import GroupOp
from fxc.dialects.target import GPU, HOST, INTERPRETER, PRESETS, CpuAttr, GpuAttr, TargetAttr, presets, target_names, target_of
from fxc.dialects.text.diagnostics import one_line, place_of
from fxc.dialects.tile import LaunchOp
from fxc.dialects.torch_ops import TorchOp
from fxc.errors import KernelError, PipelineError, nearest
from fxc.interpret.tile_level import launch, launch_into
from fxc.runtime.host_cpu import features_named, host_features
from fxc.runtime.native_kernel import TensorKernel

Runner = Callable[..., list[Any]]

BACKENDS: Mapping[type, str] = MappingProxyType({CpuAttr: "fxc.codegen.cpu", GpuAttr: "fxc.codegen.triton"})
"""The backend module for each kind of target."""


def target_named(name: str) -> TargetAttr:
    """The target called ``name``: a preset of ``fxc.dialects.target``, ``host`` or ``cuda``. PipelineError for other names.

    ``cuda`` is the GPU of this machine. ``host`` is the widest CPU preset whose instructions this CPU supports, so that a
    plan also runs on similar CPUs.
    """
    if name == HOST:
        has = host_features()
        fitting = [each for each in presets(CpuAttr).values() if features_named(each.features.data).names <= has.names]
        widest = max(fitting, key=lambda target: target.vector_bits.value.data)
        return CpuAttr.of(**widest.fields() | {"threads": torch.get_num_threads()})
    if name == GPU:
        return device_target()
    if name not in PRESETS:
        hint = nearest(name, [HOST, GPU, *PRESETS]) or f"targets: {target_names()}"
        raise PipelineError(f"there is no target {name}", hint=hint)
    return PRESETS[name]


def machine_of(module: ModuleOp) -> str | None:
    """``host`` if all tensors of a captured graph are on the CPU, else None: GPU kernels are generated only on request."""
    blocks = [block for op in module.walk() for region in op.regions for block in region.blocks]
    values = chain.from_iterable((*block.args, *(result for op in block.ops for result in op.results)) for block in blocks)
    return HOST if {device(value.type) for value in values if is_tensor(value.type)} <= {"cpu"} else None


def is_interpreted(target: TargetAttr | None) -> bool:
    """Whether the target is the reference interpreter."""
    return isinstance(target, CpuAttr) and target.cpu.data == INTERPRETER


def require_kernels(module: ModuleOp) -> None:
    """KernelError for the first fusion group without a kernel, or the first kernel that the target's backend cannot compile."""
    target = target_of(module)
    for op in module.walk():
        if isinstance(op, GroupOp):
            inside = [inner for inner in op.walk() if isinstance(inner, TorchOp)]
            raise KernelError(
                f"operators that were fused have no kernel: {', '.join(inner.operator for inner in inside)}",
                place=place_of(inside[0] if inside else op),
                hint="fxc compile --remarks says why; without strict they run as operators",
            )
        if isinstance(op, (LaunchOp, plan.LaunchOp)) and not is_interpreted(target) and _compiled(op, target) is None:
            raise KernelError(
                f"only the reference interpreter runs this kernel: it is not compiled for {target}",
                op=one_line(op),
                place=place_of(op),
                hint="name another target, or leave strict off",
            )


def launch_runner(op: LaunchOp, target: TargetAttr | None) -> Runner:
    """The function that runs ``op`` on ``target``.

    It is the reference interpreter if that is the target, if there is no target, or if no backend compiles the kernel.
    """
    return _compiled(op, target) or (lambda *operands: launch(op, operands))


def launch_writer(op: plan.LaunchOp, target: TargetAttr | None) -> Callable[..., None]:
    """Like ``launch_runner``, but the function takes the operands and then the tensors to write, and checks all of them."""
    compiled, count = _compiled(op, target), len(op.inputs)
    if isinstance(compiled, TensorKernel):
        return compiled.write
    return lambda *values: launch_into(op, values[:count], values[count:])


def _compiled(op: LaunchOp | plan.LaunchOp, target: TargetAttr | None) -> Runner | None:
    name = None if is_interpreted(target) else BACKENDS.get(type(target))
    compiles = getattr(importlib.import_module(name), "launch_runner", None) if name is not None else None
    return compiles(op, target) if compiles is not None else None


class KernelLaunch(torch.nn.Module):
    """A launch as a graph node. A ``tile.launch`` takes its operands and returns a list of new tensors; a ``plan.launch`` takes
    the operands and the tensors to write."""

    is_kernel = True

    def __init__(self, op: LaunchOp | plan.LaunchOp, target: TargetAttr | None) -> None:
        super().__init__()
        self.run = launch_writer(op, target) if isinstance(op, plan.LaunchOp) else launch_runner(op, target)
        self._is_impure = isinstance(op, plan.LaunchOp)  # otherwise passes over FX graphs remove calls without uses

    def __call__(self, *operands: Any) -> list[Any] | None:
        return self.run(*operands)  # bypasses Module's hooks, which cost more than a small kernel

    forward = __call__
