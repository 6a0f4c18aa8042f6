"""Training steps on several ranks: torch.compile with fxc, Inductor and aot_eager, DDP and FSDP2, against eager DTensor.

    torchrun --nproc-per-node=4 benchmarks/distributed.py [--layouts spatial] [--rounds 15] [--full] [--write intel-avx512]
    torchrun --nproc-per-node=4 benchmarks/distributed.py --compare [--write intel-avx512]
    torchrun --nproc-per-node=2 benchmarks/distributed.py --timeline [--write intel-avx512]

Steps (forward, backward, AdamW of the ConvNeXt of examples/train_convnext.py) run in turns in one process group; times are
those of rank 0, also without AdamW. Collectives are counted by PyTorch's recorder. ``--compare`` trains 20 steps in every
layout, GPT-2 in tensor-parallel, and prints how far losses and gradients of fxc are from those of eager mode. ``--timeline``
compares the time in compiled programs, forward and backward, with what ``fxc timeline --measure`` simulates for links that are
measured in the same run; computations take longer where there are more ranks than cores. ``--write`` replaces the lines of
this number of ranks in distributed-MACHINE.csv, distributed-equal-MACHINE.csv, or distributed-timeline-MACHINE.csv of
benchmarks/results.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from time import perf_counter
from typing import Any, cast

import click
import torch
import torch.distributed as dist
from interleaved import Spread, order
from results import FAILED, Measurement, about, cpu, read, write
from scaling import recorded
from torch._C import _distributed_c10d as c10d
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

from fxc.distributed import LAYOUTS, process_group
from fxc.measure.links import measure
from fxc.passes.dist.links import COMPUTE

sys.path.append(str(Path(__file__).resolve().parent.parent / "examples"))
example: Any = import_module("train_convnext")

COMPILERS = {"fxc": "fxc", "Inductor": "inductor", "aot_eager": "aot_eager"}
Step = Callable[[bool], object]
"""Runs forward and backward, and the optimizer if the argument says so."""


def wrapped(kind: str, full: bool, mesh: DeviceMesh) -> torch.nn.Module:
    """The model by DDP or FSDP2."""
    model = example.build("convnext", full).to(mesh.device_type)
    if kind == "DDP":
        return DistributedDataParallel(model)
    for block in model.layers:
        fully_shard(block, mesh=mesh)
    return cast(torch.nn.Module, fully_shard(model, mesh=mesh))


def steps(layout: str, full: bool, mesh: DeviceMesh, only: str | None = None) -> dict[str, Step]:
    """The implementations of a layout, or the ``only`` one. Each has a copy of the model."""
    found = dict[str, Step]()
    names = ["eager", *COMPILERS, *{"data-parallel": ["DDP"], "fully-sharded": ["FSDP2"]}.get(layout, [])]
    for name in names if only is None else [only]:
        placed = LAYOUTS[layout](example.build("convnext", full).to(mesh.device_type), mesh)
        batch = placed.place(*example.make_batch("convnext", 0, mesh.device_type))
        model = placed.model if name in ("eager", *COMPILERS) else wrapped(name, full, mesh)
        found[name] = step_of(model, batch, COMPILERS.get(name))
    return found


def step_of(model: torch.nn.Module, batch: tuple[torch.Tensor, torch.Tensor], backend: str | None) -> Step:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def loss(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return cross_entropy(model(x), y)

    call = torch.compile(loss, backend=backend, fullgraph=True, dynamic=False) if backend else loss

    def step(update: bool) -> None:
        optimizer.zero_grad()
        call(*batch).backward()
        if update:
            optimizer.step()

    return step


def collectives() -> int:
    """How many this process has called."""
    entries = json.loads(cast(Any, c10d)._dump_fr_trace_json()).get("entries") or [{"collective_seq_id": 0}]
    return entries[-1]["collective_seq_id"]


def measured(labels: Mapping[str, str], calls: dict[str, Step], rounds: int) -> list[Measurement]:
    found, times = list[Measurement](), {update: dict[str, list[float]]() for update in (True, False)}
    for name, step in calls.items():
        note, before, after = "", 0, 0
        try:
            step(True)  # compiles
            before = collectives()
            step(True)
            after = collectives()
        except Exception as error:
            note = f"{type(error).__name__}: {str(error).splitlines()[0]}"
        notes = [""] * dist.get_world_size()
        dist.all_gather_object(notes, note)
        if any(notes):
            found.append(Measurement(labels, FAILED, name, note=next(filter(None, notes))))
            continue
        found.append(Measurement(labels, "collectives", name, after - before))
        for update in times:
            times[update][name] = []
    for index in range(rounds):
        for name in order(list(times[True]), index):
            for update, of_them in times.items():
                dist.barrier()
                start = perf_counter()
                calls[name](update)
                of_them[name].append(perf_counter() - start)
    for quantity, ratio, of_them in (
        ("step, ms", "time", times[True]),
        ("forward and backward, ms", "time of forward and backward", times[False]),
    ):
        for name, of_it in of_them.items():
            found.append(Measurement.of(labels, quantity, name, Spread.of([1e3 * seconds for seconds in of_it])))
            if name != "eager" and "eager" in of_them:
                spread = Spread.of([mine / eager for mine, eager in zip(of_it, of_them["eager"], strict=True)])
                found.append(Measurement.of(labels, ratio, name, spread, "eager"))
    return found


def compared(layout: str, mesh: DeviceMesh, labels: Mapping[str, str], steps: int = 20) -> list[Measurement]:
    """The largest relative differences between fxc and eager mode over ``steps``."""
    name = "gpt2" if layout == "tensor-parallel" else "convnext"
    distribute = example.split_gpt2 if name == "gpt2" else LAYOUTS[layout]
    runs, losses, gradients = list[Any](), 0.0, 0.0
    for compiled in (False, True):
        placed = distribute(example.build(name, False).to(mesh.device_type), mesh)
        runs.append(example.Run(placed.model, placed, compiled))
    for index in range(steps):
        eager, fxc = (run.step(*example.make_batch(name, index, mesh.device_type)) for run in runs)
        losses = max(losses, abs(fxc / eager - 1))
        for pair in cast(Any, zip(*(run.model.parameters() for run in runs), strict=True)):
            a, b = (cast(Any, each.grad.full_tensor() if isinstance(each.grad, DTensor) else each.grad) for each in pair)
            gradients = max(gradients, float((a - b).norm() / a.norm().clamp(min=1e-6)))
    differences = {"difference of losses": losses, "difference of gradients": gradients}
    return [Measurement(labels, quantity, "fxc", value, baseline="eager") for quantity, value in differences.items()]


def simulated(layout: str, full: bool, mesh: DeviceMesh, labels: Mapping[str, str], rounds: int) -> list[Measurement]:
    """The time of forward and backward: of the programs, with what PyTorch does around them, and simulated."""
    [step], inside, whole = steps(layout, full, mesh, "fxc").values(), list[float](), list[float]()
    with recorded() as found:
        step(False)  # compiles
    for _ in range(rounds):
        dist.barrier()
        found.seconds, start = 0.0, perf_counter()
        step(False)
        whole.append(1e3 * (perf_counter() - start))
        inside.append(1e3 * found.seconds)
    links = measure(torch.device(mesh.device_type), "")
    dist.barrier()
    timelines = found.timelines(links, max(1.0, mesh.size() / (os.cpu_count() or 1)))
    time, compute = (sum(each) / 1e3 for each in zip(*((one.time, one.busy(COMPUTE)) for one in timelines), strict=True))
    return [
        Measurement.of(labels, "forward and backward, ms", "fxc", Spread.of(whole)),
        Measurement.of(labels, "programs, ms", "fxc", Spread.of(inside)),
        Measurement(labels, "simulated programs, ms", "fxc", time),
        Measurement(labels, "simulated compute, ms", "fxc", compute),
        Measurement(labels, "simulated programs", "fxc", time / Spread.of(inside).median, baseline="measured programs"),
    ]


@click.command()
@click.option("--layouts", default="data-parallel,fully-sharded,spatial", show_default=True)
@click.option("--rounds", default=15, type=click.IntRange(1), show_default=True)
@click.option("--full", is_flag=True, help="depths 3, 3, 27, 3 and widths 256 to 2048")
@click.option("--compare", is_flag=True, help="losses and gradients of 20 steps in all layouts, instead of times")
@click.option("--timeline", is_flag=True, help="the measured time of programs beside the simulated one")
@click.option("--write", "machine", metavar="MACHINE", help="Write benchmarks/results/distributed-MACHINE.csv.")
def main(layouts: str, rounds: int, full: bool, compare: bool, timeline: bool, machine: str | None) -> None:
    torch.set_num_threads(1)
    layouts = ",".join([*LAYOUTS, "tensor-parallel"]) if compare else layouts
    with process_group() as mesh:
        ranks, found = str(mesh.size()), list[Measurement]()
        for layout in layouts.split(","):
            torch.compiler.reset()
            model = "GPT-2 small" if layout == "tensor-parallel" else "ConvNeXt" if full else "ConvNeXt small"
            labels = {"model": model, "layout": layout, "ranks": ranks}
            if compare:
                found += compared(layout, mesh, labels)
            elif timeline:
                found += simulated(layout, full, mesh, labels, rounds)
            else:
                found += measured(labels, steps(layout, full, mesh), rounds)
        if dist.get_rank():
            return
    for each in found:
        value = each.note if each.value is None else f"{each.value:10.3g}"
        click.echo(f"{each.labels['layout']:14} {each.quantity:24} {each.implementation:10} {value}")
    if machine:
        name = f"distributed-{'equal-' if compare else 'timeline-' if timeline else ''}{machine}"
        others = [each for each in read(name) if each.labels["ranks"] != ranks]
        notes = f"{os.cpu_count()} cores for all ranks, a thread each."
        click.echo(write(name, [*others, *found], about(cpu()[1], notes=notes)))


if __name__ == "__main__":
    main()
