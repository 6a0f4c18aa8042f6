"""Products with weights of 8 and 4 bits on the CPU: fxc, Inductor, eager, and the product with weights in floats.

    python benchmarks/unpacked.py [--size 4096] [--rows 1,4] [--rounds 9] [--write amd-avx512]

Times of turns of one thread as ratios to eager; the peak is what PyTorch allocates at one time during a call. "fxc free" has a
free number of rows, "fxc frozen" weights that are frozen. ``--write`` writes ``benchmarks/results/unpacked-MACHINE.csv``.
"""

from __future__ import annotations

import statistics
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import click
import torch
import torch.nn.functional as F
from interleaved import by_turns, ratio
from results import Measurement, about, cpu, write
from torch import Tensor

import fxc
from fxc.measure.peak import peak_bytes

Weight = Callable[[Tensor, Tensor], Tensor]


def int8(w: Tensor, scale: Tensor) -> Tensor:
    return w.view(torch.int8).to(scale.dtype) * scale[:, :1]


def columns(w: Tensor, scale: Tensor) -> Tensor:
    """A weight with a column for each output."""
    return (w.view(torch.int8).to(scale.dtype) * scale.flatten()[: w.shape[1]]).T


def _grouped(unpacked: Tensor, scale: Tensor) -> Tensor:
    return ((unpacked.to(scale.dtype) - 8).view(*scale.shape, -1) * scale[:, :, None]).view(unpacked.shape)


def int4(w: Tensor, scale: Tensor) -> Tensor:
    w = w[:, : w.shape[1] // 2]
    return _grouped(torch.stack([w & 15, w >> 4], -1).flatten(1), scale)


def halves(w: Tensor, scale: Tensor) -> Tensor:
    """4 bits, the first half of the columns in the lower ones."""
    w = w[:, : w.shape[1] // 2]
    return _grouped(torch.cat([w & 15, w >> 4], 1), scale)


def float8(w: Tensor, scale: Tensor) -> Tensor:
    return w.view(torch.float8_e4m3fn).to(scale.dtype) * scale[:, :1]


class Linear(torch.nn.Module):
    def __init__(self, weight: Weight, w: Tensor, scale: Tensor) -> None:
        super().__init__()
        self.weight = weight
        self.w, self.scale = (torch.nn.Buffer(value) for value in (w, scale))

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight(self.w, self.scale))


def measured(weight: Weight, x: Tensor, packed: Tensor, scale: Tensor, rounds: int) -> list[Measurement]:
    labels = {"weight": weight.__name__, "dtype": str(x.dtype).removeprefix("torch."), "rows": str(len(x)), "threads": "1"}
    layer, floats = Linear(weight, packed, scale), weight(packed, scale).contiguous()
    free = ({0: torch.export.Dim("rows", max=1 << 20)},) if len(x) > 1 else None
    torch._dynamo.reset()
    functions: dict[str, Callable[..., Any]] = {
        "eager": layer,
        "fxc": fxc.compile(layer, (x,)),
        "fxc free": fxc.compile(layer, (x,), dynamic_shapes=free),
        "fxc frozen": fxc.compile(layer, (x,), options={"freeze": True}),
        "Inductor": torch.compile(layer),
        "floats": partial(F.linear, weight=floats),
    }
    calls = {name: partial(call, x) for name, call in functions.items()}
    with torch.no_grad():
        times = by_turns(calls, rounds, 60.0)
        peaks = {name: peak_bytes(call) / (1 << 20) for name, call in calls.items()}
    click.echo(f"{' '.join(labels.values())} thread")
    for name, found in times.items():
        click.echo(f"  {name} {statistics.median(found) * 1e6:.0f} us, {peaks[name]:.1f} MiB")
    ratios = [(name, spread) for name in times if name != "eager" and (spread := ratio(times, name, "eager")) is not None]
    return [
        *(Measurement.of(labels, "time", name, spread, "eager") for name, spread in ratios),
        *(Measurement(labels, "peak, MiB", name, peak) for name, peak in peaks.items()),
    ]


@click.command(help=__doc__)
@click.option("--size", default=4096)
@click.option("--rows", default="1,4")
@click.option("--rounds", default=9)
@click.option("--write", "machine", metavar="MACHINE")
def main(size: int, rows: str, rounds: int, machine: str | None) -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    packed, found = torch.randint(0, 120, (size, size)).to(torch.uint8), list[Measurement]()
    for dtype in (torch.float32, torch.bfloat16):
        for weight in (int8, columns, int4, halves, float8):
            for count in map(int, rows.split(",")):
                x, scale = torch.randn(count, size, dtype=dtype), torch.rand(size, size // 32, dtype=dtype)
                found += measured(weight, x, packed, scale, rounds)
    if machine:
        click.echo(write(f"unpacked-{machine}", found, about(cpu()[1], notes=f"Matrices of {size} x {size}.")))


if __name__ == "__main__":
    main()
