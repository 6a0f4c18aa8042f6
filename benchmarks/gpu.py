"""Kernels and models of the zoo on a GPU, against eager and Inductor: times, ratios, and the bandwidth that was reached.

    python benchmarks/gpu.py --only softmax --folder build/gpu

What is compared runs by turns, with cold caches, timed by events of the device; medians. The bandwidth is of the bytes that
must be read and written, as a share of what a copy of a large tensor reaches. A way that fails, or whose results are far from
those in float32, is said to have failed, and the others go on. All goes to one file of results. Without a GPU nothing is
measured or written.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, gelu, layer_norm, linear
from torch.utils._pytree import tree_leaves, tree_map_only

import fxc
from fxc.codegen.triton.device import EventClock, by_turns

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parent))
import results
from results import FAILED, Measurement

COPY = 256 << 20
"""Bytes of the tensor whose copy says what the memory gives."""
TOLERANCE = 0.05
"""Of the largest number of a result. Eager rounds bfloat16 after each operator; where it is further off, twice its error."""


Result = Tensor | tuple[Tensor, ...]
Function = Callable[[Tensor], Result] | Callable[[Tensor, Tensor], Result] | Callable[[Tensor, Tensor, Tensor], Result]
"""Of one tensor up to three."""


@dataclass(frozen=True)
class Kernel:
    """A function, and what makes its arguments on a device."""

    function: Function
    inputs: Callable[[], tuple[Tensor, ...]]


def _random(*shapes: tuple[int, ...], dtype: torch.dtype = torch.bfloat16, device: str = "cuda") -> tuple[Tensor, ...]:
    generator = torch.Generator(device).manual_seed(0)
    return tuple(torch.randn(shape, generator=generator, device=device, dtype=dtype) for shape in shapes)


def _classes(logits: Tensor) -> Tensor:
    return torch.arange(len(logits), device=logits.device) * 7 % logits.shape[1]


KERNELS: Mapping[str, Kernel] = {
    "gelu(x * sigmoid(x) + bias)": Kernel(
        lambda x, b: gelu(x * torch.sigmoid(x) + b), partial(_random, (16384, 4096), (4096,))
    ),
    "add, relu": Kernel(lambda x, y: (x + y).relu(), partial(_random, (8192, 8192), (8192, 8192))),
    "softmax 32768x1024": Kernel(lambda x: x.softmax(-1), partial(_random, (32768, 1024))),
    "softmax 4x1048576": Kernel(lambda x: x.softmax(-1), partial(_random, (4, 1 << 20))),
    "softmax 512x65536": Kernel(lambda x: x.softmax(-1), partial(_random, (512, 65536))),
    "layer_norm, gelu 32768x1024": Kernel(
        lambda x, w, b: gelu(layer_norm(x, w.shape, w, b)), partial(_random, (32768, 1024), (1024,), (1024,))
    ),
    "layer_norm 2048x32768": Kernel(
        lambda x, w, b: layer_norm(x, w.shape, w, b), partial(_random, (2048, 32768), (32768,), (32768,))
    ),
    "cross_entropy 4096x50257": Kernel(lambda x: cross_entropy(x, _classes(x)), partial(_random, (4096, 50257))),
    "linear, relu 4096x4096": Kernel(
        lambda x, w, b: linear(x, w, b).relu(), partial(_random, (4096, 4096), (4096, 4096), (4096,), dtype=torch.float32)
    ),
    "attention, soft cap 64x2048x64": Kernel(
        lambda q, k, v: (q @ k.transpose(1, 2) * 0.125).tanh().softmax(-1) @ v, partial(_random, *[(64, 2048, 64)] * 3)
    ),
    "random numbers of a seed 8192x8192": Kernel(
        lambda seed, x: torch.ops.fxc.uniform(seed, x.shape, 0, torch.float32) * x,
        lambda: (torch.tensor(7, device="cuda"), *_random((8192, 8192), dtype=torch.float32)),
    ),
    "sum of rows 16384x1024": Kernel(lambda x: x.sum(0), partial(_random, (16384, 1024), dtype=torch.float32)),
    "sums of narrow rows": Kernel(lambda x, y: ((x * y).sum(0), x.sum(0)), partial(_random, (1 << 20, 16), (1 << 20, 16))),
    "sum of rows": Kernel(lambda x: x.sum(0), partial(_random, (32768, 1024), dtype=torch.float32)),
    "transpose, add": Kernel(lambda x, y: x.t() + y, partial(_random, (8192, 8192), (8192, 8192))),
}

WAYS: Mapping[str, Callable[[Callable[..., Any], tuple[Any, ...]], Callable[..., Any]]] = {
    "eager": lambda function, inputs: function,
    "fxc": lambda function, inputs: fxc.compile(function, inputs, options={"target": "cuda"}),
    "fxc autotune": lambda function, inputs: fxc.compile(function, inputs, options={"target": "cuda", "autotune": True}),
    "fxc CUDA graphs": lambda function, inputs: fxc.compile(function, inputs, options={"target": "cuda", "cuda_graphs": True}),
    "Inductor": lambda function, inputs: torch.compile(function, dynamic=False),
    "Inductor CUDA graphs": lambda function, inputs: torch.compile(function, dynamic=False, mode="reduce-overhead"),
    "Inductor max-autotune": lambda function, inputs: torch.compile(function, dynamic=False, mode="max-autotune-no-cudagraphs"),
}


@dataclass(frozen=True)
class Row:
    """Milliseconds of each way, and why one ``failed``; ``bytes`` that must go through memory, or 0 where that is not known."""

    name: str
    times: Mapping[str, float]
    bytes: int = 0
    failed: Mapping[str, str] = field(default_factory=dict[str, str])

    def bandwidth(self) -> float:
        """Bytes a second, by the faster of fxc's ways; 0 where they are not known."""
        times = [time for way, time in self.times.items() if way.startswith("fxc")]
        return self.bytes / min(times) * 1e3 if times else 0.0


