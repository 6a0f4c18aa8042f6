"""PyTorch's operator samples, without what takes longer than most of them: a search for a unittest, and seeds of devices."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch.testing._internal import common_utils
from torch.testing._internal.opinfo import core


def sample_inputs(info: Any, dtype: torch.dtype, *, requires_grad: bool = False) -> Iterator[Any]:
    """Samples of an OpInfo on the CPU, the same as ever.

    The search for the unittest that asks reads the source files of the whole stack, .4 s for each operator; seeds of devices
    that are not there are noted with a stack each, 5 ms for each sample.
    """
    with _without_waste():
        samples = iter(info.sample_inputs("cpu", dtype, requires_grad=requires_grad))
    while True:
        with _without_waste():
            sample = next(samples, None)
        if sample is None:
            return
        yield sample


def _without_waste() -> ExitStack:
    patches = ExitStack()
    for module in (common_utils, core):
        patches.enter_context(patch.object(module, "extract_test_fn", lambda: None))
    patches.enter_context(patch.object(common_utils, "set_rng_seed", _seed))
    return patches


def _seed(seed: int | None = None) -> None:
    """What PyTorch's function of this name does to the CPU."""
    seed = common_utils.SEED if seed is None else seed
    torch.default_generator.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed)
