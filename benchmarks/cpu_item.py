"""One thing that ``benchmarks/cpu.py`` measures, and the rows that come of it: ``python benchmarks/cpu_item.py ITEM FILE``.

Each item has a process of its own, so that a crash loses that item alone. What is compared in an item runs in that one process.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import asdict
from functools import partial
from pathlib import Path
from statistics import fmean
from time import perf_counter
from typing import Any

from cpu_rows import Item, Row, failure, item_of

BOUNDS = {"float32": 0.05, "bfloat16": 0.5}
"""Differences, as shares of the largest element, above which it is not rounding: gradients of ResNet-18 in eager's float32 are
.023 from those in float64, as an element of a ``relu`` that is nearly 0 is above it or not."""
MORE_THAN_EAGER = 2
"""Times the error of eager's gradients is rounding, too: in bfloat16 these are far from those in float64."""


def made(ways: Mapping[str, Any], model: Any, inputs: tuple[Any, ...], row: Row) -> dict[str, Callable[..., Any]]:
    """What each way makes of ``model``, called once, with the time that took; what fails is noted in ``row``."""
    found = dict[str, Callable[..., Any]]()
    for way, make in ways.items():
        start = perf_counter()
        try:
            run = make(model, inputs)
            run(*inputs)
        except Exception as error:  # any compiler may fail in any way; the others are measured all the same
            row.failed[way] = failure(error)
            continue
        found[way] = run
        row.facts.setdefault("first call, s", {})[way] = perf_counter() - start
    return found


def right(
    runs: Mapping[str, Callable[..., Any]], differences: Mapping[str, float], row: Row, bound: float
) -> dict[str, Callable[..., Any]]:
    """Those whose results are no further than ``bound`` from those wanted; the others have failed."""
    row.failed.update({way: f"is off by {found:.2g}" for way, found in differences.items() if not found <= bound})
    return {way: run for way, run in runs.items() if differences[way] <= bound}


def inference(item: Item) -> list[Row]:
    import torch
    from cpu_implementations import INFERENCE
    from cpu_models import MODELS

    dtype, case = getattr(torch, item.dtype), MODELS[item.name]
    model, inputs = case.model(dtype, tiny=item.tiny), case.inputs(item.batch, dtype, tiny=item.tiny)
    row = Row(item.labels)
    with torch.no_grad():
        runs = made(INFERENCE, model, inputs, row)
        expected = runs["eager"](*inputs)
        row.facts["difference"] = {way: difference(run(*inputs), expected) for way, run in runs.items()}
        kept = right(runs, row.facts["difference"], row, BOUNDS[item.dtype])
        timed = {way: partial(run, *inputs) for way, run in kept.items()}
        measure(row, timed, item)
        row.facts["peak memory, MB"] = peaks(timed)
    return [row]


def training(item: Item) -> list[Row]:
    import cpu_implementations
    import cpu_models
    import torch

    dtype, case = getattr(torch, item.dtype), cpu_models.TRAINING[item.name]
    model, inputs = case.model(dtype, tiny=item.tiny), case.inputs(item.batch, dtype, tiny=item.tiny)
    row = Row(item.labels)
    runs = made(cpu_implementations.TRAINING, model, inputs, row)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    gradients = {way: gradients_of(run, model, inputs) for way, run in runs.items()}
    twin = deepcopy(model).double()
    exact = gradients_of(twin, twin, in_float64(inputs))
    row.facts["difference"] = {way: difference(found, exact) for way, found in gradients.items()}
    bound = max(BOUNDS[item.dtype], MORE_THAN_EAGER * row.facts["difference"]["eager"])
    del gradients, exact, twin

    def step(run: Callable[..., Any]) -> None:
        run(*inputs).backward()
        optimizer.step()
        optimizer.zero_grad()

    steps = {way: partial(step, run) for way, run in right(runs, row.facts["difference"], row, bound).items()}
    measure(row, steps, item)
    row.facts["peak memory, MB"] = peaks(steps)
    return [row]


