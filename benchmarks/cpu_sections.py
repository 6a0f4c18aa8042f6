"""The sections of ``benchmarks/cpu.py``: what each measures, and the text that its results give."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from types import MappingProxyType

import cpu_tables as tables
from compile_time import exponent
from cpu_kernels import DRAWS, KERNELS, SIZES
from cpu_models import MODELS, TRAINING
from cpu_rows import Item, Row

TYPES, BATCHES, THREADS = ("float32", "bfloat16"), (1, 8), (1, 2)
QUICK_SIZES, QUICK_STARTS = (SIZES[0], SIZES[2], SIZES[-1]), ("ResNet-50", "GPT-2 prefill")
LAYERS, QUICK_LAYERS, FROM_LAYERS = ("1", "12", "48", "96"), ("1", "12", "48"), 12
CALLED = ("one kernel of 64 elements", "MLP of three small layers")
TRAINING_BATCH = 4
LEAST_SHARE = 0.01
"""Stages that take less of the compile time of the deepest model are added up."""


@dataclass(frozen=True)
class Section:
    """All that it measures, what of that is quick to see, and Markdown of the rows found."""

    items: Sequence[Item]
    quick: Sequence[Item]
    text: Callable[[Sequence[Row]], str]


def _inference(types: Sequence[str], batches: Sequence[int], threads: Sequence[int]) -> list[Item]:
    return [Item("inference", *of) for of in product(MODELS, types, batches, threads)]


def _training(types: Sequence[str], threads: Sequence[int]) -> list[Item]:
    return [Item("training", *of) for of in product(TRAINING, types, (TRAINING_BATCH,), threads)]


def _kernels(types: Sequence[str], threads: Sequence[int], sizes: tuple[int, ...]) -> list[Item]:
    found = product(KERNELS, types, threads)
    return [Item("kernels", name, dtype, threads=n, rounds=30, seconds=2.0, sizes=sizes) for name, dtype, n in found]


def _starts(names: Sequence[str], rounds: int) -> list[Item]:
    return [Item("starts", name, threads=2, rounds=rounds) for name in names]


MODEL_PAIRS = (
    ("fxc", "eager"),
    ("fxc", "Inductor"),
    ("fxc frozen", "eager"),
    ("fxc frozen", "Inductor frozen"),
    ("Inductor", "eager"),
    ("Inductor frozen", "eager"),
)
PAIRS = (("fxc", "eager"), ("fxc", "Inductor"), ("Inductor", "eager"))
CALL_PAIRS = (*PAIRS, ("fxc by torch.compile", "eager"), ("fxc by torch.compile", "Inductor"))
START_PAIRS = (
    ("fxc cold", "Inductor cold"),
    ("fxc warm", "Inductor warm"),
    ("fxc plan", "Inductor warm"),
    ("fxc plan", "eager"),
    ("fxc frozen cold", "Inductor frozen cold"),
    ("fxc frozen warm", "Inductor frozen warm"),
    ("fxc frozen plan", "Inductor frozen warm"),
)


CALL_ITEMS = [Item("calls", name, rounds=200, seconds=20.0) for name in CALLED]


def model_text(rows: Sequence[Row], pairs: Sequence[tables.Pair], exact: str) -> str:
    return _parts(
        tables.summary(rows, pairs, ("type", "threads")),
        tables.folded("Each model", tables.ratios(rows, pairs, "eager", 1e3, "ms")),
        "Peak memory of tensors in a call:",
        tables.summary(tables.facts_as_times(rows, "peak MB"), pairs, ("type", "threads")),
        tables.folded("Peak memory of tensors in a call, MB", tables.facts(rows, "peak MB", "{:.1f}".format)),
        tables.folded(f"Largest difference from {exact}", tables.facts(rows, "difference", "{:.1e}".format)),
        tables.failures(rows),
    )


def inference_text(rows: Sequence[Row]) -> str:
    return model_text(rows, MODEL_PAIRS, "eager's results")


def training_text(rows: Sequence[Row]) -> str:
    ways = "eager", "Inductor"
    better = tables.summary(tables.with_better(rows, ways), [("fxc", tables.better_name(ways))], ("type", "threads"))
    return _parts(better, model_text(rows, PAIRS, "gradients in float64"))


def kernel_text(rows: Sequence[Row]) -> str:
    ratios = [tables.folded(f"{a} / {b}, by elements", tables.across(rows, "elements", (a, b))) for a, b in PAIRS]
    errors = tables.largest_facts(rows, "error", ("kernel", "type"), "{:.2f}".format)
    return _parts(
        tables.summary(rows, PAIRS, ("type", "threads", "layout")),
        *ratios,
        tables.folded(f"Largest error in the mean of {DRAWS} draws, in epsilons of the largest result", errors),
        tables.failures(rows),
    )


def start_text(rows: Sequence[Row]) -> str:
    return _parts(
        tables.summary(rows, START_PAIRS, ()),
        tables.folded("Seconds to the first result", tables.medians(rows, "{:.1f}".format)),
        tables.folded("Peak memory of the process, MB", tables.facts(rows, "resident MB", "{:.0f}".format)),
        tables.folded("Whether the process loaded Dynamo", tables.facts(rows, "Dynamo loaded", _yes)),
        tables.failures(rows),
    )


def call_text(rows: Sequence[Row]) -> str:
    microseconds = tables.medians(rows, lambda seconds: f"{seconds * 1e6:.2f}")
    ratios = tables.ratios(rows, CALL_PAIRS, "eager", 1e6, "µs")
    return _parts("Microseconds a call:", microseconds, "Ratios:", ratios, tables.failures(rows))


def growth_text(rows: Sequence[Row]) -> str:
    """Milliseconds of each stage by layers, and the exponent of the growth from ``FROM_LAYERS`` on."""
    found = {int(row.labels["layers"]): {stage: times[0] * 1e3 for stage, times in row.times.items()} for row in rows}
    deepest = found[max(found)]
    small = {stage for stage, spent in deepest.items() if spent < LEAST_SHARE * deepest["total"]}
    merged = {layers: _with_others(stages, small) for layers, stages in sorted(found.items())}
    grown = {layers: stages for layers, stages in merged.items() if layers >= FROM_LAYERS}
    exponents = {stage: value for stage in merged[max(merged)] if (value := exponent(grown, stage)) is not None}
    columns = {
        f"{layers} layers": {name: f"{spent:.0f}" for name, spent in stages.items()} for layers, stages in merged.items()
    }
    return tables.by_columns({**columns, "exponent": {name: f"{value:.2f}" for name, value in exponents.items()}}, "stage, ms")


def _with_others(stages: Mapping[str, float], small: set[str]) -> dict[str, float]:
    kept = {stage: spent for stage, spent in stages.items() if stage not in small and stage != "total"}
    others = sum(spent for stage, spent in stages.items() if stage in small)
    return {**kept, "others": others, "total": stages["total"]}


def _yes(value: float) -> str:
    return "yes" if value else "no"


def _parts(*texts: str) -> str:
    return "\n\n".join(text for text in texts if text)


SECTIONS: Mapping[str, Section] = MappingProxyType({
    "inference": Section(
        _inference(TYPES, BATCHES, THREADS), _inference(TYPES[:1], BATCHES[:1], THREADS[-1:]), inference_text
    ),
    "training": Section(_training(TYPES, THREADS), _training(TYPES[:1], THREADS[:1]), training_text),
    "kernels": Section(_kernels(TYPES, THREADS, SIZES), _kernels(TYPES[:1], THREADS[:1], QUICK_SIZES), kernel_text),
    "starts": Section(_starts([*MODELS], 3), _starts(QUICK_STARTS, 1), start_text),
    "calls": Section(CALL_ITEMS, CALL_ITEMS, call_text),
    "growth": Section([Item("growth", n) for n in LAYERS], [Item("growth", n) for n in QUICK_LAYERS], growth_text),
})  # fmt: skip
