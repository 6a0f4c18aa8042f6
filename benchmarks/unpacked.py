"""Products with weights of 8 and 4 bits on the CPU: fxc, Inductor, eager, and the product with weights in floats.

    python benchmarks/unpacked.py [--size 4096] [--rows 1,4] [--rounds 9]

Medians of turns of one thread, in microseconds; the peak is what PyTorch allocates at one time during a call, in MiB.
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
from interleaved import by_turns
from torch import Tensor

import fxc
from fxc.measure.peak import peak_bytes


def int8(w: Tensor, scale: Tensor) -> Tensor:
    return w.view(torch.int8).to(scale.dtype) * scale[:, :1]


def int4(w: Tensor, scale: Tensor) -> Tensor:
    w = w[:, : w.shape[1] // 2]
    unpacked = torch.stack([w & 15, w >> 4], -1).flatten(1).to(scale.dtype) - 8
    return (unpacked.view(*scale.shape, -1) * scale[:, :, None]).view(unpacked.shape)


def float8(w: Tensor, scale: Tensor) -> Tensor:
    return w.view(torch.float8_e4m3fn).to(scale.dtype) * scale[:, :1]


@click.command(help=__doc__)
@click.option("--size", default=4096)
@click.option("--rows", default="1,4")
@click.option("--rounds", default=9)
def main(size: int, rows: str, rounds: int) -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    packed = torch.randint(0, 120, (size, size)).to(torch.uint8)
    for dtype in (torch.float32, torch.bfloat16):
        for weight in (int8, int4, float8):
            for count in map(int, rows.split(",")):
                x, scale = torch.randn(count, size, dtype=dtype), torch.rand(size, size // 32, dtype=dtype)
                floats, given = weight(packed, scale), (x, packed, scale)

                def linear(x: Tensor, w: Tensor, scale: Tensor, weight: Callable[[Tensor, Tensor], Tensor] = weight) -> Tensor:
                    return F.linear(x, weight(w, scale))

                torch._dynamo.reset()
                functions: dict[str, Callable[..., Any]] = {
                    "fxc": fxc.compile(linear, given),
                    "Inductor": torch.compile(linear),
                    "eager": linear,
                }
                calls = {name: partial(call, *given) for name, call in functions.items()} | {
                    "floats": partial(F.linear, x, floats)
                }
                with torch.no_grad():
                    times = {name: statistics.median(found) for name, found in by_turns(calls, rounds, 60.0).items()}
                    peaks = {name: peak_bytes(call) / (1 << 20) for name, call in calls.items()}
                found = [
                    f"{name} {time * 1e6:.0f} us, fxc / it {times['fxc'] / time:.2f}, {peaks[name]:.1f} MiB"
                    for name, time in times.items()
                ]
                click.echo(f"{weight.__name__} {dtype} {count} rows: {'; '.join(found)}")


if __name__ == "__main__":
    main()
