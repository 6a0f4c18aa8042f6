"""What a test may ask for by ``// REQUIRES: name``: where the machine has it not, the test is skipped."""

from __future__ import annotations

import torch


def available_features() -> set[str]:
    """The features that this machine has."""
    return {"onednn-bfloat16"} if torch.ops.mkldnn._is_mkldnn_bf16_supported() else set()
