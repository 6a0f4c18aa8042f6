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

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, TensorType, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.utils.exceptions import PassFailedException

from fxc.dialects.attributes.types import device, is_tensor, sizes
from fxc.dialects.base.effects import has_side_effect, may_retain
from fxc.dialects.plan import STREAM, ArenaType, LaunchOp, RecordOp, WaitOp
from fxc.dialects.target import GpuAttr, target_of
from fxc.dialects.torch_ops import TorchOp
from fxc.passes.analysis.statistics import count
from fxc.passes.fusion.fuse.cost import CostModel
from fxc.passes.plan.assign_streams.stream_choice import Choice, Step, Steps, reduced, steps_of, work_of
from fxc.passes.rewriting.remarks import remark


@dataclass(frozen=True)
class AssignStreamsPass(ModulePass):
    """A chain moves to another stream only if it leaves enough of the machine idle to outweigh the cost of its events, by
    an estimate from sizes, programs and the ``#target.gpu`` of the module. The verifier checks streams and events
    independently, and rejects two operations that may conflict.
    """

    name = "assign-streams"

    streams: int = 2

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if self.streams < 1:
            raise PassFailedException(f"{self.name}: streams = {self.streams}: the caller's stream is there, so at least 1")
        if self.streams == 1:
            return
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


def _may_move(step: Step, accelerator: str) -> bool:
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


def _order(steps: Sequence[Step], places: Sequence[int], sources: Sequence[Sequence[int]]) -> None:
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


def _record(steps: Sequence[Step], source: int, stream: int) -> SSAValue:
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
