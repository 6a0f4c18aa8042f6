"""The float32 precision settings of PyTorch."""

from __future__ import annotations

from typing import Any

from torch import backends


def float32_precisions() -> tuple[str, ...]:
    """Return the float32 precision of products and convolutions in each library: "ieee", "tf32" or "bf16".

    ``torch.set_float32_matmul_precision`` sets these too. ``torch.get_float32_matmul_precision`` is not used: it raises an
    error if they were set separately.
    """
    mkldnn: Any = backends.mkldnn
    cudnn: Any = backends.cudnn
    places = (backends, mkldnn, mkldnn.matmul, mkldnn.conv, backends.cuda.matmul, cudnn, cudnn.conv)
    return tuple(["ieee" if place.fp32_precision == "none" else str(place.fp32_precision) for place in places])


def allows_tf32() -> bool:
    """Return whether products of float32 on CUDA devices may round their factors to TF32."""
    return backends.cuda.matmul.fp32_precision == "tf32"
