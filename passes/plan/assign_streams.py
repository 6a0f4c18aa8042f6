"""Run independent chains of launches and calls on several streams.

Assumes  the plan level (``convert-to-plan``), after ``write-arguments`` and best before ``plan-memory``, which respects
         streams; after it, shared bytes order the operations that use them.
Ensures  launches, and calls of operators that only compute, are on at most ``streams`` streams; stream 0 is the
         caller's and waits for the others at the end. A minimal set of events orders operations that depend on, or
         overwrite, the work of another stream. A buffer is allocated on the stream of its first use. Idempotent.
Leaves   the order of operations. On stream 0: random operators, effects, reads on the host, calls of functions,
         operations that may save an operand. Views and releases, on no stream. Functions on the CPU, on several
         devices, or with streams.
Cost     one walk, and n*n/64 steps for n launches and calls.

Before:
    !t = tensor<512x512xf32, #torch.meta<device = "cuda:0">>
    func.func @main(%x: !t) -> !t {
      %a = torch.aten.mm.default(%x, %x) : (!t, !t) -> !t
      %b = torch.aten.mm.default(%x, %x) : (!t, !t) -> !t
      %c = torch.aten.add.Tensor(%a, %b) : (!t, !t) -> !t
      plan.free %a, %b : !t, !t
      fx.output(%c) : (!t) -> ()
    }
After:
    !t = tensor<512x512xf32, #torch.meta<device = "cuda:0">>
    func.func @main(%x: !t) -> !t {
      %event = plan.record {stream = 0 : i64} : !plan.event
      %a = torch.aten.mm.default(%x, %x) : (!t, !t) -> !t
      plan.wait %event {stream = 1 : i64}
      %b = torch.aten.mm.default(%x, %x) {plan.stream = 1 : i64} : (!t, !t) -> !t
      %event_1 = plan.record {stream = 1 : i64} : !plan.event
      plan.wait %event_1 {stream = 0 : i64}
      %c = torch.aten.add.Tensor(%a, %b) : (!t, !t) -> !t
      plan.free %a, %b : !t, !t
      fx.output(%c) : (!t) -> ()
    }
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from xdsl.context import Context
from xdsl.dialects.builtin import DYNAMIC_INDEX, FixedBitwidthType, IntegerAttr, ModuleOp, TensorType, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from fxc.dialects.attributes.types import device, is_tensor, sizes
from fxc.dialects.base.effects import has_side_effect, may_retain
from fxc.dialects.plan import STREAM, AllocOp, ArenaType, LaunchOp, RecordOp, WaitOp
from fxc.dialects.plan.accesses import Accesses, Touched
from fxc.dialects.target import GpuAttr, target_of
from fxc.dialects.torch_ops import TorchOp
from fxc.passes.analysis.statistics import count
from fxc.passes.fusion.fuse.cost import CostModel, assumed
from fxc.passes.operators.table import is_contraction
from fxc.passes.rewriting.remarks import remark


@dataclass(frozen=True)
class AssignStreamsPass(ModulePass):
    """A chain moves to another stream only if it leaves enough of the machine idle to outweigh the cost of its events, by
    an estimate from sizes, programs and the ``#target.gpu`` of the module. The verifier checks streams and events
    independently, and rejects two operations that may conflict.
    """

    name = "assign-streams"

    streams: int = field(default=2, metadata={"minimum": 1})

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        found = target_of(op)
        target = found if isinstance(found, GpuAttr) else GpuAttr.of()
        for function in [inner for inner in op.ops if isinstance(inner, FuncOp)]:
            block = function.body.first_block
            if block is not None and block is function.body.last_block and self._is_plan(block):
                self._assign(function, block, target)

    def _is_plan(self, block: Block) -> bool:
        """Whether ``block`` has ops of ``plan`` and no streams yet."""
        ops = list(block.ops)
        streams = any(STREAM in op.attributes or isinstance(op, (RecordOp, WaitOp)) for op in ops)
        return not streams and any(op.name.startswith("plan.") for op in ops)

    def _assign(self, function: FuncOp, block: Block, target: GpuAttr) -> None:
        steps = steps_of(block)
        devices = {device(type) for step in steps.found for type in _tensors(step.op)}
        accelerators = [name for name in devices if name.startswith("cuda")]
        if len(accelerators) != 1:
            if accelerators:
                remark(AssignStreamsPass.name, f"several devices: {', '.join(sorted(accelerators))}", function)
            return
        model, sources = CostModel.of(target), reduced([step.sources for step in steps.found])
        may_move = [_may_move(step, accelerators[0]) for step in steps.found]
        work = [work_of(step, model) for step in steps.found]
        places = Choice(sources, may_move, work, self.streams, float(target.event.value.data)).run()
        if any(places):
            _set_streams(steps, places)
            _order(steps.found, places, sources)


def _may_move(step: StreamStep, accelerator: str) -> bool:
    """Whether ``step`` only computes, and only on tensors of the accelerator."""
    op = step.op
    if isinstance(op, TorchOp):
        plain = not has_side_effect(op) and not may_retain(op) and set(op.FLAGS).isdisjoint("dy")
        if not plain or any(not is_tensor(type) or "" in sizes(type) for type in op.result_types):
            return False
    elif not isinstance(op, LaunchOp):
        return False
    roots = (*step.touched.reads, *step.touched.writes)
    return (
        not step.touched.is_barrier
        and all(isinstance(root.type, (TensorType, ArenaType)) for root in roots)
        and all(device(type) == accelerator for type in _tensors(op))
    )


def _tensors(op: Operation | None) -> Iterable[TensorType]:
    values: Iterable[SSAValue] = () if op is None else (*op.operands, *op.results)
    return (value.type for value in values if is_tensor(value.type))


def _set_streams(steps: Steps, places: Sequence[int]) -> None:
    """Set the stream attribute of each op and each allocation."""
    made = [(alloc, places[step]) for alloc, step in steps.makers.items()]
    run = [(step.op, place) for step, place in zip(steps.found, places, strict=True) if step.op is not None]
    for op, place in (*made, *run):
        if place:
            op.attributes[STREAM] = IntegerAttr(place, i64)
    count("streams", len(set(places)))
    count("launches and calls beside stream 0", sum(place != 0 for place in places))


def _order(steps: Sequence[StreamStep], places: Sequence[int], sources: Sequence[Sequence[int]]) -> None:
    """Insert records of and waits for events between dependent ops that the order on one stream does not cover."""
    last, ordered = dict[int, int](), list[set[int]]()
    for number, place in enumerate(places):
        ordered.append({*sources[number], *([last[place]] if place in last else [])})
        last[place] = number
    events = dict[int, SSAValue]()
    for number, found in enumerate(reduced(ordered)):
        for source in sorted(found):
            if places[source] == places[number]:
                continue
            if source not in events:
                events[source] = _record(steps, source, places[source])
            waiting = steps[number].op
            assert waiting is not None
            Rewriter.insert_op(WaitOp.of(events[source], places[number]), InsertPoint.before(waiting))
            count("waits")


def _record(steps: Sequence[StreamStep], source: int, stream: int) -> SSAValue:
    """An event recorded after a step; at the start of the block for the step of the caller."""
    record, before = RecordOp.of(stream), steps[source].op
    record.event.name_hint = "event"
    if before is not None:
        Rewriter.insert_op(record, InsertPoint.after(before))
    else:
        first = steps[1].op
        assert first is not None and first.parent is not None
        Rewriter.insert_op(record, InsertPoint.at_start(first.parent))
    return record.event


@dataclass(frozen=True)
class Work:
    """The cost of a step: ``time`` in nanoseconds if it runs alone, and the part of it that leaves the machine ``idle``."""

    time: float = 0.0
    idle: float = 0.0


def work_of(step: StreamStep, model: CostModel) -> Work:
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
    """StreamStep -> its stream."""
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
class StreamStep:
    """An op that runs on a stream, or without op the caller's work before the block. ``sources``: its dependencies."""

    op: Operation | None = None
    touched: Touched = field(default_factory=lambda: Touched((), (), is_barrier=True))
    sources: Collection[int] = ()


@dataclass
class Steps:
    """The steps of a block in order. ``makers``: allocation outside of arenas -> the first step that uses it."""

    found: list[StreamStep] = field(default_factory=lambda: [StreamStep()])
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
        steps.found.append(StreamStep(op, touched, sources))
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
