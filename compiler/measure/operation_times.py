"""Measure the operations of a program one by one on this machine, for the simulated timeline."""

from __future__ import annotations

from collections.abc import Hashable
from math import isfinite

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from fxc.codegen.contract import target_named
from fxc.dialects.attributes.types import is_tensor
from fxc.dialects.base.effects import inner_operations
from fxc.dialects.context import FxcContext
from fxc.dialects.dist import CollectiveOp, WaitOp
from fxc.dialects.target import HOST, set_target
from fxc.driver.runner import run_pipeline
from fxc.measure.program_times import program_times
from fxc.passes.analysis.structural_key import Structures
from fxc.passes.operators.costs import Costs
from fxc.passes.rewriting.outlining import outlined, with_entry
from fxc.pipelines import parse_pipeline

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