def measure(
    name: str,
    function: Callable[..., Any],
    inputs: tuple[Any, ...],
    clock: EventClock,
    ways: Mapping[str, Callable[..., Any]] = WAYS,
    *,
    counts_bytes: bool = True,
) -> Row:
    """Times of ``function`` in all ``ways`` that give what it gives, by turns."""
    expected, exact = function(*inputs), in_float32(function, inputs)
    calls, failed = dict[str, Callable[[], Any]](), dict[str, str]()
    for way, make in ways.items():
        try:
            call = partial(make(function, inputs), *inputs)
            check(call(), expected, exact)
        except Exception as error:  # what is wrong with one way is said, and the others are measured
            failed[way] = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
        else:
            calls[way] = call
    times = by_turns(list(calls.values()), clock)
    moved = sum(tensor.numel() * tensor.element_size() for tensor in (*tree_leaves(inputs), *tree_leaves(expected)))
    return Row(name, dict(zip(calls, times, strict=True)), moved if counts_bytes else 0, failed)


def in_float32(function: Callable[..., Any], inputs: tuple[Any, ...]) -> Any:
    """What ``function`` gives for ``inputs`` in float32, its weights too."""
    exact = deepcopy(function).float() if isinstance(function, torch.nn.Module) else function
    return exact(*tree_map_only(Tensor, lambda x: x.float() if x.is_floating_point() else x, inputs))


def check(actual: Any, expected: Any, exact: Any) -> None:
    """AssertionError where ``actual`` is not close to ``exact``, which eager's ``expected`` may be further from."""
    for ours, eager, true in zip(tree_leaves(actual), tree_leaves(expected), tree_leaves(exact), strict=True):
        if isinstance(eager, Tensor) and eager.is_floating_point():
            finite = true.isfinite() & eager.isfinite()
            largest, error = (x[finite].abs().max().item() if finite.any() else 0.0 for x in (true, eager.float() - true))
            torch.testing.assert_close(ours.float(), true, rtol=0, atol=max(TOLERANCE * largest, 2 * error), equal_nan=True)
        else:
            torch.testing.assert_close(ours, eager)


def copy_bandwidth(clock: EventClock, device: str = "cuda") -> float:
    """Bytes a second that a copy reads and writes."""
    source = torch.empty(COPY, dtype=torch.int8, device=device)
    target = torch.empty_like(source)
    [milliseconds] = by_turns([lambda: target.copy_(source)], clock)
    return 2 * COPY / milliseconds * 1e3


def measurements(rows: Sequence[Row], bandwidth: float) -> list[Measurement]:
    """What the rows give, and the bandwidth that a copy reaches."""
    found = [Measurement({"kind": "copy", "name": "copy"}, "bandwidth, GB/s", "eager", bandwidth / 1e9)]
    for row in rows:
        labels = {"kind": "kernel" if row.bytes else "model", "name": row.name}
        found += [Measurement(labels, "time, ms", way, time) for way, time in row.times.items()]
        found += [Measurement(labels, FAILED, way, note=why) for way, why in row.failed.items()]
        if reached := row.bandwidth():
            found.append(Measurement(labels, "bandwidth, GB/s", "fxc", reached / 1e9))
            found.append(Measurement(labels, "bandwidth", "fxc", reached / bandwidth, baseline="copy"))
    return found


def _models() -> Iterator[tuple[str, torch.nn.Module, tuple[Any, ...]]]:
    """The models of the zoo at their own sizes, in bfloat16 where they have floats."""
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
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS), help="what is compared, eager first")
    parser.add_argument("--folder", type=Path, default=results.FOLDER, help="where the file of results goes")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("this machine has no GPU: nothing is measured")
        return
    ways = {way: WAYS[way] for way in options.ways}
    clock, rows = EventClock(), list[Row]()
    with torch.no_grad():
        bandwidth = copy_bandwidth(clock)
        for name, function, inputs, counts_bytes in _work(options.only):
            rows.append(measure(name, function, inputs, clock, ways, counts_bytes=counts_bytes))
            shown = ", ".join(f"{way} {time:.4g} ms" for way, time in rows[-1].times.items())
            print(f"{name}: {shown}", file=sys.stderr, flush=True)
            torch.compiler.reset()
    machine = torch.cuda.get_device_name()
    name = f"gpu-{machine}".lower().replace(" ", "-")
    print(results.write(name, measurements(rows, bandwidth), results.about(machine, "triton"), options.folder))


def _work(only: str) -> Iterator[tuple[str, Callable[..., Any], tuple[Any, ...], bool]]:
    """Name, function, inputs, and whether their bytes say what goes through memory."""
    for name, kernel in KERNELS.items():
        if only in name:
            yield name, kernel.function, kernel.inputs(), True
    for name, model, inputs in _models():
        if only in name:
            yield name, model, inputs, False


if __name__ == "__main__":
    main()
