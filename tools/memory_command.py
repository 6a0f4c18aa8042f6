"""``fxc memory``: the peak memory of a training step, measured and simulated."""

from __future__ import annotations

from pathlib import Path

import click

from fxc.tools.capture_commands import SOURCE_HELP
from fxc.tools.command_line import check_writable, progress, say, write_output
from fxc.tools.sources import check_source

HELP = f"""Show the peak memory of a training step of a model.

Runs forward and backward in eager mode and by torch.compile(backend="fxc"), for each budget of memory, and prints what PyTorch
allocates at one time on the device beside parameters and inputs. "simulated" is the same from the sizes in the IR: for eager
mode of the captured graph in its order, for fxc of the planned program.
{SOURCE_HELP}
\b
Examples:
  fxc memory examples/models/gpt2.py:small
  fxc memory examples/models/gpt2.py:small --budgets 1.0,0.5,0.2,64MiB -o memory.svg
"""


@click.command("memory", help=HELP)
@click.argument("source")
@click.option(
    "--budgets",
    default="1.0",
    show_default=True,
    metavar="LIST",
    help="Values of the option memory_budget: fractions from 0 to 1, or bytes, as 64MiB.",
)
@click.option(
    "--device", type=click.Choice(["cpu", "cuda"]), default="cpu", show_default=True, help="Move model and inputs to it first."
)
@click.option("-o", "output", metavar="FILE.svg", type=click.Path(dir_okay=False), help="Draw the peaks. Needs matplotlib.")
def memory_command(source: str, budgets: str, device: str, output: str | None) -> None:
    check_source(source)
    check_writable(output)
    with progress("loading PyTorch"):
        from fxc.tools.memory import draw, measure, table

    peaks = measure(source, [budget.strip() for budget in budgets.split(",")], device)
    write_output(None, table(peaks))
    if output is not None:
        draw(peaks, source, Path(output))
        say(f"wrote {output}")
