"""Which stream each step of a plan runs on: chains of steps, on a stream of their own where that is worth its events."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from xdsl.dialects.builtin import DYNAMIC_INDEX, FixedBitwidthType, TensorType
from xdsl.ir import Block, Operation, SSAValue

from fxc.dialects.plan import AllocOp, LaunchOp
from fxc.dialects.plan.accesses import Accesses, Touched
from fxc.passes.fusion.fuse.cost import CostModel, assumed
from fxc.passes.operators.table import is_contraction


@dataclass(frozen=True)
class Work:
    """``time``: nanoseconds that a step takes alone. ``idle``: of these, what it leaves of the machine to others."""

    time: float = 0.0
    idle: float = 0.0


def work_of(step: Step, model: CostModel) -> Work:
    """An estimate from sizes: bytes and products at the rates of the machine, of which few programs use a part.

    What a launch costs the host is not counted: it is not less on several streams.
    """
    op = step.op
    if op is None:
        return Work()
    values = [*op.operands, *(result for result in op.results if result in step.touched.writes)]
    moved = sum(_elements(value) * _width(value) for value in dict.fromkeys(values))
    time = moved / model.bandwidth
    if is_contraction(op):  # n*m, m*k and n*k elements: n*m*k products
        factors = sorted(map(_elements, values))[-3:]
        time = max(time, math.sqrt(math.prod(factors)) / model.rate)
    share = min(1.0, _programs(op, model) / model.programs)
    return Work(time / share, time / share - time)


def _programs(op: Operation, model: CostModel) -> int:
    """How many blocks of threads compute ``op``."""
    kernel = op.kernel() if isinstance(op, LaunchOp) else None
    if kernel is not None and DYNAMIC_INDEX not in kernel.programs:
        return max(1, math.prod(kernel.programs))
    written = op.outs if isinstance(op, LaunchOp) else op.results
    return max(1, sum(map(_elements, written)) // model.small)


def _elements(value: SSAValue) -> int:
    return math.prod(assumed(value.type.get_shape())) if isinstance(value.type, TensorType) else 0


def _width(value: SSAValue) -> int:
    element = value.type.element_type if isinstance(value.type, TensorType) else None
    return (element.bitwidth + 7) // 8 if isinstance(element, FixedBitwidthType) else 8


@dataclass
class Choice:
    """Puts steps on ``streams`` streams. ``sources``: steps that each must come after, no more of them than needed;
    ``may_move``: which may leave stream 0; ``event``: nanoseconds that it costs that a stream waits for another.

    Chains of steps come in the order of their first ones. One that leaves less of the machine to others than its events cost
    stays on a stream that it comes from; another goes where it is over first, by these estimates.
    """

    sources: Sequence[Collection[int]]
    may_move: Sequence[bool]
    work: Sequence[Work]
    streams: int
    event: float
    place: dict[int, int] = field(default_factory=dict[int, int])
    """Step -> its stream."""
    _end: dict[int, float] = field(default_factory=dict[int, float])

    def run(self) -> list[int]:
        """The stream of each step."""
        ready = [0.0] * self.streams
        for chain in self.chains():
            runs = {stream: self._ends(chain, stream, ready[stream]) for stream in self._options(chain)}
            best = min(runs, key=lambda stream: (runs[stream][-1] + (self.event if stream else 0.0), stream))
            ready[best] = runs[best][-1]
            self.place.update(dict.fromkeys(chain, best))
            self._end.update(zip(chain, runs[best], strict=True))
        return [self.place[step] for step in range(len(self.sources))]

    def chains(self) -> list[list[int]]:
        """Each step goes on the chain with the most work of those that end in a source of it. What may not move is alone."""
        chains, load, ends = list[list[int]](), list[float](), dict[int, int]()
        for step, moves in enumerate(self.may_move):
            found = [ends[source] for source in self.sources[step] if source in ends] if moves else []
            if found:
                chain = max(found, key=lambda number: (load[number], -number))
                del ends[chains[chain][-1]]
            else:
                chain = len(chains)
                chains.append([])
                load.append(0.0)
            chains[chain].append(step)
            load[chain] += self.work[step].time
            if moves:
                ends[step] = chain
        return chains

    def _options(self, chain: Sequence[int]) -> Collection[int]:
        """The streams that ``chain`` may be on."""
        if not self.may_move[chain[0]]:
            return [0]
        if sum(self.work[step].idle for step in chain) > self.event * self._crossings(chain):
            return range(self.streams)
        return {0, *(self.place[source] for source in self.sources[chain[0]])}

    def _crossings(self, chain: Sequence[int]) -> int:
        """How many edges there are between ``chain`` and other steps."""
        inside = set(chain)
        return sum(other not in inside for step in chain for other in (*self.sources[step], *self._targets[step]))

    @cached_property
    def _targets(self) -> list[list[int]]:
        targets: list[list[int]] = [[] for _ in self.sources]
        for step, found in enumerate(self.sources):
            for source in found:
                targets[source].append(step)
        return targets

    def _ends(self, chain: Sequence[int], stream: int, now: float) -> list[float]:
        """When each step of ``chain`` is over, on ``stream`` from ``now`` on."""
        ends = list[float]()
        for step in chain:
            for source in self.sources[step]:
                if source in self.place:
                    now = max(now, self._end[source] + (self.event if self.place[source] != stream else 0.0))
            now += self.work[step].time
            ends.append(now)
        return ends


# which ops of a plan must come after which: because of memory, whose bytes others may use later, too


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
