"""``fxc timeline`` and ``fxc measure-links``: simulate the time of a distributed program, and measure collectives."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import click

from fxc.errors import InputError
from fxc.tools.command_line import check_writable, progress, read_text, say, write_output

HELP = """Simulate the time of a rank of a distributed program. Nothing runs.

FILE is IR with dist.mesh and dist.group, before or after the pipeline "distributed". Computations run on one stream,
collectives on another. For other numbers of ranks a rank computes, reduces and gathers tensors of the same sizes.
--measure fuses the program for this machine and times each kernel and call alone, with one thread, instead of estimates.

\b
Columns:
  exposed     time in which no computation runs
  in flight   the most bytes of results of collectives that were started and not awaited

\b
Examples:
  fxc timeline step.mlir --links links.json
  fxc-opt step.mlir -p distributed | fxc timeline - --world 8,64,1024 --links links.json -o scaling.svg
  fxc timeline step.mlir --events --measure
"""


@click.command("timeline", help=HELP)
@click.argument("file", type=click.Path(allow_dash=True))
@click.option("--world", metavar="LIST", help="Numbers of ranks; by default that of the mesh.")
@click.option("--axis", metavar="NAME", help="The axis of the mesh that has more ranks then; by default the first.")
@click.option(
    "--links", metavar="FILE", help="Times that fxc measure-links wrote; by default dist.links of the text, or rough ones."
)
@click.option("--measure", is_flag=True, help="Measure computations on this machine.")
@click.option("--events", is_flag=True, help="Print start and end of each computation and collective.")
@click.option("-o", "output", metavar="FILE.svg", type=click.Path(dir_okay=False), help="Draw the times. Needs matplotlib.")
def timeline_command(
    file: str, world: str | None, axis: str | None, links: str | None, measure: bool, events: bool, output: str | None
) -> None:
    from fxc.tools.timeline import draw, simulated, table

    text = read_text(file)
    check_writable(output)
    with progress("measuring") if measure else nullcontext():
        found = simulated(text, "<stdin>" if file == "-" else file, world, axis, links, measure=measure)
    write_output(None, table(found, events=events))
    if output is not None:
        draw(found, Path(output))
        say(f"wrote {output}")


LINKS_HELP = """Measure collectives, for set-links and fxc timeline.

Started by torchrun, the ranks of the run are measured, by NCCL where there are GPUs, else by gloo. Otherwise --ranks processes
are started on this machine, each with one thread. A time is a latency and a rate, fitted to messages of two sizes.

\b
Examples:
  fxc measure-links --ranks 2,4 -o links.json
  torchrun --nproc-per-node=8 --no-python fxc measure-links -o links.json
"""


@click.command("measure-links", help=LINKS_HELP)
@click.option("--ranks", default="2", show_default=True, metavar="LIST", help="Numbers of local processes, from 2.")
@click.option("--axis", default="", metavar="NAME", help="The axis of meshes whose links these are; by default any.")
@click.option("-o", "output", metavar="FILE", type=click.Path(dir_okay=False), help="Write to a file, not to stdout.")
def measure_links_command(ranks: str, axis: str, output: str | None) -> None:
    counts = [int(text) if text.strip().isdigit() else 0 for text in ranks.split(",")]
    if not 2 <= min(counts) <= max(counts) <= 1024:
        raise InputError(f"--ranks={ranks}: a link joins 2 to 1024 ranks", hint="--ranks=2,4")
    with progress("loading PyTorch"):
        from fxc.measure.links import is_in_a_run, measure_local, measure_run

    if is_in_a_run():
        links = measure_run(axis)
    else:
        check_writable(output)
        links = list[Any]()
        for count in counts:
            with progress(f"measuring {count} processes"):
                links += measure_local(count, axis)
    if links is not None:
        lines = ",\n".join(f"  {json.dumps(link._asdict())}" for link in links)
        write_output(output, f'{{"links": [\n{lines}\n]}}\n')
