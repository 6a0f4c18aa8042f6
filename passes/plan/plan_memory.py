"""Place buffers in shared arenas, those of called functions included.

Assumes  the plan level (``convert-to-plan``): a ``plan.alloc`` per buffer, a ``plan.free`` after the last use of each
         value.
Ensures  buffers that do not leave the function, of at most ``largest`` bytes if given, are in one ``plan.arena`` per
         device and stream, at offsets where no two in use at one time overlap. ``plan.memory`` states ``arena``,
         ``peak``, ``lower_bound`` and ``sum`` in bytes. The verifier checks that none overlap. Idempotent.
Leaves   buffers that are returned, also by a view, or that a call may save; results that operators allocate; the order
         of operations; arenas of functions whose calls are not marked ``plan.borrows``.
Cost     two walks, and n log n for n buffers, for at most eight sets of buffers.

Before:
    func.func @main(%x: tensor<4x8xf32>, %y: tensor<8x8xf32>) -> tensor<4xf32> {
      %m = plan.alloc : tensor<4x8xf32>
      %0 = torch.aten.mm.out(%x, %y, out = %m) : (tensor<4x8xf32>, tensor<8x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
      %n = plan.alloc : tensor<4x8xf32>
      %1 = torch.aten.exp.out(%m, out = %n) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
      plan.free %m : tensor<4x8xf32>
      %s = torch.aten.sum.dim_IntList(%n, [1]) : (tensor<4x8xf32>) -> tensor<4xf32>
      plan.free %n : tensor<4x8xf32>
      fx.output((%s,)) : (tensor<4xf32>) -> ()
    }
After:
    func.func @main(%x: tensor<4x8xf32>, %y: tensor<8x8xf32>) -> tensor<4xf32> attributes {
      plan.memory = {arena = 256 : i64, peak = 320 : i64, lower_bound = 256 : i64, sum = 320 : i64}
    } {
      %arena = plan.arena : !plan.arena<256, "cpu">
      %m = plan.alloc %arena[0] : tensor<4x8xf32>
      %0 = torch.aten.mm.out(%x, %y, out = %m) : (tensor<4x8xf32>, tensor<8x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
      %n = plan.alloc %arena[128] : tensor<4x8xf32>
      %1 = torch.aten.exp.out(%m, out = %n) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
      plan.free %m : tensor<4x8xf32>
      %s = torch.aten.sum.dim_IntList(%n, [1]) : (tensor<4x8xf32>) -> tensor<4xf32>
      plan.free %n : tensor<4x8xf32>
      fx.output((%s,)) : (tensor<4xf32>) -> ()
    }
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr, ModuleOp, UnitAttr, i64
from xdsl.dialects.func import CallOp, FuncOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from fxc.dialects.attributes import types
from fxc.dialects.attributes.discardable import BORROWS, ONCE, SHORT_LIVED
from fxc.dialects.attributes.types import is_tensor, tensor_of
from fxc.dialects.attributes.values import int_attr
from fxc.dialects.base.effects import aliases
from fxc.dialects.plan import STREAM, AllocOp, ArenaOp, FreeOp, aligned, released, storage_bytes
from fxc.dialects.plan.lifetimes import MemoryNames
from fxc.dialects.text.syntax import copy_names
from fxc.passes.analysis.statistics import count
from fxc.passes.plan.buffers import Buffer, buffers_of
from fxc.passes.plan.calls import Callee, callees
from fxc.passes.plan.offsets import LiveRange, MemoryPlan, best_layout, lower_bound

MEMORY = "plan.memory"
FACTS = {
    "arena": "bytes of arenas",
    "peak": "bytes at the peak",
    "lower_bound": "bytes in use at most",
    "sum": "bytes of all buffers",
}


@dataclass(frozen=True)
class PlanMemoryPass(ModulePass):
    """The layout is the best of three: best fit in order of time, in reverse order, and by size. A buffer that several
    streams use is live until events order each stream after its uses (``assign-streams``). If a private function has
    one arena, that is its last argument, a part of each caller's arena, live during the call.

    An arena exists during the whole call, and memory that operators allocate adds to it. On the CPU, without
    ``largest``, larger buffers stay outside, marked ``plan.short_lived``, if that lowers the peak. Buffers of more than 32 MiB
    are always in the arena, since the system would clear each of them at each allocation. With ``largest``, all buffers
    outside of the arena are marked, results included, up to 32 MiB.

    ``arena``: bytes of the arenas; ``peak``: maximum allocated at one time; ``lower_bound``: maximum live at one time;
    ``sum``: all buffers. Each includes memory that operators and functions allocate, if types determine its size.
    """

    name = "plan-memory"

    largest: int | None = field(default=None, metadata={"minimum": 0})

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        known = {callee.function: callee for callee in callees(op)}
        rest = [inner for inner in op.ops if isinstance(inner, FuncOp) and inner not in known]
        taken = dict[str, Mapping[str, int]]()
        """Function -> device -> the maximum bytes that a call allocates at one time, arguments not included."""
        for function in (*known, *rest):  # callees first
            if not _is_open(function):
                continue
            name, block = function.sym_name.data, function.body.block
            if any(isinstance(inner, AllocOp) for inner in block.ops):
                facts = _place(function, self.largest, taken)
                is_given = function in known and _take_from_callers(known[function])
                taken[name] = {device: each["peak"] - (each["arena"] if is_given else 0) for device, each in facts.items()}
            elif function in known:
                taken[name] = {device: lower_bound(found) for device, found in Outside(block, taken).of.items()}


def _is_open(function: FuncOp) -> bool:
    """Whether ``function`` has one block and no ``plan.memory`` yet."""
    block = function.body.first_block
    return block is not None and block is function.body.last_block and MEMORY not in function.attributes


def _take_from_callers(callee: Callee) -> bool:
    """Move the arena of ``callee`` into that of each caller, if it has one arena on one stream. Returns whether it did."""
    arenas = [op for op in callee.block.ops if isinstance(op, ArenaOp)]
    blocks = {callee.block, *(call.parent for call in callee.calls)}
    on_streams = any(STREAM in op.attributes for block in blocks if block is not None for op in block.ops)
    are_open = all(BORROWS in call.attributes and _is_open(_caller(call)) for call in callee.calls)
    if len(arenas) != 1 or on_streams or not are_open:
        return False
    [arena] = arenas
    [argument] = callee.add_arguments([arena.arena.type])
    for call in callee.calls:
        call.operands = [*call.operands, _part(call, argument.type)]
    copy_names([arena.arena], [argument])
    Rewriter.replace_op(arena, [], [argument])
    count("arenas in others")
    return True


def _caller(call: CallOp) -> FuncOp:
    function = call.parent_op()
    assert isinstance(function, FuncOp)
    return function


def _part(call: CallOp, type: Attribute) -> SSAValue:
    """Allocate memory of ``type`` for ``call``, and release it after the call."""
    part = AllocOp.of(type)
    part.location, part.buffer.name_hint = call.location, "part"
    Rewriter.insert_op(part, InsertPoint.before(call))
    Rewriter.insert_op(FreeOp.of([part.buffer]), InsertPoint.after(call))
    return part.buffer


def _place(function: FuncOp, largest: int | None, taken: Mapping[str, Mapping[str, int]]) -> dict[str, dict[str, int]]:
    """Place the buffers of ``function``, and record the total memory in its attribute. Returns the memory of each device."""
    block, every_device = function.body.block, dict[str, dict[str, int]]()
    buffers, length = buffers_of(block), len(list(block.ops))
    outside = Outside(block, taken).of
    for device in sorted({buffer.device for buffer in buffers} | outside.keys()):
        here, beside = [buffer for buffer in buffers if buffer.device == device], outside[device]
        shared = [buffer for buffer in here if _may_share(buffer, largest)]
        if device == "cpu":
            others = [buffer for buffer in without(here, shared) if SMALL <= buffer.bytes <= MAPPED]
            short_lived = short_lived_buffers(here, shared, beside, length) if largest is None else others
            shared = without(shared, short_lived)
            for buffer in short_lived:
                buffer.op.attributes[SHORT_LIVED] = UnitAttr()
            count("short-lived buffers", len(short_lived))
        inside = defaultdict[int | None, list[Buffer]](list)
        for buffer in shared:
            inside[buffer.stream].append(buffer)
        every = spans(here, length) + beside
        facts = every_device[device] = {
            "arena": 0,
            "peak": lower_bound(spans(without(here, shared), length) + beside),
            "lower_bound": lower_bound(every),
            "sum": sum(span.size for span in every),
        }
        for stream, buffers_there in inside.items():
            layout = best_layout([buffer.span(length, on_all=stream is None) for buffer in buffers_there])
            facts["arena"] += layout.peak
            facts["peak"] += layout.peak
            _move_into_arena(block, device, stream or 0, buffers_there, layout)
    _report(function, [*every_device.values()])
    return every_device


def _may_share(buffer: Buffer, largest: int | None) -> bool:
    """Whether ``buffer`` may be placed in an arena."""
    return buffer.is_inside and buffer.bytes > 0 and (buffer.is_part or largest is None or buffer.bytes <= largest)


def _move_into_arena(block: Block, device: str, stream: int, buffers: Sequence[Buffer], layout: MemoryPlan) -> None:
    arena = ArenaOp.of(layout.peak, device)
    arena.arena.name_hint = "arena"
    if stream:
        arena.attributes[STREAM] = IntegerAttr(stream, i64)
    first = block.first_op
    assert first is not None
    Rewriter.insert_op(arena, InsertPoint.before(first))
    for buffer, offset in zip(buffers, layout.offsets, strict=True):
        old = buffer.op
        new = AllocOp.at(arena.arena, offset, old.buffer.type)
        new.attributes |= {name: value for name, value in old.attributes.items() if name != STREAM}
        new.location, new.buffer._name = old.location, old.buffer._name
        Rewriter.replace_op(old, new)
    count("buffers in arenas", len(buffers))


def _report(function: FuncOp, every_device: Sequence[Mapping[str, int]]) -> None:
    total = {name: sum(facts[name] for facts in every_device) for name in FACTS}
    function.attributes[MEMORY] = DictionaryAttr({name: int_attr(bytes) for name, bytes in total.items()})
    for name, text in FACTS.items():
        count(text, total[name])


# memory outside of the arenas of a function: allocations of operators and of called functions


class Outside:
    """Memory that the ops of a block allocate, if types determine its size. Plan-time calls are not included.

    ``of``: device -> the live ranges of the results that ops allocate, until the last alias is released, and of the memory
    that called functions use temporarily. ``taken``: function -> device -> bytes of a call, results included.
    """

    def __init__(self, block: Block, taken: Mapping[str, Mapping[str, int]]) -> None:
        self.of = defaultdict[str, list[LiveRange]](list)
        self._names = MemoryNames(released)
        self._start = dict[SSAValue, int]()
        length = 0
        for place, op in enumerate(block.ops):
            self._step(place, op, taken)
            length = place + 1
        for tensor in list(self._start):
            self._end(tensor, length)

    def _step(self, place: int, op: Operation, taken: Mapping[str, Mapping[str, int]]) -> None:
        if isinstance(op, (AllocOp, ArenaOp)) or ONCE in op.attributes:
            return
        shared = {index for index, _ in aliases(op)}
        made = [result for i, result in enumerate(op.results) if i not in shared and _bytes(result)]
        for result in made:
            self._names.make(result)
            self._start[result] = place
        if isinstance(op, CallOp):
            for there, bytes in taken.get(op.callee.string_value(), {}).items():
                if (rest := bytes - sum(_bytes(result) for result in made if types.device(tensor_of(result)) == there)) > 0:
                    self.of[there].append(LiveRange(rest, place, place + 1))
        for tensor in self._names.step(op):
            self._end(tensor, place)

    def _end(self, tensor: SSAValue, place: int) -> None:
        self.of[types.device(tensor_of(tensor))].append(LiveRange(_bytes(tensor), self._start.pop(tensor), place))


def _bytes(value: SSAValue) -> int:
    """The size of a tensor in bytes; 0 if its type does not determine it, or if ``value`` is not a tensor."""
    found = storage_bytes(value.type) if is_tensor(value.type) else None
    return 0 if found is None else aligned(found)


# buffers to place outside of the arena, which exists during the whole call, so that the call needs less memory


SMALL, MAPPED = 1 << 16, 1 << 25
"""The range of buffer sizes, in bytes, that are placed outside of the arena.

