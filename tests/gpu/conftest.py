"""Tests that need a GPU: ``make test-gpu``. Without one they are not collected."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

collect_ignore_glob = [] if torch.cuda.is_available() else ["test_*.py"]


@pytest.fixture(autouse=True)
def _full_precision() -> Iterator[None]:
    """Eager's convolutions of float32 are of float32, not of rounded numbers; its products are by default."""
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        yield
