"""What each pass of a flow is for: the flow without it, over the models of the zoo.

    python benchmarks/ablation.py [--flow inference] [--models gpt2,vit] [--calls 30]

A row is one place of a pass in the flow. Kernels, calls of the library, bytes that both read and write, and bytes of the arena
are sums over the models, as differences from the whole flow; ``time`` is the geometric mean of the models' ratios of the
fastest call, ``compile`` the ratio of CPU time of capture and passes; ``fail`` is how many models fail without the pass. A pass
whose row is empty does nothing here.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Operation

import fxc
from fxc.dialects import plan
from fxc.dialects.base.effects import is_view
from fxc.dialects.tile import LaunchOp
from fxc.dialects.torch_ops import HigherOrderOp, TorchOp
from fxc.dialects.torch_ops.constant import ConstantOp
from fxc.driver.pass_options import spec_of
from fxc.driver.pipeline import Anchored, Flow, NamedSteps, Step, pipeline_text
from fxc.errors import FxcError
from fxc.pipelines import INFERENCE, TRAINING, parse_pipeline

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from kernel_counts import bytes_of

from tests.models.zoo import ZOO, load

FLOWS: dict[str, Flow] = {"inference": INFERENCE, "frozen": INFERENCE, "training": TRAINING}


@dataclass(frozen=True)
class Cost:
    """Of one model: counts, bytes, and seconds."""

    kernels: int
    calls: int
    bytes: int
    arena: int
    time: float
    compile: float


def cost_of(model: torch.nn.Module, inputs: tuple[Any, ...], flow: str, pipeline: str, calls: int) -> Cost:
    options = {"pipeline": pipeline, "target": "host", "cache_plans": False, "fallback": False, "freeze": flow == "frozen"}
    start = time.process_time()
    compiled = fxc.compile(model, inputs, training=flow == "training", options=options)
    seconds = time.process_time() - start
    fastest = math.inf
    for _ in range(calls):
        start = time.perf_counter()
        compiled(*inputs)
        fastest = min(fastest, time.perf_counter() - start)
    return replace(counted(compiled.ir.module), time=fastest, compile=seconds)


def counted(module: ModuleOp) -> Cost:
    found = list(module.walk())
    launches = [op for op in found if isinstance(op, (LaunchOp, plan.LaunchOp))]
    calls = [op for op in found if is_call(op)]
    traffic = sum(bytes_of(value) for op in (*launches, *calls) for value in dict.fromkeys((*op.operands, *op.results)))
    arenas = sum(type.bytes.data for op in found for type in op.result_types if isinstance(type, plan.ArenaType))
    return Cost(len(launches), len(calls), traffic, arenas, 0.0, 0.0)


def is_call(op: Operation) -> bool:
    made = isinstance(op, (TorchOp, HigherOrderOp)) and not isinstance(op, ConstantOp) and not is_view(op)
    return made and any(isinstance(result.type, TensorType) for result in op.results)


def leaves(steps: Sequence[Step]) -> Iterator[str]:
    """The passes of ``steps`` in order."""
    for step in steps:
        if isinstance(step, (Anchored, NamedSteps)):
            yield from leaves(step.steps)
        else:
            yield str(spec_of(step))


def without(steps: Sequence[Step], place: int) -> tuple[Step, ...]:
    """``steps`` without the pass at ``place`` in order."""
    found = list[Step]()
    for step in steps:
        count = len(list(leaves((step,))))
        if isinstance(step, (Anchored, NamedSteps)):
            found.append(replace(step, steps=without(step.steps, place)))
        elif place != 0:
            found.append(step)
        place -= count
    return tuple(found)


def row(name: str, whole: Sequence[Cost], costs: Sequence[Cost | None]) -> str:
    pairs = [(before, after) for before, after in zip(whole, costs, strict=True) if after is not None]
    sums = [sum(after) - sum(before) for before, after in zip(*(zip(*map(astuple, each)) for each in zip(*pairs)))][:4]
    ratios = [math.log(after.time / before.time) for before, after in pairs]
    failed = len(whole) - len(pairs)
    if not pairs:
        return f"| {name} | | | | | | | {failed} |"
    speed = math.exp(sum(ratios) / len(ratios))
    compiling = sum(after.compile for _, after in pairs) / sum(before.compile for before, _ in pairs)
    cells = [*(f"{number:+,}" if number else "" for number in sums), f"{speed:.2f}", f"{compiling:.2f}", str(failed or "")]
    return f"| {name} | {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--flow", choices=list(FLOWS), default="inference")
    parser.add_argument("--models", default=",".join(sorted(ZOO)), help="names of the zoo")
    parser.add_argument("--calls", type=int, default=30, help="calls of which the fastest counts")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    steps = parse_pipeline(FLOWS[options.flow].text(kernels=True, freeze=options.flow == "frozen", streams=1))
    models = [load(name) for name in options.models.split(",")]
    for model, _ in models:
        model.train(options.flow == "training")

    def costs(pipeline: str) -> Iterator[Cost | None]:
        for model, inputs in models:
            try:
                yield cost_of(model, inputs, options.flow, pipeline, options.calls)
            except FxcError:
                yield None

    list(costs(pipeline_text(steps)))  # what is imported, and compiled by others, at the first time
    whole = [cost for cost in costs(pipeline_text(steps)) if cost is not None]
    names = list(leaves(steps))
    kernels, calls = sum(cost.kernels for cost in whole), sum(cost.calls for cost in whole)
    print(f"{len(names)} passes, {len(models)} models: {kernels} kernels, {calls} calls\n")
    print("| without | kernels | calls | bytes | arena | time | compile | fail |\n|---|---|---|---|---|---|---|---|")
    for place, name in enumerate(names):
        print(row(f"{place} {name}", whole, list(costs(pipeline_text(without(steps, place))))), flush=True)


if __name__ == "__main__":
    main()
