"""Memory of a function of the plan level over its operations, from the lifetimes of its buffers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from fxc.dialects.plan import AllocOp, ArenaOp
from fxc.dialects.text.diagnostics import user_line
from fxc.passes.plan.buffers import buffers_of
from fxc.passes.plan.offsets import LiveRange
from fxc.passes.plan.plan_memory import MEMORY, Outside
from fxc.report.graph_view import op_label, short_type


@dataclass(frozen=True)
class Live:
    """A tensor that is live at the peak: its name, type and bytes, and the user's line that makes it."""

    name: str
    type: str
    bytes: int
    line: str


@dataclass(frozen=True)
class MemoryTimeline:
    """``live``: bytes before each operation of ``function``, and after the last. Parameters and inputs are not included.

    ``at_peak``: what lives where it is highest, the largest first; ``peak_op``: the operation that runs there.
    """

    function: str
    live: Sequence[int]
    peak_op: str
    at_peak: Sequence[Live]

    @property
    def peak(self) -> int:
        return max(self.live)


def timelines(module: ModuleOp) -> list[MemoryTimeline]:
    """One for each function with planned memory, nested modules included."""
    functions = [op for op in module.walk() if isinstance(op, FuncOp) and MEMORY in op.attributes]
    return [_timeline(function) for function in functions]


def _timeline(function: FuncOp) -> MemoryTimeline:
    block = function.body.block
    ops = list(block.ops)
    ranges = list(_ranges(function, len(ops)))
    changes = [0] * (len(ops) + 1)
    for each in ranges:
        changes[each.start] += each.size
        changes[each.end] -= each.size
    live = list(accumulate(changes))
    peak = live.index(max(live))
    there = sorted((each for each in ranges if each.start <= peak < each.end), key=lambda each: -each.size)
    work = next((op for op in ops[peak:] if not isinstance(op, AllocOp)), None)
    label = "return" if work is None else op_label(work)
    return MemoryTimeline(function.sym_name.data, live, label, [_live(ops[each.start], each.size) for each in there])


def _ranges(function: FuncOp, length: int) -> Iterator[LiveRange]:
    block = function.body.block
    yield from (buffer.span(length) for buffer in buffers_of(block))
    for found in Outside(block, {}).of.values():
        yield from found


def _live(op: Operation, size: int) -> Live:
    results = [result for result in op.results if not isinstance(op, ArenaOp)]
    names = ", ".join(f"%{result.name_hint or '_'}" for result in results)
    types = ", ".join(short_type(result.type) for result in results)
    by = "" if isinstance(op, AllocOp) else f" of {op_label(op)}"
    return Live(names + by, types, size, user_line(op.location) or "")
