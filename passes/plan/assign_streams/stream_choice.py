"""Choose the stream of each step of a plan: a chain of steps gets another stream if that outweighs the cost of its events."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from xdsl.dialects.builtin import DYNAMIC_INDEX, FixedBitwidthType
from xdsl.ir import Block, Operation, SSAValue

from fxc.dialects.attributes.types import is_tensor
from fxc.dialects.plan import AllocOp, LaunchOp
from fxc.dialects.plan.accesses import Accesses, Touched
from fxc.passes.fusion.fuse.cost import CostModel, assumed
from fxc.passes.operators.table import is_contraction


@dataclass(frozen=True)
class Work:
    """The cost of a step: ``time`` in nanoseconds if it runs alone, and the part of it that leaves the machine ``idle``."""

    time: float = 0.0
    idle: float = 0.0


def work_of(step: Step, model: CostModel) -> Work:
    """Estimate the work of a step from its bytes and multiplications at the rates of the machine.

    A step with few programs uses only a part of the machine. The launch cost on the host is not included, since several
    streams do not reduce it.
    """
    op = step.op
    if op is None:
        return Work()
    values = [*op.operands, *(result for result in op.results if result in step.touched.writes)]
    moved = sum(_elements(value) * _width(value) for value in dict.fromkeys(values))
    time = moved / model.bandwidth
    if is_contraction(op):  # n*m, m*k and n*k elements: n*m*k multiplications
        factors = sorted(map(_elements, values))[-3:]
        time = max(time, math.sqrt(math.prod(factors)) / model.rate)
    share = min(1.0, _programs(op, model) / model.programs)
    return Work(time / share, time / share - time)


def _programs(op: Operation, model: CostModel) -> int:
    """The number of thread blocks that compute ``op``."""
    kernel = op.kernel() if isinstance(op, LaunchOp) else None
    if kernel is not None and DYNAMIC_INDEX not in kernel.programs:
        return max(1, math.prod(kernel.programs))
    written = op.outs if isinstance(op, LaunchOp) else op.results
    return max(1, sum(map(_elements, written)) // model.small)


def _elements(value: SSAValue) -> int:
    return math.prod(assumed(value.type.get_shape())) if is_tensor(value.type) else 0


def _width(value: SSAValue) -> int:
    element = value.type.element_type if is_tensor(value.type) else None
    return (element.bitwidth + 7) // 8 if isinstance(element, FixedBitwidthType) else 8


@dataclass
class Choice:
    """Assigns steps to ``streams`` streams.

    ``sources``: the minimal dependencies of each step. ``may_move``: the steps that may leave stream 0. ``event``: the cost in
    nanoseconds of a wait of one stream for another.

    Chains of steps are assigned in the order of their first steps. A chain whose idle time is less than the cost of its events
    stays on stream 0 or a stream of its sources. Any other chain is assigned to the stream on which it ends first by the
    estimate.
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
        """Chains of steps. A step extends the chain with the most work that ends in one of its sources.

        A step that may not move is a separate chain.
        """
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
        """The streams on which ``chain`` may run."""
        if not self.may_move[chain[0]]:
            return [0]
        if sum(self.work[step].idle for step in chain) > self.event * self._crossings(chain):
            return range(self.streams)
        return {0, *(self.place[source] for source in self.sources[chain[0]])}

    def _crossings(self, chain: Sequence[int]) -> int:
        """The number of edges between ``chain`` and other steps."""
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
        """The end time of each step of ``chain`` on ``stream``, starting at ``now``."""
        ends = list[float]()
        for step in chain:
            for source in self.sources[step]:
                if source in self.place:
                    now = max(now, self._end[source] + (self.event if self.place[source] != stream else 0.0))
            now += self.work[step].time
            ends.append(now)
        return ends


# dependencies between the ops of a plan through memory, including reuse of the same bytes


@dataclass(frozen=True)
class Step:
    """An op that runs on a stream, or without op the caller's work before the block. ``sources``: its dependencies."""

    op: Operation | None = None
    touched: Touched = field(default_factory=lambda: Touched((), (), is_barrier=True))
    sources: Collection[int] = ()


@dataclass
class Steps:
    """The steps of a block in order. ``makers``: allocation outside of arenas -> the first step that uses it."""

    found: list[Step] = field(default_factory=lambda: [Step()])
    makers: dict[AllocOp, int] = field(default_factory=dict[AllocOp, int])


def steps_of(block: Block) -> Steps:
    """The steps of ``block``. An allocation is not a step, since it moves to the stream of its first use."""
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
    """The transitive reduction of ``sources``, whose steps are in topological order."""
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
