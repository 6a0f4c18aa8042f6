"""``tile.atomic_add`` and its like: what is combined in memory that lanes, programs and threads share."""

from __future__ import annotations

from fxc.codegen.cpu.builder import Builder, i64
from fxc.codegen.cpu.conversions import extend, truncate
from fxc.codegen.cpu.memory_access import byte_count
from fxc.codegen.cpu.types import I1, I16, I64, Value
from fxc.dialects.tile import AtomicOp


def atomic(b: Builder, op: AtomicOp, value: Value, pointer: Value, offsets: Value, *more: Value) -> None:
    """Lane by lane, in a loop."""
    lanes = value.type.lanes
    if lanes is None:
        return _one(b, op, value, pointer, offsets, more[0] if more else None)
    start, head, body, done = b.current, b.name("lane"), b.name("add"), b.name("added")
    b.branch(head)
    b.label(head)
    lane, position = b.open_phi(I64, i64(0), start)
    b.branch_if(b.compare("slt", lane, i64(lanes)), body, done)
    b.label(body)
    mask = b.extract(more[0], lane) if more else None
    _one(b, op, b.extract(value, lane), pointer, b.extract(offsets, lane), mask)
    b.close_phi(position, b.add(lane, i64(1)), b.current)
    b.branch(head)
    b.label(done)
    return None


def _one(b: Builder, op: AtomicOp, value: Value, pointer: Value, offset: Value, mask: Value | None) -> None:
    if mask is not None:
        add, skipped = b.name("add"), b.name("skip")
        b.branch_if(mask, add, skipped)
        b.label(add)
    address = b.address(pointer, value.type, offset)
    if value.type.element in ("half", "bfloat"):
        _add_half(b, value, address)
    else:
        kind = "fadd" if value.type.is_float else op.KIND
        b.emit(value.type, f"atomicrmw {kind} {address}, {value} monotonic, align {byte_count(value.type)}")
    if mask is not None:
        b.branch(skipped)
        b.label(skipped)


def _add_half(b: Builder, value: Value, address: Value) -> None:
    """No CPU adds half precision in memory: read, add, and write unless another has written, until it works."""
    half, bits = value.type, I16
    first = b.emit(bits, f"load atomic i16, {address} monotonic, align 2")
    start, again, done = b.current, b.name("again"), b.name("done")
    b.branch(again)
    b.label(again)
    seen, position = b.open_phi(bits, first, start)
    old = Value(seen.text, half) if half.element == "bfloat" else b.cast("bitcast", seen, "half")
    new = truncate(b, b.add(extend(b, old, "float"), extend(b, value, "float")), half.element)
    new_bits = Value(new.text, bits) if half.element == "bfloat" else b.cast("bitcast", new, "i16")
    pair = b.emit(I1, f"cmpxchg weak {address}, {seen}, {new_bits} monotonic monotonic, align 2")
    found = b.emit(bits, f"extractvalue {{ i16, i1 }} {pair.text}, 0")
    swapped = b.emit(I1, f"extractvalue {{ i16, i1 }} {pair.text}, 1")
    b.close_phi(position, found, b.current)
    b.branch_if(swapped, done, again)
    b.label(done)
