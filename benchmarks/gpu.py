"""Kernels and models of the zoo on a GPU, against eager and Inductor: times, ratios, and the bandwidth that was reached.

    python benchmarks/gpu.py --only softmax --out docs/benchmarks-gpu.md

What is compared runs by turns, with cold caches, timed by events of the device; medians. The bandwidth is of the bytes that
must be read and written, as a share of what a copy of a large tensor reaches. Without a GPU nothing is measured or written.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import gelu, layer_norm
from torch.utils._pytree import tree_leaves

import fxc
from fxc.backends.triton.measure import Clock, EventClock, by_turns

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

COPY = 256 << 20
"""Bytes of the tensor whose copy says what the memory gives."""
TOLERANCE = {"rtol": 1.6e-2, "atol": 1e-2}


@dataclass(frozen=True)
class Kernel:
    """A function, and what makes its arguments on a device."""

    function: Callable[..., Any]
    inputs: Callable[[], tuple[Tensor, ...]]


def _random(*shapes: tuple[int, ...], dtype: torch.dtype = torch.bfloat16, device: str = "cuda") -> tuple[Tensor, ...]:
    generator = torch.Generator(device).manual_seed(0)
    return tuple(torch.randn(shape, generator=generator, device=device, dtype=dtype) for shape in shapes)


KERNELS: Mapping[str, Kernel] = {
    "gelu(x * sigmoid(x) + bias)": Kernel(
        lambda x, b: gelu(x * torch.sigmoid(x) + b), partial(_random, (16384, 4096), (4096,))
    ),
    "add, relu": Kernel(lambda x, y: (x + y).relu(), partial(_random, (8192, 8192), (8192, 8192))),
    "softmax 32768x1024": Kernel(lambda x: x.softmax(-1), partial(_random, (32768, 1024))),
    "softmax 512x65536": Kernel(lambda x: x.softmax(-1), partial(_random, (512, 65536))),
    "layer_norm, gelu 32768x1024": Kernel(
        lambda x, w, b: gelu(layer_norm(x, w.shape, w, b)), partial(_random, (32768, 1024), (1024,), (1024,))
    ),
    "sum of rows": Kernel(lambda x: x.sum(0), partial(_random, (32768, 1024), dtype=torch.float32)),
    "transpose, add": Kernel(lambda x, y: x.t() + y, partial(_random, (8192, 8192), (8192, 8192))),
}

WAYS: Mapping[str, Callable[[Callable[..., Any], tuple[Any, ...]], Callable[..., Any]]] = {
    "eager": lambda function, inputs: function,
    "fxc": lambda function, inputs: fxc.compile(function, inputs, options={"target": "cuda"}),
    "fxc autotune": lambda function, inputs: fxc.compile(function, inputs, options={"target": "cuda", "autotune": True}),
    "Inductor": lambda function, inputs: torch.compile(function, dynamic=False),
    "Inductor max-autotune": lambda function, inputs: torch.compile(function, dynamic=False, mode="max-autotune-no-cudagraphs"),
}


@dataclass(frozen=True)
class Row:
    """Milliseconds of each way; ``bytes`` that must go through memory, or 0 where that is not known."""

    name: str
    times: Mapping[str, float]
    bytes: int = 0


def measure(
    name: str,
    function: Callable[..., Any],
    inputs: tuple[Any, ...],
    clock: Clock,
    ways: Mapping[str, Callable[..., Any]] = WAYS,
    *,
    counts_bytes: bool = True,
) -> Row:
    """Times of ``function`` in all ``ways``, by turns, after their results were compared with the first's."""
    calls = {way: make(function, inputs) for way, make in ways.items()}
    expected = function(*inputs)
    for call in calls.values():
        torch.testing.assert_close(call(*inputs), expected, equal_nan=True, **TOLERANCE)
    times = by_turns([partial(call, *inputs) for call in calls.values()], clock)
    moved = sum(tensor.numel() * tensor.element_size() for tensor in (*tree_leaves(inputs), *tree_leaves(expected)))
    return Row(name, dict(zip(calls, times, strict=True)), moved if counts_bytes else 0)


def copy_bandwidth(clock: Clock, device: str = "cuda") -> float:
    """Bytes a second that a copy reads and writes."""
    source = torch.empty(COPY, dtype=torch.int8, device=device)
    target = torch.empty_like(source)
    [milliseconds] = by_turns([lambda: target.copy_(source)], clock)
    return 2 * COPY / milliseconds * 1e3


def table(rows: Sequence[Row], bandwidth: float, machine: str) -> str:
    """Markdown. Ratios are to eager's time, below 1 is faster."""
    ways = list(rows[0].times) if rows else []
    heading = ["", "eager ms", *(f"{way} / eager" for way in ways[1:]), "fxc GB/s", "of a copy"]
    lines = [f"# On {machine}", "", f"A copy moves {bandwidth / 1e9:,.0f} GB/s.", ""]
    lines += [f"| {' | '.join(heading)} |", f"|{'---|' * len(heading)}"]
    for row in rows:
        eager = row.times["eager"]
        ratios = [f"{row.times[way] / eager:.2f}" for way in ways[1:]]
        best = min(time for way, time in row.times.items() if way.startswith("fxc"))
        reached = row.bytes / best * 1e3
        share = [f"{reached / 1e9:,.0f}", f"{reached / bandwidth:.0%}"] if row.bytes else ["", ""]
        lines.append(f"| {' | '.join([row.name, f'{eager:.4g}', *ratios, *share])} |")
    return "\n".join(lines) + "\n"


def machine() -> str:
    from importlib.metadata import version

    name = torch.cuda.get_device_name()
    return f"{name}: torch {torch.__version__}, Triton {version('triton')}, Python {sys.version.split()[0]}"


def _models() -> Iterator[tuple[str, torch.nn.Module, tuple[Any, ...]]]:
    """The models of the zoo at their own sizes, in bfloat16 where they have floats."""
    from torch.utils._pytree import tree_map_only

    from tests.models.zoo import ZOO

    def moved(tensor: Tensor) -> Tensor:
        return tensor.to("cuda", torch.bfloat16 if tensor.is_floating_point() else tensor.dtype)

    for name, entry in ZOO.items():
        module = entry.module()
        if hasattr(module, "Model") and hasattr(module, "get_inputs"):
            yield name, module.Model().eval().to("cuda", torch.bfloat16), tree_map_only(Tensor, moved, module.get_inputs())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="kernels and models whose name contains this")
    parser.add_argument("--out", type=Path, help="a file for the table")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("there is no GPU here: nothing is measured")
        return
    clock, rows = EventClock(), list[Row]()
    with torch.no_grad():
        bandwidth = copy_bandwidth(clock)
        for name, kernel in KERNELS.items():
            if options.only in name:
                rows.append(measure(name, kernel.function, kernel.inputs(), clock))
                torch._dynamo.reset()
        for name, model, inputs in _models():
            if options.only in name:
                rows.append(measure(name, model, inputs, clock, counts_bytes=False))
                torch._dynamo.reset()
    text = table(rows, bandwidth, machine())
    print(text)
    if options.out is not None:
        options.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
