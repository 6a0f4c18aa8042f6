"""Lower loads and stores of blocks, and ``tile.assert``, which stores the number of the failed assertion in memory.

Contiguous elements are one vector access. A transposed block is loaded in contiguous runs and permuted. Other blocks are
gathered and scattered lane by lane.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from types import MappingProxyType

import numpy as np
from xdsl.ir import SSAValue

from fxc.codegen.cpu.arith_rules import Rule
from fxc.codegen.cpu.block_rules import places
from fxc.codegen.cpu.builder import Builder, all_true, constant, i32, i64
from fxc.codegen.cpu.conversions import extend, truncate
from fxc.codegen.cpu.lanes import join, numbers, permute, pick, pieces, stretch
from fxc.codegen.cpu.types import I1, I16, I64, PTR, Type, Value, llvm_type, storage
from fxc.dialects.tile import AssertOp, AtomicOp, GatherOp, KernelOp, LoadOp, ScatterOp, StoreOp
from fxc.dialects.tile.memory import ATOMICS
from fxc.dialects.tile.types import shape_of


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
    # LLVM 22 without AVX-512 splits a wider load itself; where part of the mask is known to be false, it then crashes or reads
    # that part without a mask
    step = min(b.module.features.vector_bits // type.bits, type.lanes)
    parts = list[Value]()
    for start in range(0, type.lanes, step):
        lanes = np.arange(start, min(start + step, type.lanes))
        part, wanted = type.with_lanes(len(lanes)), mask if len(lanes) == type.lanes else pick(b, mask, lanes)
        place = b.address(address, type.with_lanes(None), i64(start))
        name = f"llvm.masked.load.{part.suffix}.p0"
        parts.append(b.call(name, part, place, i32(align), wanted, b.splat(other, len(lanes))))
    return join(b, parts)


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


def atomic(b: Builder, op: AtomicOp, value: Value, pointer: Value, offsets: Value, *more: Value) -> None:
    """Lower an atomic operation to a loop over the lanes."""
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
        _one(b, op, value, pointer, offset, None)
        b.branch(skipped)
        b.label(skipped)
        return
    address = b.address(pointer, value.type, offset)
    if value.type.element in ("half", "bfloat"):
        _add_half(b, value, address)
    else:
        kind = "fadd" if value.type.is_float else op.KIND
        b.emit(value.type, f"atomicrmw {kind} {address}, {value} monotonic, align {byte_count(value.type)}")


def _add_half(b: Builder, value: Value, address: Value) -> None:
    """Atomic add in half precision as a compare-and-exchange loop, since no CPU has an instruction for it."""
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


_SHORTEST_RUN = 4
"""For shorter contiguous runs, loading lane by lane is as fast."""

_LONGEST_STEP = 8
"""For larger strides between lanes, a gather is as fast as loading the elements in between."""


@dataclass(frozen=True)
class _Place:
    """The memory location of the lanes of a block: ``base`` and one stride per dimension, in elements of type ``element``."""

    pointer: Value
    base: Value
    shape: tuple[int, ...]
    strides: tuple[int | Value, ...]
    element: Type

    def order(self) -> list[int]:
        """The dimensions in memory order: the contiguous dimensions come last, that of stride 1 at the end."""
        wide = [dim for dim, size in enumerate(self.shape) if size > 1]
        tail, length = list[int](), 1
        while found := [dim for dim in wide if dim not in tail and self.strides[dim] == length]:
            tail.insert(0, found[-1])
            length *= self.shape[found[-1]]
        return [dim for dim in range(len(self.shape)) if dim not in tail] + tail

    def run(self) -> int:
        """The number of contiguous lanes in ``order``."""
        order, length = self.order(), 1
        for dim in reversed(order):
            if self.shape[dim] == 1:
                continue
            if self.strides[dim] != length:
                break
            length *= self.shape[dim]
        return length

    def offset(self, b: Builder, indices: Sequence[int], dims: Sequence[int]) -> Value:
        """The offset of one element: base plus the sum of index times stride over ``dims``."""
        fixed, total = 0, self.base
        for index, dim in zip(indices, dims, strict=True):
            stride = self.strides[dim]
            if isinstance(stride, int):
                fixed += index * stride
            elif index:
                total = b.add(total, stride if index == 1 else b.mul(stride, i64(index)))
        return b.add(total, i64(fixed)) if fixed else total

    def offsets(self, b: Builder) -> Value:
        """The offset of every lane, as a vector."""
        lanes = prod(self.shape) if self.shape else None
        total = b.splat(self.base, lanes)
        for dim, stride in enumerate(self.strides):
            if self.shape[dim] > 1 and stride != 0:
                step = b.splat(stride if isinstance(stride, Value) else i64(stride), lanes)
                total = b.add(total, b.mul(places(self.shape, dim, I64), step))
        return total


def _strides(op: LoadOp | StoreOp, dynamic: Sequence[Value]) -> tuple[int | Value, ...]:
    pending = iter(dynamic)
    return tuple(next(pending) if isinstance(stride, SSAValue) else int(stride) for stride in op.strides())


# strided blocks


def _load(b: Builder, op: LoadOp, pointer: Value, base: Value, *more: Value) -> Value:
    count = len(op.dynamic_strides)
    mask, other = more[count:] or (None, None)
    type, shape = llvm_type(op.result.type), shape_of(op.result.type)
    memory = storage(type)
    place = _Place(pointer, base, shape, _strides(op, more[:count]), memory.with_lanes(None))
    lying = None if other is None else to_memory(b, other)
    return from_memory(b, _load_place(b, place, memory, mask, lying), type)


def _load_place(b: Builder, place: _Place, type: Type, mask: Value | None, other: Value | None) -> Value:
    if type.lanes is None:
        return load_one(b, b.address(place.pointer, type, place.base), type, mask, other)
    repeated = [dim for dim, size in enumerate(place.shape) if size > 1 and place.strides[dim] == 0]
    if repeated:
        return _load_repeated(b, place, type, mask, other, repeated)
    run = place.run()
    if mask is None and (step := _step(b, place, type)) is not None:
        return _load_steps(b, place, type, step)
    if run < min(_SHORTEST_RUN, type.lanes):
        return gather(b, place.pointer, place.offsets(b), type, mask, other)
    order = place.order()
    count = type.lanes // run
    masks = [None] * count if mask is None else pieces(b, permute(b, mask, place.shape, order), count)
    addresses, part = _runs(b, place, order, run), type.with_lanes(run)
    loaded = join(b, [load_run(b, *each, other) for each in zip(addresses, [part] * count, masks, strict=True)])
    turned = [place.shape[dim] for dim in order]
    return permute(b, loaded, turned, [order.index(dim) for dim in range(len(order))])


def _runs(b: Builder, place: _Place, order: Sequence[int], run: int) -> list[Value]:
    """The address of each contiguous run of ``run`` lanes, in ``order``."""
    outer = list(order)
    while run > 1:
        run //= place.shape[outer.pop()]
    indices = product(*(range(place.shape[dim]) for dim in outer))
    return [b.address(place.pointer, place.element, place.offset(b, index, outer)) for index in indices]


def _step(b: Builder, place: _Place, type: Type) -> int | None:
    """The stride between lanes of a block with one dimension, if loading the elements in between is faster; else None."""
    wide = [stride for size, stride in zip(place.shape, place.strides, strict=True) if size > 1]
    if len(wide) != 1 or not isinstance(step := wide[0], int) or not 1 < step <= _LONGEST_STEP:
        return None
    return step if (type.lanes or 1) % _register(b, type) == 0 else None


def _register(b: Builder, type: Type) -> int:
    return max(b.module.features.vector_bits // max(type.bits, 32), _SHORTEST_RUN)


def _load_steps(b: Builder, place: _Place, type: Type, step: int) -> Value:
    """Load full registers and shuffle out the lanes. The last load ends at the last lane: memory beyond it may be invalid."""
    part, found = _register(b, type), list[Value]()
    for first in range(0, type.lanes or 1, part):
        starts = [*range(0, part * (step - 1), part), (part - 1) * step + 1 - part]
        total: Value | None = None
        for start in starts:
            place_of = b.add(place.base, i64(first * step + start)) if first or start else place.base
            vector = load_run(b, b.address(place.pointer, place.element, place_of), type.with_lanes(part), None, None)
            inside = [lane * step - start for lane in range(part)]
            lanes = [at if 0 <= at < part else -1 for at in inside]
            if total is None:
                total = b.shuffle(vector, lanes)
            else:
                total = b.shuffle(total, [lane if at < 0 else part + at for lane, at in enumerate(lanes)], vector)
        assert total is not None
        found.append(total)
    return join(b, found)


def _load_repeated(
    b: Builder, place: _Place, type: Type, mask: Value | None, other: Value | None, repeated: list[int]
) -> Value:
    """Load each element once and broadcast it to the lanes that repeat it. It is read if one of these is not masked off."""
    small = tuple(1 if dim in repeated else size for dim, size in enumerate(place.shape))
    lanes = prod(small)
    once = _Place(place.pointer, place.base, small, place.strides, place.element)
    wanted, instead = None, None
    if mask is not None:
        order = [dim for dim in range(len(small)) if dim not in repeated] + repeated
        groups = permute(b, mask, place.shape, order)
        wanted = _any_of_groups(b, groups, lanes)
        instead = constant(type.with_lanes(None), 0)
    loaded = stretch(b, _load_place(b, once, type.with_lanes(lanes), wanted, instead), small, place.shape)
    return loaded if mask is None or other is None else b.select(mask, loaded, b.splat(other, type.lanes))


def _any_of_groups(b: Builder, mask: Value, count: int) -> Value:
    """For each of ``count`` groups of consecutive lanes, whether any lane is true."""
    size = (mask.type.lanes or 1) // count
    if count == 1:
        found = b.call(f"llvm.vector.reduce.or.{mask.type.suffix}", I1, mask)
        return b.splat(found, 1)
    table = numbers((count, size))
    result = pick(b, mask, table[:, 0])
    for column in range(1, size):
        result = b.binary("or", result, pick(b, mask, table[:, column]))
    return result


def _store(b: Builder, op: StoreOp, value: Value, pointer: Value, base: Value, *more: Value) -> None:
    count = len(op.dynamic_strides)
    mask = more[count] if len(more) > count else None
    value, shape = to_memory(b, value), shape_of(op.value.type)
    lanes = value.type.lanes
    place = _Place(pointer, base, shape, _strides(op, more[:count]), value.type.with_lanes(None))
    if lanes is None:
        return store_one(b, b.address(pointer, place.element, base), value, mask)
    run = place.run()
    if run < min(_SHORTEST_RUN, lanes):
        return scatter(b, pointer, place.offsets(b), value, mask)
    order = place.order()
    values = pieces(b, permute(b, value, shape, order), lanes // run)
    masks = [None] * len(values) if mask is None else pieces(b, permute(b, mask, shape, order), len(values))
    for address, part, part_mask in zip(_runs(b, place, order, run), values, masks, strict=True):
        store_run(b, address, part, part_mask)
    return None


# blocks of elements at given offsets


def _tile_gather(b: Builder, op: GatherOp, pointer: Value, offsets: Value, *more: Value) -> Value:
    mask, other = more or (None, None)
    type = llvm_type(op.result.type)
    memory = storage(type)
    lying = None if other is None else to_memory(b, other)
    return from_memory(b, gather(b, pointer, offsets, memory, mask, lying), type)


def _tile_scatter(b: Builder, op: ScatterOp, value: Value, pointer: Value, offsets: Value, *more: Value) -> None:
    scatter(b, pointer, offsets, to_memory(b, value), more[0] if more else None)


STATUS = Value("%status", PTR)
"""The pointer to which functions of a kernel with assertions write the number."""


def messages(kernel: KernelOp) -> list[str]:
    """The messages of the assertions of ``kernel``; the first one has number 1."""
    return list(dict.fromkeys(op.message.data for op in kernel.walk() if isinstance(op, AssertOp)))


def _assert(b: Builder, op: AssertOp, condition: Value) -> None:
    """Store the assertion's number if it fails. Threads may write concurrently; the last failure is reported."""
    kernel = op.parent_op()
    while not isinstance(kernel, KernelOp):
        assert kernel is not None
        kernel = kernel.parent_op()
    if condition.type.lanes is not None:
        condition = b.call(f"llvm.vector.reduce.and.{condition.type.suffix}", I1, condition)
    failed, done = b.name("failed"), b.name("asserted")
    b.branch_if(condition, done, failed)
    b.label(failed)
    b.line(f"store atomic {i32(messages(kernel).index(op.message.data) + 1)}, {STATUS} monotonic, align 4")
    b.branch(done)
    b.label(done)


RULES: Mapping[str, Rule] = MappingProxyType(
    {
        "tile.assert": _assert,
        "tile.load": _load,
        "tile.store": _store,
        "tile.gather": _tile_gather,
        "tile.scatter": _tile_scatter,
        **{op.name: atomic for op in ATOMICS.values()},
    }
)
"""Op name -> rule."""
