"""Attention with changed scores on the CPU: fxc's kernel, fxc without it, Inductor and eager, with times and peak memory.

    python benchmarks/attention.py [--shapes 1x8x1024x64,2x4x4096x64] [--rounds 9]

``flex_attention`` with ``score + (i - j) * slope``, and with a causal mask and a soft cap. Times are medians of turns, in
milliseconds; the peak is what PyTorch allocates at one time during a call, in MiB.
"""

from __future__ import annotations

import statistics
import warnings
from collections.abc import Callable, Mapping
from typing import Any
from unittest.mock import patch

import click
import torch
from interleaved import by_turns
from torch import Tensor
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

import fxc
from fxc.measure.peak import peak_bytes

KERNELS = "fxc.passes.kernels.tile_attention.tile_attention.attention_of"


def distances(q: Tensor, k: Tensor, v: Tensor) -> Any:
    return flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: s + (i - j) * 0.1)


def causal_cap(q: Tensor, k: Tensor, v: Tensor) -> Any:
    mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, q.shape[-2], k.shape[-2], device="cpu")
    return flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: 5 * torch.tanh(s / 5), block_mask=mask)


FUNCTIONS: Mapping[str, Callable[..., Any]] = {"distances": distances, "causal, soft cap": causal_cap}


def _none(op: object) -> None:
    """In the place of ``attention_of``: no attention is found."""


def calls_of(function: Callable[..., Any], inputs: tuple[Tensor, ...]) -> dict[str, Callable[[], Any]]:
    """The implementations, compiled."""
    compiled: dict[str, Callable[..., Any]] = {"fxc": fxc.compile(function, inputs, options={"cache_plans": False})}
    with patch(KERNELS, _none):
        compiled["fxc, written out"] = fxc.compile(function, inputs, options={"cache_plans": False})
    torch._dynamo.reset()
    compiled |= {"Inductor": torch.compile(function), "eager": function}
    return {name: lambda call=call: call(*inputs) for name, call in compiled.items()}


def peak(call: Callable[[], Any]) -> float:
    """MiB at one time during ``call``, also of memory that the process cached before."""
    fxc.release_memory()
    return peak_bytes(call) / (1 << 20)


@click.command(help=__doc__)
@click.option("--shapes", default="1x8x1024x64,2x4x4096x64")
@click.option("--rounds", default=9)
def main(shapes: str, rounds: int) -> None:
    warnings.simplefilter("ignore")
    for shape in (tuple(map(int, text.split("x"))) for text in shapes.split(",")):
        for dtype in (torch.float32, torch.bfloat16):
            inputs = tuple(torch.randn(shape).to(dtype) for _ in range(3))
            for title, function in FUNCTIONS.items():
                with torch.no_grad():
                    calls = calls_of(function, inputs)
                    times = by_turns(calls, rounds, 600.0)
                    rows = {name: (statistics.median(times[name]) * 1e3, peak(call)) for name, call in calls.items()}
                text = "; ".join(f"{name} {time:.1f} ms, {memory:.1f} MiB" for name, (time, memory) in rows.items())
                click.echo(f"{shape} {dtype} {title}: {text}")


if __name__ == "__main__":
    main()
