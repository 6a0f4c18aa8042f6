"""What tests of products share: one comparison with eager, of numbers that are drawn anew for each test."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import fxc
from fxc.runtime.plan import Plan

HOST: dict[str, Any] = {"target": "host"}


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


def agree(function: Callable[..., torch.Tensor], *inputs: torch.Tensor) -> Plan:
    compiled = fxc.compile(function, inputs, options=HOST)
    torch.testing.assert_close(compiled(*inputs), function(*inputs), equal_nan=True)
    return compiled.plan
