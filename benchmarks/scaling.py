"""Compile and simulate a training step of ConvNeXt for 8 to 1,024 ranks, in one process with a fake process group.

    python benchmarks/scaling.py [--world 8,64,1024] [--links links.json] [--full] [--write amd-avx512]

For each number of ranks the step of rank 0 is captured and compiled by ``torch.compile(backend="fxc")``, forward and backward,
and the programs are simulated with the times of ``fxc measure-links``, or rough ones. ``--write`` writes
benchmarks/results/scaling-MACHINE.csv. With ``--world 2 --batch 4`` it is the step that ``torchrun --nproc-per-node=2
benchmarks/distributed.py`` measures, forward and backward.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import click
import torch
import torch.distributed as dist
from results import Measurement, about, cpu, write
from torch.distributed.device_mesh import init_device_mesh
from torch.nn.functional import cross_entropy
from torch.testing._internal.distributed.fake_pg import FakeStore

import fxc
from fxc import api
from fxc.distributed import LAYOUTS
from fxc.passes.dist.timeline import COMPUTE, simulate

sys.path.append(str(Path(__file__).resolve().parent.parent / "examples"))
example: Any = import_module("train_convnext")

SCHEDULED = "lower-to-torch,canonicalize,apply-patterns,distributed,convert-torch-to-dist"
"""The passes of the flow that schedule collectives."""


def measured(layout: str, ranks: int, batch: int, links: str | None, full: bool) -> list[Measurement]:
    """The compile time, and the simulated step, of one number of ranks."""
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=ranks)
    captured, plan_of = list[fxc.Program](), api._plan_of

    def recorded(program: fxc.Program, *args: Any) -> fxc.ExecutionPlan:
        captured.append(program.copy())
        return plan_of(program, *args)

    try:
        mesh = init_device_mesh("cpu", (ranks,))
        placed = LAYOUTS[layout](example.build("convnext", full), mesh)
        x, y = (each[:batch] for each in example.make_batch("convnext", 0, "cpu"))
        torch.compiler.reset()
        api._plan_of = recorded
        start, cpu_start = perf_counter(), process_time()

        def loss(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return cross_entropy(placed.model(x), y)

        torch.compile(loss, backend="fxc", fullgraph=True, dynamic=False)(x, y).backward()
        whole, busy = perf_counter() - start, process_time() - cpu_start
    finally:
        api._plan_of = plan_of
        dist.destroy_process_group()
    labels = {"model": "ConvNeXt" if full else "ConvNeXt small", "layout": layout, "ranks": str(ranks)}
    programs = [fxc.run_passes(program, SCHEDULED + (f",set-links{{file={links}}}" if links else "")) for program in captured]
    timelines = [simulate(program.module, program.main, {}) for program in programs]
    quantities = {
        "compile time, s": whole,
        "compile time, CPU s": busy,
        "simulated step, ms": sum(each.time for each in timelines) / 1e3,
        "simulated compute, ms": sum(each.busy(COMPUTE) for each in timelines) / 1e3,
        "messages": sum(each.messages() for each in timelines),
    }
    return [Measurement(labels, name, "fxc", value) for name, value in quantities.items()]


@click.command()
@click.option("--layouts", default="data-parallel,fully-sharded", show_default=True)
@click.option("--world", default="8,16,32,64,128,256,512,1024", show_default=True)
@click.option("--batch", default=1, type=click.IntRange(1, 8), show_default=True, help="samples of a rank")
@click.option("--links", type=click.Path(exists=True), help="what fxc measure-links wrote")
@click.option("--full", is_flag=True, help="depths 3, 3, 27, 3 and widths 256 to 2048")
@click.option("--write", "machine", metavar="MACHINE", help="Write benchmarks/results/scaling-MACHINE.csv.")
def main(layouts: str, world: str, batch: int, links: str | None, full: bool, machine: str | None) -> None:
    torch.set_num_threads(1)
    found = list[Measurement]()
    for layout in layouts.split(","):
        for ranks in world.split(","):
            found += measured(layout, int(ranks), batch, links, full)
            click.echo(", ".join([layout, ranks, *(f"{each.quantity} {each.value:.2f}" for each in found[-5:])]))
    if machine:
        times = "measured" if links else "rough"
        notes = f"One process, {batch} samples a rank, {times} links. Forward and backward, without the optimizer."
        click.echo(write(f"scaling-{machine}", found, about(cpu()[1], notes=notes)))


if __name__ == "__main__":
    main()
