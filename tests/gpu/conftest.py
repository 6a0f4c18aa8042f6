"""Tests that need a GPU: ``make test-gpu``. Without one they are not collected."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

collect_ignore_glob = [] if torch.cuda.is_available() else ["test_*.py"]


@pytest.fixture(autouse=True)
def _full_precision() -> Iterator[None]:
    """Eager's products of float32 are of float32, not of rounded numbers."""
    before = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    yield
    torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = before
