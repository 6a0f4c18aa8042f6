"""The reference interpreter of the ``plan`` level: an arena is a tensor of bytes, and buffers are views of it.

Uninitialized memory holds ``NOTHING`` in each byte, which reads as NaN or an implausible number. Bytes of an arena are filled
with it when a buffer is allocated, and when it is released, so overlapping buffers and early releases produce wrong numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeAlias

import torch
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block, Operation

from fxc.bridge.values import torch_dtype
from fxc.dialects.attributes import types
from fxc.dialects.attributes.discardable import STREAM
from fxc.dialects.attributes.size_polynomials import sizes_of, strides_of, value_at
from fxc.dialects.attributes.types import tensor_of
from fxc.dialects.plan import AllocOp, ArenaOp, ArenaType, BringOp, LaunchOp, RecordOp, ViewOp, WaitOp
from fxc.dialects.text.diagnostics import OpVerifyException, one_line, place_of
from fxc.dialects.verify.races import check_order
from fxc.errors import KernelError
from fxc.interpret.tile_level import launch_into
from fxc.runtime.shared_memory import memory_range

Rule: TypeAlias = Callable[[Any, Sequence[Any], bool], Sequence[Any]]
"""Return the results of an operation for these operands; the last argument: use float64 for floats."""

_WIDER = 8
"""The factor of arena sizes with float64; all offsets grow equally, so overlaps are preserved."""


def run(op: Operation, operands: Sequence[Any], *, wide: bool = False) -> Sequence[Any]:
    """Return the results of ``op``, one of ``OPS``."""
    return RULES[type(op)](op, operands, wide)


NOTHING = 0xFF
"""Each byte of uninitialized memory: a NaN for floats, -1 for integers."""


def _arena(op: ArenaOp, operands: Sequence[Any], wide: bool) -> Sequence[Any]:
    type = op.arena.type
    assert isinstance(type, ArenaType)
    return [torch.empty(type.bytes.data * (_WIDER if wide else 1), dtype=torch.uint8, device=type.device.data)]


def _alloc(op: AllocOp, operands: Sequence[Any], wide: bool) -> Sequence[Any]:
    type = op.buffer.type
    if isinstance(type, ArenaType):
        start, end = (bytes * (_WIDER if wide else 1) for bytes in (op.start(), op.start() + op.needed()))
        return [operands[0][start:end].fill_(NOTHING)]
    known = {
        number.type.expression.data: value
        for number, value in zip(op.numbers, operands, strict=False)
        if isinstance(number.type, types.IntType)
    }
    dims = [value_at(size, known) for size in sizes_of(type)]
    steps = [value_at(step, known) for step in strides_of(type)]
    dtype = _dtype(type, wide)
    if op.arena is None:
        return [torch.empty_strided(dims, steps, dtype=dtype, device=types.device(type))]
    start = op.start() * (_WIDER if wide else 1)
    end = start + op.needed() // torch_dtype(type.element_type).itemsize * dtype.itemsize
    return [operands[0][start:end].fill_(NOTHING).view(dtype).as_strided(dims, steps)]


def _view(op: ViewOp, operands: Sequence[Any], wide: bool) -> Sequence[Any]:
    return [operands[0].as_strided(sizes_of(tensor_of(op.result)), strides_of(tensor_of(op.result)))]


def _dtype(type: TensorType, wide: bool) -> torch.dtype:
    dtype = torch_dtype(type.element_type)
    if wide and dtype.is_complex:
        return torch.complex128
    return torch.float64 if wide and dtype.is_floating_point else dtype


def _launch(op: LaunchOp, operands: Sequence[Any], wide: bool) -> Sequence[Any]:
    inputs = len(op.inputs)
    launch_into(op, operands[:inputs], operands[inputs:], wide=wide)
    return []


def _bring(op: BringOp, operands: Sequence[Any], wide: bool) -> Sequence[Any]:
    return [operands[0].to(types.device(tensor_of(op.result)))]


def _record(op: RecordOp, operands: Sequence[Any], wide: bool) -> Sequence[Any]:
    return [None]


def _wait(op: WaitOp, operands: Sequence[Any], wide: bool) -> Sequence[Any]:
    return []


RULES: Mapping[type[Operation], Rule] = MappingProxyType(
    {
        ArenaOp: _arena,
        AllocOp: _alloc,
        ViewOp: _view,
        LaunchOp: _launch,
        BringOp: _bring,
        RecordOp: _record,
        WaitOp: _wait,
    }
)

OPS = tuple(RULES)


def check_streams(block: Block) -> None:
    """Raise KernelError if operations of ``block`` use the same memory on streams without an ordering event.

    This interpreter runs operations sequentially, so wrong order would not change numbers.
    """
    if any(STREAM in op.attributes for op in block.ops):
        try:
            check_order(block)
        except OpVerifyException as error:
            raise KernelError(str(error), op=one_line(error.op), place=place_of(error.op)) from error


def _is_strided(value: Any) -> bool:
    """Whether ``value`` is a tensor with addresses; packed weights have none."""
    return isinstance(value, torch.Tensor) and value.layout is torch.strided


def release(tensors: Sequence[Any], others: Sequence[Any], arenas: Sequence[torch.Tensor]) -> None:
    """Overwrite the memory of those ``tensors`` in one of ``arenas`` that no tensor of ``others`` uses."""
    starts = {arena.untyped_storage().data_ptr() for arena in arenas}
    used = [memory_range(other) for other in others if _is_strided(other)]
    for tensor in tensors:
        if not (_is_strided(tensor) and tensor.numel() and tensor.untyped_storage().data_ptr() in starts):
            continue
        first, end = memory_range(tensor)
        if not any(start < end and first < stop for start, stop in used):
            memory = tensor.untyped_storage()
            whole = torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(memory)
            whole[first - memory.data_ptr() : end - memory.data_ptr()].fill_(NOTHING)
