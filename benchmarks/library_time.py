"""How much of a model's time goes to products, convolutions and attention of PyTorch's libraries.

    python benchmarks/library_time.py [--models ResNet-50,ViT-B] [--batch 1] [--threads 2] [--markdown]

Inference in float32, eager and with frozen weights. What part of a call it is comes from PyTorch's profiler: the time of the
outermost operators that MKL, oneDNN or the attention kernel compute. ``bound`` is what the frozen plan would take of eager's
time if all but these operators took none.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any, cast

import click
import torch
from cpu_implementations import INFERENCE
from cpu_models import MODELS
from interleaved import Spread, by_turns, ratio
from results import table, write_json
from torch.profiler import ProfilerActivity, profile

LIBRARY = re.compile(
    r"(mkl|mkldnn)::|aten::(mm|bmm|addmm|baddbmm|linear|matmul|conv[123]d|convolution|_convolution|mkldnn_\w+"
    r"|scaled_dot_product_attention|_scaled_dot_product_\w+)$"
)
"""Operators whose work is a library's product, convolution or attention."""
HEADING = ("model", "eager, ms", "of that in libraries", "fxc frozen, ms", "of that in libraries", "fxc / eager", "bound")


def library_share(run: Callable[[], Any], calls: int) -> float:
    """The part of calls that goes to operators that ``LIBRARY`` names, without those inside of others, on this thread."""
    with profile(activities=[ProfilerActivity.CPU]) as found:
        start = perf_counter()
        for _ in range(calls):
            run()
        whole = perf_counter() - start
    events = cast("Sequence[Any]", found.events() or ())
    named = [event for event in events if LIBRARY.match(event.name)]
    return sum(event.cpu_time_total for event in named if not _is_inside(event)) * 1e-6 / whole


def _is_inside(event: Any) -> bool:
    around = event.cpu_parent
    while around is not None and not LIBRARY.match(around.name):
        around = around.cpu_parent
    return around is not None


def line(name: str, batch: int, calls: int) -> list[str]:
    """The row of a model."""
    case = MODELS[name]
    model, inputs = case.model(), case.inputs(batch)
    with torch.no_grad():
        runs = {way: partial(INFERENCE[way](model, inputs), *inputs) for way in ("eager", "fxc frozen")}
        times = by_turns(runs, calls, math.inf)
        before, after = (library_share(run, calls) for run in runs.values())
    eager, frozen = (f"{Spread.of(times[way]).median * 1e3:.4g}" for way in runs)
    found = ratio(times, "fxc frozen", "eager")
    assert found is not None
    return [name, eager, f"{before:.0%}", frozen, f"{after:.0%}", f"{found.median:.2f}", f"{after * found.median:.2f}"]


@click.command(help=(__doc__ or "").split("\n")[0])
@click.option("--models", default=",".join(MODELS), show_default=True)
@click.option("--batch", default=1, show_default=True)
@click.option("--threads", default=2, show_default=True)
@click.option("--calls", default=20, show_default=True, help="Rounds of calls that take turns.")
@click.option("--markdown", is_flag=True, help="The table as Markdown.")
@click.option("--json", "path", type=click.Path(path_type=Path), help="Also write the rows here.")
def main(models: str, batch: int, threads: int, calls: int, markdown: bool, path: Path | None) -> None:
    torch.set_num_threads(threads)
    rows = [line(name, batch, calls) for name in models.split(",")]
    write_json(path, {"batch": batch, "threads": threads, "rows": [HEADING, *rows]})
    if markdown:
        click.echo(table(HEADING, rows))
        return
    for row in rows:
        click.echo("; ".join(f"{name} {cell}" for name, cell in zip(HEADING, row, strict=True)))


if __name__ == "__main__":
    main()