def in_float64(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(tensor.double() if tensor.is_floating_point() else tensor for tensor in inputs)


def gradients_of(run: Callable[..., Any], model: Any, inputs: tuple[Any, ...]) -> list[Any]:
    run(*inputs).backward()
    found = [parameter.grad for parameter in model.parameters()]
    model.zero_grad()
    return found


def kernels(item: Item) -> list[Row]:
    import torch
    from cpu_kernels import KERNELS

    case, dtype = KERNELS[item.name], getattr(torch, item.dtype)
    rows = list[Row]()
    with torch.no_grad():
        for elements in item.sizes:
            for layout in ("aligned", "sliced"):
                row = Row({**item.labels, "layout": layout, "elements": str(elements)})
                kernel(row, case.function, case.inputs(elements, dtype, sliced=layout == "sliced"), item)
                rows.append(row)
    return rows


def kernel(row: Row, function: Callable[..., Any], inputs: tuple[Any, ...], item: Item) -> None:
    import torch
    from cpu_implementations import KERNELS
    from cpu_kernels import DRAWS, draw, error

    torch.compiler.reset()
    runs = made(KERNELS, function, inputs, row)
    errors, differences = ({way: list[float]() for way in runs} for _ in range(2))
    for seed in range(DRAWS):
        draw(inputs, seed)
        exact = function(*in_float64(inputs))
        for way, run in runs.items():
            result = run(*inputs)
            errors[way].append(error(result, exact))
            differences[way].append(difference(result, exact))
    row.facts["error, epsilons"] = {way: fmean(found) for way, found in errors.items()}
    largest = {way: max(found) for way, found in differences.items()}
    timed = right(runs, largest, row, BOUNDS[item.dtype])
    measure(row, {way: partial(run, *inputs) for way, run in timed.items()}, item)


def calls(item: Item) -> list[Row]:
    import torch
    from cpu_implementations import CALLS
    from cpu_models import MODELS

    def silu(x: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(x) * x

    functions: dict[str, Callable[[], tuple[Any, tuple[Any, ...]]]] = {
        "one kernel of 64 elements": lambda: (silu, (torch.randn(64),)),
        "MLP of three small layers": lambda: (MODELS["MLP"].model(tiny=True), MODELS["MLP"].inputs(1, tiny=True)),
    }
    model, inputs = functions[item.name]()
    row = Row(item.labels)
    with torch.no_grad():
        runs = made(CALLS, model, inputs, row)
        measure(row, {way: partial(run, *inputs) for way, run in runs.items()}, item)
    return [row]


def growth(item: Item) -> list[Row]:
    """Stages of ``fxc.compile``, seconds each, after a first compilation in this process, of other kernels."""
    from cpu_implementations import HOST
    from cpu_models import growing

    import fxc

    fxc.compile(*growing(1, width=32), options=HOST)
    model, inputs = growing(int(item.name))
    start = perf_counter()
    plan = fxc.compile(model, inputs, options=HOST).plan
    total = perf_counter() - start
    stages = {**{stage: spent / 1e3 for stage, spent in plan.stats.times.items()}, "total": total}
    return [Row({**item.labels, "stage": stage}, {"fxc": [spent]}) for stage, spent in stages.items()]


def starts(item: Item) -> list[Row]:
    from cpu_start import all_starts

    return [all_starts(item)]


def commands(item: Item) -> list[Row]:
    from cpu_start import all_commands

    return [all_commands(item)]


def measure(row: Row, runs: Mapping[str, Callable[[], Any]], item: Item) -> None:
    from interleaved import by_turns

    row.times = by_turns(runs, item.rounds, item.seconds)


def peaks(runs: Mapping[str, Callable[[], Any]]) -> dict[str, float]:
    """Megabytes allocated at once in a call, with what fxc keeps between calls, beyond what was there before it."""
    import fxc
    from fxc.measure.peak import peak_bytes

    found = dict[str, float]()
    for way, run in runs.items():
        fxc.release_memory()
        found[way] = peak_bytes(run) / 1e6
    return found


def difference(result: Any, expected: Any) -> float:
    """The largest between two nests of tensors, as a share of the largest element of its tensor."""
    from torch.utils._pytree import tree_leaves

    def share(mine: Any, theirs: Any) -> float:
        largest = theirs.double().abs().max().item() or 1.0
        return (mine.double() - theirs.double()).abs().max().item() / largest

    return max(share(*pair) for pair in zip(tree_leaves(result), tree_leaves(expected), strict=True))


SECTIONS: Mapping[str, Callable[[Item], list[Row]]] = {
    "inference": inference,
    "training": training,
    "kernels": kernels,
    "starts": starts,
    "step-starts": starts,
    "commands": commands,
    "calls": calls,
    "growth": growth,
}


def main() -> None:
    import torch

    item = item_of(json.loads(sys.argv[1]))
    torch.set_num_threads(item.threads)
    Path(sys.argv[2]).write_text(json.dumps([asdict(row) for row in SECTIONS[item.section](item)]))


if __name__ == "__main__":
    main()
