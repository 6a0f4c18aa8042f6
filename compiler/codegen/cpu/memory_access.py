"""Single memory accesses: a contiguous vector, one element, or a gather or scatter; and the memory format of values."""

from __future__ import annotations

from fxc.codegen.cpu.builder import Builder, all_true, constant, i32
from fxc.codegen.cpu.types import PTR, Type, Value


def from_memory(b: Builder, value: Value, type: Type) -> Value:
    """Convert a value from its memory format: a byte becomes i1 for booleans, other types stay."""
    if type.element == "i1":
        return b.compare("ne", value, constant(value.type, 0))
    return Value(value.text, type)


def to_memory(b: Builder, value: Value) -> Value:
    return b.cast("zext", value, "i8") if value.type.element == "i1" else value


def byte_count(type: Type) -> int:
    return type.bits // 8


def load_run(b: Builder, address: Value, type: Type, mask: Value | None, other: Value | None) -> Value:
    align = byte_count(type)
    if mask is None or type.lanes is None:
        return b.emit(type, f"load {type}, {address}, align {align}")
    assert other is not None
    return b.call(f"llvm.masked.load.{type.suffix}.p0", type, address, i32(align), mask, b.splat(other, type.lanes))


def store_run(b: Builder, address: Value, value: Value, mask: Value | None) -> None:
    align = byte_count(value.type)
    if mask is None:
        b.line(f"store {value}, {address}, align {align}")
    else:
        mask = _opaque(b, mask) if "avx512f" in b.module.features and value.type.element in _TRUNCATED else mask
        b.call_void(f"llvm.masked.store.{value.type.suffix}.p0", value, address, i32(align), mask)


_TRUNCATED = ("i8", "i16", "i32", "half", "bfloat")
"""Types in memory that may be truncations of wider computed values."""


def _opaque(b: Builder, mask: Value) -> Value:
    """``mask`` in a form that LLVM cannot constant-fold.

    For a constant mask with one set lane, LLVM 22 with AVX-512 turns a store of truncated integers into a store of the wide
    integer, which writes beyond the element.
    """
    assert mask.type.lanes is not None
    zero = b.emit(Type("i8"), 'call i8 asm "", "=r,0"(i8 0)')
    return b.binary("or", mask, b.splat(b.compare("ne", zero, constant(zero.type, 0)), mask.type.lanes))


def gather(b: Builder, pointer: Value, offsets: Value, type: Type, mask: Value | None, other: Value | None) -> Value:
    addresses = b.address(pointer, type.with_lanes(None), offsets)
    if type.lanes is None:
        return load_one(b, addresses, type, mask, other)
    mask = all_true(type.lanes) if mask is None else mask
    other = Value("poison", type) if other is None else b.splat(other, type.lanes)
    name = f"llvm.masked.gather.{type.suffix}.v{type.lanes}p0"
    return b.call(name, type, addresses, i32(byte_count(type)), mask, other)


def scatter(b: Builder, pointer: Value, offsets: Value, value: Value, mask: Value | None) -> None:
    addresses = b.address(pointer, value.type.with_lanes(None), offsets)
    lanes = value.type.lanes
    if lanes is None:
        return store_one(b, addresses, value, mask)
    mask = all_true(lanes) if mask is None else mask
    b.call_void(f"llvm.masked.scatter.{value.type.suffix}.v{lanes}p0", value, addresses, i32(byte_count(value.type)), mask)
    return None


def _harmless(b: Builder, address: Value, mask: Value) -> Value:
    """``address``, or if ``mask`` is false the address of a constant zero, which is always readable."""
    b.module.declarations["@fxc.zeros"] = "@fxc.zeros = private unnamed_addr constant i64 0"
    return b.select(mask, address, Value("@fxc.zeros", PTR))


def load_one(b: Builder, address: Value, type: Type, mask: Value | None, other: Value | None) -> Value:
    if mask is None:
        return b.emit(type, f"load {type}, {address}, align {byte_count(type)}")
    assert other is not None
    read = b.emit(type, f"load {type}, {_harmless(b, address, mask)}, align {byte_count(type)}")
    return b.select(mask, read, other)


def store_one(b: Builder, address: Value, value: Value, mask: Value | None) -> None:
    if mask is None:
        b.line(f"store {value}, {address}, align {byte_count(value.type)}")
        return
    store, done = b.name("store"), b.name("stored")
    b.branch_if(mask, store, done)
    b.label(store)
    b.line(f"store {value}, {address}, align {byte_count(value.type)}")
    b.branch(done)
    b.label(done)
