"""Print addresses, masks, loads and stores."""

from __future__ import annotations

import json
from collections.abc import Sequence

from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Operation, SSAValue

from fxc.codegen.triton.writer import KernelWriter, refusal
from fxc.dialects.tile import AssertOp, AtomicOp, GatherOp, IotaOp, LoadOp, MaskOp, ScatterOp, StoreOp
from fxc.dialects.tile.memory import ATOMICS
from fxc.dialects.tile.types import element_of, shape_of

STORES = (StoreOp, ScatterOp, *ATOMICS.values())
_WRITTEN = frozenset([AssertOp, IotaOp, MaskOp, LoadOp, GatherOp, *STORES])


def lanes(size: int, dim: int, rank: int) -> str:
    """The lane indices along ``dim`` in a block with ``rank`` dimensions: ``tl.arange(0, 32)[None, :]``."""
    places = ", ".join(":" if each == dim else "None" for each in range(rank))
    return f"tl.arange(0, {size})" + (f"[{places}]" if rank > 1 else "")


def write_memory(writer: KernelWriter, op: Operation) -> bool:
    """Write the lines of a load, store or mask. False if ``op`` is another op."""
    if type(op) not in _WRITTEN:
        return False
    match op:
        case AssertOp():
            writer.line(f"tl.device_assert({writer.typed(op.condition)}, {json.dumps(op.message.data)})")
        case IotaOp():
            writer.assign(op.result, _iota(writer, op))
        case MaskOp():
            shape, dim = shape_of(op.result.type), op.dim.value.data
            places = lanes(shape[dim], dim, len(shape))
            if writer.ranges.bits == 64:
                places += ".to(tl.int64)"
            start = "" if writer.constant(op.start) == 0 else f"{writer.text(op.start)} + "
            writer.assign(op.result, _stretched(f"{start}{places} < {writer.text(op.stop)}", shape, dim))
        case LoadOp() | GatherOp():
            # Write a barrier if pointer was stored to: only after it do all threads of a program see the stores.
            if op.pointer in writer.unseen:
                writer.line("tl.debug_barrier()")
                writer.unseen.clear()
            writer.assign(op.result, f"tl.load({', '.join([_address(writer, op), *_masked(writer, op.mask, op.other)])})")
        case StoreOp() | ScatterOp():
            values = [_address(writer, op), writer.typed(op.value), *_masked(writer, op.mask)]
            writer.line(f"tl.store({', '.join(values)})")
            writer.unseen.add(op.pointer)
        case AtomicOp():
            element = element_of(op.value.type)
            if isinstance(element, IntegerType) and element.bitwidth < 32:
                raise refusal(op, f"no GPU adds {element} atomically", "add into i32")
            values = [_address(writer, op), writer.typed(op.value), *_masked(writer, op.mask), 'sem="relaxed"']
            writer.line(f"tl.atomic_{op.KIND}({', '.join(values)})")
            writer.unseen.add(op.pointer)
        case _:
            return False
    return True


def _iota(writer: KernelWriter, op: IotaOp) -> str:
    shape, dim = shape_of(op.result.type), op.dim.value.data
    return _stretched(f"{lanes(shape[dim], dim, len(shape))}.to({writer.dtype(op.result.type)})", shape, dim)


def _stretched(expression: str, shape: Sequence[int], dim: int) -> str:
    """``expression``, which varies along ``dim`` only, broadcast to ``shape``."""
    alone = all(size == 1 for other, size in enumerate(shape) if other != dim)
    return expression if alone else f"tl.broadcast_to({expression}, {tuple(shape)})"


def _masked(writer: KernelWriter, mask: SSAValue | None, other: SSAValue | None = None) -> list[str]:
    values = {"mask": mask, "other": other}
    return [f"{name}={writer.text(value)}" for name, value in values.items() if value is not None]


def _address(writer: KernelWriter, op: LoadOp | StoreOp | GatherOp | ScatterOp | AtomicOp) -> str:
    """The pointers of all lanes: the sum of the pointer, the base and the steps along each dimension."""
    pointer = writer.names[op.pointer]
    if not isinstance(op, (LoadOp, StoreOp)):
        return f"{pointer} + {writer.typed(op.offsets)}"
    shape = shape_of(op.result.type if isinstance(op, LoadOp) else op.value.type)
    start = pointer if writer.constant(op.base) == 0 else f"{pointer} + {writer.text(op.base)}"
    steps = [
        (dim, _step(writer, lanes(size, dim, len(shape)), size, stride))
        for dim, (size, stride) in enumerate(zip(shape, op.strides(), strict=True))
        if size > 1 and _number(writer, stride) != 0
    ]
    address = " + ".join([start, *(step for _, step in steps)])
    return address if _covers([dim for dim, _ in steps], shape) else f"tl.broadcast_to({address}, {tuple(shape)})"


def _covers(dims: Sequence[int], shape: Sequence[int]) -> bool:
    """Whether a sum of steps along ``dims`` has the shape of the block."""
    return (bool(dims) or not shape) and all(size == 1 or dim in dims for dim, size in enumerate(shape))


def _step(writer: KernelWriter, places: str, size: int, stride: int | SSAValue) -> str:
    number = _number(writer, stride)
    if number == 1:
        return places
    if number is None:
        return f"{places} * {writer.text(stride)}"  # type: ignore[arg-type]
    is_far = abs(number) * size >= 1 << 31
    return f"{places}.to(tl.int64) * {number}" if is_far else f"{places} * {number}"


def _number(writer: KernelWriter, stride: int | SSAValue) -> int | None:
    if isinstance(stride, int):
        return stride
    number = writer.constant(stride)
    return None if number is None else int(number)
