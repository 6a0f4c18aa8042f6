"""Memory of a function of the plan level over its operations, from the lifetimes of its buffers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from fxc.dialects.plan import AllocOp, ArenaOp, ArenaType, LaunchOp
from fxc.dialects.text.diagnostics import user_line
from fxc.passes.plan.buffers import buffers_of
from fxc.passes.plan.offsets import LiveRange
from fxc.passes.plan.plan_memory import MEMORY, Outside
from fxc.report.graph_view import op_label, short_type
from fxc.report.kernels import label as name_of
from fxc.report.kernels import source_lines


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

    ``at_peak``: what lives where it is highest, the largest first; ``peak_op``: the operation that runs there. ``allocated``:
    the most that a call allocates at one time, arenas with their gaps included. ``is_known``: whether all sizes are.
    """

    function: str
    live: Sequence[int]
    allocated: int
    is_known: bool
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
    facts = function.attributes[MEMORY]
    allocated = facts.data["peak"] if isinstance(facts, DictionaryAttr) else None
    bytes = allocated.value.data if isinstance(allocated, IntegerAttr) else 0
    is_known = not any(isinstance(op, AllocOp) and op.numbers for op in ops)
    return MemoryTimeline(
        name_of(function), live, bytes, is_known, label, [_live(ops[each.start], each.size) for each in there]
    )


def _ranges(function: FuncOp, length: int) -> Iterator[LiveRange]:
    block = function.body.block
    yield from (buffer.span(length) for buffer in buffers_of(block))
    for found in Outside(block, {}).of.values():
        yield from found


def _live(op: Operation, size: int) -> Live:
    results = [result for result in op.results if not isinstance(op, ArenaOp)]
    names = ", ".join(f"%{result.name_hint or '_'}" for result in results)
    types = ", ".join("memory of a call" if isinstance(each.type, ArenaType) else short_type(each.type) for each in results)
    by = "" if isinstance(op, AllocOp) else f" of {op_label(op)}"
    return Live(names + by, types, size, _line_of(op) or user_line(op.location) or "")


def _line_of(op: Operation) -> str | None:
    """The user's line of the node that a kernel writes to the buffer ``op``."""
    if not isinstance(op, AllocOp):
        return None
    for launch in (use.operation for use in op.buffer.uses):
        if isinstance(launch, LaunchOp) and op.buffer in launch.outs and (kernel := launch.kernel()) is not None:
            for line, nodes in source_lines([kernel, launch]).items():
                if any(op.buffer.name_hint in node.partition(" = ")[0].split(", ") for node in nodes):
                    return line
    return None
