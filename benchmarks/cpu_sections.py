"""The sections of ``benchmarks/cpu.py``: what each measures, and which ratios are taken."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from types import MappingProxyType

from cpu_kernels import KERNELS, SIZES
from cpu_models import MODELS, TRAINING
from cpu_rows import Item, better_name
from cpu_start import COMMANDS

TYPES, BATCHES, THREADS = ("float32", "bfloat16"), (1, 8), (1, 2)
QUICK_SIZES, QUICK_STARTS = (SIZES[0], SIZES[2], SIZES[-1]), ("ResNet-50", "GPT-2 prefill")
QUICK_STEPS = ("ResNet-18",)
LAYERS, QUICK_LAYERS = ("1", "12", "48", "96"), ("1", "12", "48")
CALLED = ("one kernel of 64 elements", "MLP of three small layers")
TRAINING_BATCH = 4
Pairs = tuple[tuple[str, str], ...]
"""Ways, each with the one that it is compared with."""


@dataclass(frozen=True)
class Section:
    """All that it measures, what of that is quick to see, the ratios that are taken, and the unit of times.

    ``better``: ways of which the one that took the least in each round is a way more. ``packages``: optional ones that it
    compares with.
    """

    items: Sequence[Item]
    quick: Sequence[Item]
    pairs: Pairs
    unit: str
    better: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()


def _inference(types: Sequence[str], batches: Sequence[int], threads: Sequence[int]) -> list[Item]:
    return [Item("inference", *of) for of in product(MODELS, types, batches, threads)]


def _training(types: Sequence[str], threads: Sequence[int]) -> list[Item]:
    return [Item("training", *of) for of in product(TRAINING, types, (TRAINING_BATCH,), threads)]


def _kernels(types: Sequence[str], threads: Sequence[int], sizes: tuple[int, ...]) -> list[Item]:
    found = product(KERNELS, types, threads)
    return [Item("kernels", name, dtype, threads=n, rounds=30, seconds=2.0, sizes=sizes) for name, dtype, n in found]


def _starts(names: Sequence[str], rounds: int) -> list[Item]:
    return [Item("starts", name, threads=2, rounds=rounds) for name in names]


def _step_starts(names: Sequence[str], rounds: int) -> list[Item]:
    return [Item("step-starts", name, rounds=rounds) for name in names]


MODEL_PAIRS: Pairs = (
    ("fxc", "eager"),
    ("fxc", "Inductor"),
    ("fxc frozen", "eager"),
    ("fxc frozen", "Inductor frozen"),
    ("fxc frozen", "OpenVINO"),
    ("fxc frozen", "ONNX Runtime"),
    ("Inductor", "eager"),
    ("Inductor frozen", "eager"),
)
PAIRS: Pairs = (("fxc", "eager"), ("fxc", "Inductor"), ("Inductor", "eager"))
BETTER = ("eager", "Inductor")
TRAINING_PAIRS: Pairs = (*PAIRS, ("fxc", better_name(BETTER)))
CALL_PAIRS: Pairs = (*PAIRS, ("fxc by torch.compile", "eager"), ("fxc by torch.compile", "Inductor"))
START_PAIRS: Pairs = (
    ("fxc cold", "Inductor cold"),
    ("fxc warm", "Inductor warm"),
    ("fxc plan", "Inductor warm"),
    ("fxc plan", "eager"),
    ("fxc frozen cold", "Inductor frozen cold"),
    ("fxc frozen warm", "Inductor frozen warm"),
    ("fxc frozen plan", "Inductor frozen warm"),
)
STEP_START_PAIRS: Pairs = (
    ("fxc warm", "fxc without AOTAutograd's cache warm"),
    ("fxc warm", "Inductor warm"),
)


COMMAND_ITEMS = [Item("commands", name, rounds=11) for name in COMMANDS]
CALL_ITEMS = [Item("calls", name, rounds=200, seconds=20.0) for name in CALLED]


SECTIONS: Mapping[str, Section] = MappingProxyType({
    "inference": Section(
        _inference(TYPES, BATCHES, THREADS),
        _inference(TYPES[:1], BATCHES[:1], THREADS[-1:]),
        MODEL_PAIRS,
        "ms",
        packages=("openvino", "onnxruntime"),
    ),
    "training": Section(_training(TYPES, THREADS), _training(TYPES[:1], THREADS[:1]), TRAINING_PAIRS, "ms", BETTER),
    "kernels": Section(_kernels(TYPES, THREADS, SIZES), _kernels(TYPES[:1], THREADS[:1], QUICK_SIZES), PAIRS, "us"),
    "starts": Section(_starts([*MODELS], 3), _starts(QUICK_STARTS, 1), START_PAIRS, "s"),
    "step-starts": Section(_step_starts([*TRAINING], 3), _step_starts(QUICK_STEPS, 1), STEP_START_PAIRS, "s"),
    "commands": Section(COMMAND_ITEMS, COMMAND_ITEMS, (("fxc-opt", "xdsl-opt"),), "s"),
    "calls": Section(CALL_ITEMS, CALL_ITEMS, CALL_PAIRS, "us"),
    "growth": Section([Item("growth", n) for n in LAYERS], [Item("growth", n) for n in QUICK_LAYERS], (), "ms"),
})  # fmt: skip
