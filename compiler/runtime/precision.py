"""How precisely PyTorch is asked to compute in float32."""

from __future__ import annotations

from typing import Any

from torch import backends


def float32_precisions() -> tuple[str, ...]:
    """Of products and convolutions, of each library: "ieee", "tf32" or "bf16". ``torch.set_float32_matmul_precision`` sets
    these too; to ask with ``torch.get_float32_matmul_precision`` is an error where they were set on their own."""
    mkldnn: Any = backends.mkldnn
    cudnn: Any = backends.cudnn
    places = (backends, mkldnn, mkldnn.matmul, mkldnn.conv, backends.cuda.matmul, cudnn, cudnn.conv)
    return tuple(["ieee" if place.fp32_precision == "none" else str(place.fp32_precision) for place in places])
