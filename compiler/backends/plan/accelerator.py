"""What a host program says to an accelerator: devices, streams."""

from __future__ import annotations

import torch
from xdsl.dialects.builtin import IntegerAttr, TensorType
from xdsl.ir import Operation

from fxc.dialects import types
from fxc.dialects.plan import STREAM


def stream_of(op: Operation) -> int:
    """The stream that ``op`` runs on; 0 is the caller's."""
    mark = op.attributes.get(STREAM)
    return mark.value.data if isinstance(mark, IntegerAttr) else 0


def device_of(type: TensorType) -> torch.device:
    return torch.device(types.device(type))
