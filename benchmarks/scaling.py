"""Compile and simulate a training step of ConvNeXt for 8 to 1,024 ranks, in one process with a fake process group.

    python benchmarks/scaling.py [--world 8,64,1024] [--links links.json] [--full] [--write amd-avx512]

For each number of ranks the step of rank 0 is captured and compiled by ``torch.compile(backend="fxc")``, forward and backward,
and the programs are simulated with the times of ``fxc measure-links``, or rough ones. ``--write`` writes
benchmarks/results/scaling-MACHINE.csv. ``benchmarks/distributed.py --timeline`` compares with measured steps.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
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
from xdsl.ir import Operation

import fxc
from fxc import torch_compile
from fxc.distributed import LAYOUTS
from fxc.measure.program_times import fuse_for_host, operation_times
from fxc.passes.dist.links import ATTRIBUTE, COMPUTE, Link, Timeline, links_attr, read_links, simulate

sys.path.append(str(Path(__file__).resolve().parent.parent / "examples"))
example: Any = import_module("train_convnext")

SCHEDULED = "lower-to-torch,canonicalize,apply-patterns,distributed,convert-torch-to-dist"
"""The passes of the flow that schedule collectives."""


@contextmanager
def recorded() -> Generator[Recorded]:
    """Record the forward and the backward that torch.compile compiles in this context."""
    found, compile, function_of = Recorded(), torch_compile.compile_graph, torch_compile.function_of

    def recording(program: fxc.Program, *args: Any, **options: Any) -> Any:
        found.programs.append(program.copy())
        return compile(program, *args, **options)

    def timing(plan: Any, *, boxed: bool) -> Callable[..., Any]:
        run = function_of(plan, boxed=boxed)

        def timed(inputs: list[Any]) -> Any:
            start = perf_counter()
            try:
                return run(inputs)
            finally:
                found.seconds += perf_counter() - start

        return timed

    try:
        torch_compile.compile_graph, torch_compile.function_of = recording, timing
        yield found
    finally:
        torch_compile.compile_graph, torch_compile.function_of = compile, function_of


@dataclass
class Recorded:
    """``programs`` as captured, and the ``seconds`` that they have run."""

    programs: list[fxc.Program] = field(default_factory=list[fxc.Program])
    seconds: float = 0.0

    def timelines(self, links: Sequence[Link] | None, share: float | None = None) -> list[Timeline]:
        """The programs, simulated with ``links``, or rough ones. With ``share`` computations are measured on this machine, and
        take so many times longer, because ranks share a core."""
        found = list[Timeline]()
        for captured in self.programs:
            program, times = fxc.run_passes(captured, SCHEDULED), dict[Operation, float]()
            if links:
                program.module.attributes[ATTRIBUTE] = links_attr(links)
            if share is not None:
                fuse_for_host(program.context, program.module)
                measured = operation_times(program.context, program.module, program.main)
                times = {op: share * time for op, time in measured.items()}
            found.append(simulate(program.module, program.main, {}, times))
        return found


def measured(layout: str, ranks: int, batch: int, links: str | None, full: bool) -> list[Measurement]:
    """The compile time, and the simulated step, of one number of ranks."""
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=ranks)
    try:
        mesh = init_device_mesh("cpu", (ranks,))
        placed = LAYOUTS[layout](example.build("convnext", full), mesh)
        x, y = (each[:batch] for each in example.make_batch("convnext", 0, "cpu"))
        torch.compiler.reset()
        start, cpu_start = perf_counter(), process_time()

        def loss(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return cross_entropy(placed.model(x), y)

        with recorded() as found:
            torch.compile(loss, backend="fxc", fullgraph=True, dynamic=False)(x, y).backward()
        whole, busy = perf_counter() - start, process_time() - cpu_start
    finally:
        dist.destroy_process_group()
    labels = {"model": "ConvNeXt" if full else "ConvNeXt small", "layout": layout, "ranks": str(ranks)}
    timelines = found.timelines(read_links(links) if links else None)
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
