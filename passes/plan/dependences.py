"""Which ops of a plan must come after which: because of memory, whose bytes others may use later, too."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from xdsl.ir import Block, Operation, SSAValue

from fxc.dialects.plan import AllocOp
from fxc.dialects.plan.accesses import Accesses, Touched


@dataclass(frozen=True)
class Step:
    """An op that runs on a stream; without one the caller, before the block. ``sources``: steps that it must come after."""

    op: Operation | None = None
    touched: Touched = field(default_factory=lambda: Touched((), (), is_barrier=True))
    sources: Collection[int] = ()


@dataclass
class Steps:
    """The steps of a block in order. ``makers``: tensors of their own -> the first step that uses them."""

    found: list[Step] = field(default_factory=lambda: [Step()])
    makers: dict[AllocOp, int] = field(default_factory=dict[AllocOp, int])


def steps_of(block: Block) -> Steps:
    """The steps of ``block``. A tensor of its own is made where it is first used, so that its making is no step."""
    accesses, steps, barrier = Accesses(), Steps(), 0
    writer, readers = dict[SSAValue, int](), defaultdict[SSAValue, list[int]](list)
    for op in block.ops:
        touched = accesses.step(op)
        if touched is None or isinstance(op, AllocOp):
            continue
        number, sources = len(steps.found), {barrier}
        if touched.is_barrier:
            sources.update(range(barrier, number))
            barrier = number
        for root in (*touched.reads, *touched.writes):
            if isinstance(root.owner, AllocOp) and root.owner.arena is None:
                steps.makers.setdefault(root.owner, number)
            for other in accesses.meets(root):
                sources.update([writer[other]] if other in writer else [])
                sources.update(readers[other] if root in touched.writes else [])
        for root in touched.reads:
            readers[root].append(number)
        for root in touched.writes:
            writer[root], readers[root] = number, []
        steps.found.append(Step(op, touched, sources))
    return steps


def reduced(sources: Sequence[Collection[int]]) -> list[list[int]]:
    """The same order with as few edges as can be; sources come before what they are sources of."""
    before, kept = list[int](), list[list[int]]()
    for number, found in enumerate(sources):
        seen, needed = 0, list[int]()  # sets of steps, as bits
        for source in sorted(found, reverse=True):
            if not seen >> source & 1:
                needed.append(source)
                seen |= before[source]
        before.append(seen | 1 << number)
        kept.append(needed)
    return kept
