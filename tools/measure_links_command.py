"""``fxc measure-links``: measure how long collectives take between the processes of a run, or local ones."""

from __future__ import annotations

import json
from typing import Any

import click

from fxc.errors import InputError
from fxc.tools.command_line import check_writable, progress, write_output

HELP = """Measure collectives, for set-links and fxc timeline.

Started by torchrun, the ranks of the run are measured, by NCCL where there are GPUs, else by gloo. Otherwise --ranks processes
are started on this machine, each with one thread. A time is a latency and a rate, fitted to messages of two sizes.

\b
Examples:
  fxc measure-links --ranks 2,4 -o links.json
  torchrun --nproc-per-node=8 --no-python fxc measure-links -o links.json
"""


@click.command("measure-links", help=HELP)
@click.option("--ranks", default="2", show_default=True, metavar="LIST", help="Numbers of local processes, from 2.")
@click.option("--axis", default="", metavar="NAME", help="The axis of meshes whose links these are; by default any.")
@click.option("-o", "output", metavar="FILE", type=click.Path(dir_okay=False), help="Write to a file, not to stdout.")
def measure_links_command(ranks: str, axis: str, output: str | None) -> None:
    counts = [int(text) if text.strip().isdigit() else 0 for text in ranks.split(",")]
    if min(counts) < 2:
        raise InputError(f"--ranks={ranks}: a link is between 2 ranks or more", hint="--ranks=2,4")
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
