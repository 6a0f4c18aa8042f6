"""What a host program says to an accelerator: devices, streams."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block, SSAValue

from fxc.dialects.attributes import types
from fxc.dialects.plan import STREAM, ArenaOp, stream_of
from fxc.dialects.plan.accesses import Accesses


def device_of(type: TensorType) -> torch.device:
    return torch.device(types.device(type))


def guests(block: Block) -> Mapping[SSAValue, Sequence[int]]:
    """Tensor on an accelerator that ``block`` allocates -> the streams, other than the one it is made on, that use its memory.

    PyTorch's allocator must be told of them: else it gives the memory away, once its last name is gone, while they still work
    on it. Arenas are not among these: all streams are joined before they go.
    """
    if not any(STREAM in op.attributes for op in block.ops):
        return {}
    accesses, home, found = Accesses(), dict[SSAValue, int](), dict[SSAValue, dict[int, None]]()
    for op in block.ops:
        touched, stream = accesses.step(op), stream_of(op)
        if touched is None or isinstance(op, ArenaOp):
            continue
        home |= dict.fromkeys([value for value in op.results if value in touched.writes and _is_there(value)], stream)
        for root in (*touched.reads, *touched.writes):
            if home.get(root, stream) != stream:
                found.setdefault(root, {})[stream] = None
    return {value: tuple(streams) for value, streams in found.items()}


def _is_there(value: SSAValue) -> bool:
    return isinstance(value.type, TensorType) and types.device(value.type) != "cpu"
