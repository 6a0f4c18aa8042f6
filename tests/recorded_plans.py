"""The plans that fxc makes while a test runs, by whatever route."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch

from fxc.execution_plan import ExecutionPlan


@contextmanager
def recorded() -> Iterator[list[ExecutionPlan]]:
    """A context that begins and ends without graphs of Dynamo, and the plans that are made in it."""
    made, of = list[ExecutionPlan](), ExecutionPlan.of.__func__  # type: ignore[attr-defined]

    def record(*args: Any, **kwargs: Any) -> ExecutionPlan:
        made.append(of(ExecutionPlan, *args, **kwargs))
        return made[-1]

    torch._dynamo.reset()
    with patch.object(ExecutionPlan, "of", record):
        yield made
    torch._dynamo.reset()