For smaller buffers, allocation costs more than the memory is worth. For larger ones, the C library maps memory from the system
at each allocation, and the system clears it.
"""
TRIED = 8
"""The number of buffer sizes, from the largest, that are considered as minimum size outside of the arena."""
NEAR = 1.03
"""The factor of memory over the minimum that is accepted for a larger arena."""


def short_lived_buffers(
    buffers: Sequence[Buffer], shared: Sequence[Buffer], beside: Sequence[LiveRange], length: int
) -> Sequence[Buffer]:
    """The buffers of ``shared`` from some size on that should be outside of the arena to minimize the peak memory.

    Empty if the peak is almost as low with all buffers in the arena, or if several streams use them. ``buffers``: all buffers
    of a block of ``length`` ops; ``beside``: the other allocations of the block.
    """
    if any(buffer.stream != 0 for buffer in shared):
        return ()
    able = [buffer for buffer in shared if SMALL < buffer.bytes <= MAPPED and not buffer.is_part]
    sizes = sorted({buffer.bytes for buffer in able}, reverse=True)[:TRIED]
    choices = [(), *([buffer for buffer in able if buffer.bytes >= size] for size in sizes)]
    takes = list[int]()
    for outside in choices:
        inside = without(shared, outside)
        takes.append(lower_bound(spans(inside, length)) + lower_bound([*spans(without(buffers, inside), length), *beside]))
    return next(each for each, bytes in zip(choices, takes, strict=True) if bytes <= min(takes) * NEAR)


def without(buffers: Sequence[Buffer], others: Sequence[Buffer]) -> list[Buffer]:
    """``buffers`` except ``others``."""
    known = set(others)
    return [buffer for buffer in buffers if buffer not in known]


def spans(buffers: Sequence[Buffer], length: int) -> list[LiveRange]:
    """The live range of each buffer in a block of ``length`` ops."""
    return [buffer.span(length) for buffer in buffers]
