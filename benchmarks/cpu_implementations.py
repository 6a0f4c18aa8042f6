"""The implementations of a model that ``benchmarks/cpu.py`` compares."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import torch

Run = Callable[..., Any]
Way = Callable[[Run, tuple[Any, ...]], Run]
"""Of a model and its inputs: what runs as the model does."""

HOST: dict[str, Any] = {"target": "host"}


def eager(model: Run, inputs: tuple[Any, ...]) -> Run:
    return model


def ours(model: Run, inputs: tuple[Any, ...]) -> Run:
    import fxc

    return fxc.compile(model, inputs, options=HOST)


def ours_frozen(model: Run, inputs: tuple[Any, ...]) -> Run:
    import fxc

    return fxc.compile(model, inputs, options={**HOST, "freeze": True})


def ours_training(model: Run, inputs: tuple[Any, ...]) -> Run:
    import fxc

    return fxc.compile(model, inputs, training=True, options=HOST)


def ours_by_dynamo(model: Run, inputs: tuple[Any, ...]) -> Run:
    return torch.compile(model, backend="fxc", options=HOST, dynamic=False)


def inductor(model: Run, inputs: tuple[Any, ...]) -> Run:
    return torch.compile(model, backend="inductor", dynamic=False)


def inductor_frozen(model: Run, inputs: tuple[Any, ...]) -> Run:
    """Compiled here and now: Dynamo reads the setting, too, and it must not be on for the other ways."""
    import torch._inductor.config as config

    made = torch.compile(model, backend="inductor", dynamic=False, options={"freezing": True})
    with config.patch(freezing=True), torch.no_grad():
        made(*inputs)
    return made


INFERENCE: Mapping[str, Way] = MappingProxyType({
    "eager": eager,
    "fxc": ours,
    "fxc frozen": ours_frozen,
    "Inductor": inductor,
    "Inductor frozen": inductor_frozen,
})  # fmt: skip
TRAINING: Mapping[str, Way] = MappingProxyType({"eager": eager, "fxc": ours_training, "Inductor": inductor})
KERNELS: Mapping[str, Way] = MappingProxyType({"eager": eager, "fxc": ours, "Inductor": inductor})
CALLS: Mapping[str, Way] = MappingProxyType({
    "eager": eager,
    "fxc": ours,
    "fxc by torch.compile": ours_by_dynamo,
    "Inductor": inductor,
})  # fmt: skip
