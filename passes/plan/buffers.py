"""Liveness of the buffers of a block, whether they escape from it, and memory that an op may overwrite, as its last use."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import Rewriter
from xdsl.traits import IsTerminator

from fxc.dialects.attributes.values import isa
from fxc.dialects.base.effects import aliases, is_pure, may_retain
from fxc.dialects.plan import AllocOp, ArenaType, FreeOp, aligned, released, stream_of
from fxc.dialects.plan.accesses import Clocks, only_names
from fxc.dialects.plan.lifetimes import MemoryNames, reads
from fxc.dialects.torch_ops import TorchOp, op_class
from fxc.dialects.torch_ops.effects import BORROWING_NAMESPACES, RESHAPED_IN_PLACE
from fxc.passes.analysis.statistics import count
from fxc.passes.plan.offsets import LiveRange


@dataclass(eq=False)
class Buffer:
    """The memory of one ``plan.alloc``.

    ``start``, ``end``: the positions in the block of its allocation and its last release; ``end`` is None if it has none.
    ``uses``: stream -> the time of its last op that uses the buffer; empty if there is only one stream. ``over``: the position
    from which on every stream is ordered after all uses; None if there is no such position, or no ``end``. ``is_seen``: it is
    returned, or passed to an op that may save it.
    """

    op: AllocOp
    start: int
    end: int | None = None
    uses: dict[int, int] = field(default_factory=dict[int, int])
    over: int | None = None
    is_seen: bool = False

    @property
    def bytes(self) -> int:
        """The size in an arena; 0 if it is not known before the call."""
        return 0 if self.op.numbers else aligned(self.op.needed())

    @property
    def device(self) -> str:
        return self.op.device

    @property
    def is_part(self) -> bool:
        """Whether it is the arena of a called function."""
        return isinstance(self.op.buffer.type, ArenaType)

    @property
    def stream(self) -> int | None:
        """The only stream that uses it; None if there are several."""
        streams = self.uses.keys() or {0}
        return next(iter(streams)) if len(streams) == 1 else None

    def span(self, length: int, *, on_all: bool = False) -> LiveRange:
        """The live range in a block of ``length`` ops. ``on_all``: until every stream is ordered after all uses."""
        end = self.over if on_all else self.end
        return LiveRange(self.bytes, self.start, length if end is None else end)

    @property
    def is_inside(self) -> bool:
        """Whether its memory is dead after ``end``."""
        return self.end is not None and not self.is_seen


class Buffers:
    """Tracks the buffers of a block. ``walk`` yields each op before it is processed. ``clocks``: the order of the streams."""

    def __init__(self) -> None:
        self.found = list[Buffer]()
        self._of = dict[SSAValue, Buffer]()
        """Result of a ``plan.alloc`` -> its buffer."""
        self._names = MemoryNames(released)
        self.used = set[SSAValue]()
        """The values that the ops so far have read or written."""
        self.clocks = Clocks()
        self._streams = {0}
        self._in_use = set[Buffer]()
        """Released buffers that a stream may still access."""

    def walk(self, block: Block) -> Iterator[Operation]:
        self._streams |= set(map(stream_of, block.ops))
        for place, op in enumerate(list(block.ops)):
            if op.parent is block:
                yield op
            if op.parent is block:
                self._step(place, op)

    def _step(self, place: int, op: Operation) -> None:
        if isinstance(op, AllocOp):
            self._of[op.buffer] = Buffer(op, place)
            self.found.append(self._of[op.buffer])
            self._names.make(op.buffer)
            return
        if self.clocks.follow(op):
            self._settle(place)
            return
        values = list(reads(op))
        if len(self._streams) > 1 and not only_names(op):
            stream = stream_of(op)
            time = self.clocks.run(stream)
            for buffer in self._buffers(values):
                buffer.uses[stream] = time
        self.used.update(values)
        if op.has_trait(IsTerminator) or may_retain(op):
            for buffer in self._buffers(values):
                buffer.is_seen = True
        for memory in self._names.step(op):
            self._of[memory].end = place
            self._in_use.add(self._of[memory])
        self._settle(place)

    def _settle(self, place: int) -> None:
        """Record the buffers that all streams have finished using."""
        for buffer in [buffer for buffer in self._in_use if all(self.is_over(buffer, stream) for stream in self._streams)]:
            buffer.over = place
            self._in_use.remove(buffer)

    def of(self, value: SSAValue) -> list[Buffer]:
        """The buffers that ``value`` may alias."""
        return [self._of[memory] for memory in self._names.memory.get(value, ())]

    def is_only_name(self, value: SSAValue, buffer: Buffer) -> bool:
        """Whether ``value`` is the only unreleased alias of ``buffer``."""
        return self._names.open[buffer.op.buffer] == {value}

    def rename(self, value: SSAValue, view: SSAValue) -> None:
        """From here on, ``view`` instead of ``value`` names the memory of ``value``."""
        self._names.share(view, value)
        for memory in self._names.memory.get(value, ()):
            self._names.open[memory].discard(value)

    def is_over(self, buffer: Buffer, stream: int) -> bool:
        """Whether the next op on ``stream`` is ordered after all uses of ``buffer`` so far."""
        return all(self.clocks.is_over(user, time, stream) for user, time in buffer.uses.items())

    def _buffers(self, values: list[SSAValue]) -> Iterator[Buffer]:
        for value in values:
            yield from self.of(value)


def buffers_of(block: Block) -> list[Buffer]:
    """The buffers of ``block``, in order of allocation."""
    buffers = Buffers()
    for _ in buffers.walk(block):
        pass
    return buffers.found


def ends_with(value: SSAValue, op: Operation) -> bool:
    """Whether ``op`` is the last use of the memory ``value``, which is released immediately after it.

    The memory must be allocated for ``value`` alone, outside of arenas, and have no views.
    """
    release = op.next_op
    if not isinstance(release, FreeOp) or value not in release.values or not _is_local(value):
        return False
    makers = [value.owner] if isinstance(value.owner, TorchOp) else []
    return is_only_lent(value, op) and all(stream_of(each) == stream_of(op) for each in makers)


def is_only_lent(value: SSAValue, last: Operation) -> bool:
    """Whether ``last`` is the last user of ``value``, takes it once, and no user aliases or saves it. All use one stream."""
    if [*last.operands].count(value) != 1:
        return False
    others = [use.operation for use in value.uses if use.operation not in (last, last.next_op)]
    return all(
        stream_of(each) == stream_of(last)
        and each.parent is last.parent
        and each.is_before_in_block(last)
        and not _hands_on(each, value)
        for each in others
    )


def is_spent(value: SSAValue, op: Operation) -> bool:
    """Whether all users of ``value`` and its views come before ``op`` on the same stream, and do not save it."""
    names = [value]
    for name in names:
        for user in {use.operation for use in name.uses}:
            is_before = user.parent is op.parent and user.is_before_in_block(op) and stream_of(user) == stream_of(op)
            if not is_before or user.regions or may_retain(user):
                return False
            names += [user.results[i] for i, source in aliases(user) if source is name and user.results[i] not in names]
    return True


def _is_local(value: SSAValue) -> bool:
    """Whether ``value`` is memory that its op allocated for it alone, outside of arenas."""
    made = value.owner
    if isinstance(made, AllocOp):
        return made.arena is None
    if not isinstance(made, TorchOp) or not is_pure(made) or may_retain(made):
        return False
    return all(made.results[index] is not value for index, _ in aliases(made))


def _hands_on(op: Operation, value: SSAValue) -> bool:
    """Whether ``op`` has a result that aliases ``value``, or may save or release ``value``."""
    named = (operand is value and op.results[index].first_use is not None for index, operand in aliases(op))
    return isinstance(op, FreeOp) or bool(op.regions) or op.has_trait(IsTerminator) or may_retain(op) or any(named)


def leaves(value: SSAValue) -> bool:
    """Whether ``value`` or a view of it is returned, or passed to an op that may save it."""
    names = [value]
    for name in names:
        for op in {use.operation for use in name.uses}:
            if op.has_trait(IsTerminator) or may_retain(op):
                return True
            names += [op.results[i] for i, source in aliases(op) if source is name and op.results[i] not in names]
    return False


def unrelease(value: SSAValue) -> None:
    """Remove the releases of ``value``."""
    for release in [use.operation for use in value.uses if isinstance(use.operation, FreeOp)]:
        rest = [each for each in release.operands if each is not value]
        if rest:
            release.operands = rest
        else:
            Rewriter.erase_op(release)


# in-place variants of operators, for operands without later uses


def update_dying_operands(block: Block) -> None:
    """Replace operators of ``block`` by in-place variants that update a dead operand of the type of the result.

    The operand must have no aliases and be released immediately after the operator.
    """
    for op in list(block.ops):
        update = update_of(op) if isinstance(op, TorchOp) and isinstance(op.next_op, FreeOp) else None
        if isinstance(op, TorchOp) and update is not None and ends_with(update.operand, op):
            unrelease(update.operand)
            arguments = update.variant.divide(op.bound())
            call = update.variant.build_call(*arguments, op.result_types, attributes=op.attributes, location=op.location)
            Rewriter.replace_op(op, call, [update.operand], safe_erase=False)
            count("operators in place")


class Update(NamedTuple):
    """An in-place variant of an operator, which writes its result to ``operand``."""

    variant: type[TorchOp]
    operand: SSAValue


def update_of(op: TorchOp) -> Update | None:
    """The in-place variant of ``op``, as ``add_`` for ``add``, if it writes one operand of the result's type; else None."""
    namespace, name, overload = op.operator.split(".")
    if namespace not in BORROWING_NAMESPACES or f"{name}_" in RESHAPED_IN_PLACE:
        return None
    if len(op.results) != 1 or not is_pure(op) or any(aliases(op)):
        return None
    cls = op_class(f"torch.{namespace}.{name}_.{overload}")
    if cls is None or not issubclass(cls, TorchOp):
        return None
    written = [argument.name for argument in cls.SCHEMA.arguments if argument.writes]
    mine, theirs = op.SCHEMA.by_name, cls.SCHEMA.by_name
    if len(written) != 1 or mine.keys() != theirs.keys():
        return None
    if any(theirs[each] != mine[each] for each in mine if each != written[0]):
        return None
    operand = op.bound().get(written[0])
    return Update(cls, operand) if isa(operand, SSAValue) and operand.type == op.results[0].type else None
