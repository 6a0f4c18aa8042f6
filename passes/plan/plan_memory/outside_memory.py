"""Memory that lies beside the arenas of a function: what operators, and functions that are called, allocate themselves."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from xdsl.dialects.builtin import TensorType
from xdsl.dialects.func import CallOp
from xdsl.ir import Block, Operation, SSAValue

from fxc.dialects.attributes.discardable import ONCE
from fxc.dialects.attributes.types import device
from fxc.dialects.base.effects import aliases
from fxc.dialects.plan import AllocOp, ArenaOp, aligned, released, storage_bytes
from fxc.dialects.plan.lifetimes import Names
from fxc.passes.plan.offsets import Span


class Outside:
    """What the ops of a block allocate, as far as types say how much that is; calls that are made once are none of its ops.

    ``of``: device -> the tensors that they return in memory of their own, from there until the last name is released; and
    what the functions that they call take on the way, of which ``taken`` says how much: name -> device -> bytes, results
    included.
    """

    def __init__(self, block: Block, taken: Mapping[str, Mapping[str, int]]) -> None:
        self.of = defaultdict[str, list[Span]](list)
        self._names = Names(released)
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
                if (rest := bytes - sum(_bytes(result) for result in made if _device(result) == there)) > 0:
                    self.of[there].append(Span(rest, place, place + 1))
        for tensor in self._names.step(op):
            self._end(tensor, place)

    def _end(self, tensor: SSAValue, place: int) -> None:
        self.of[_device(tensor)].append(Span(_bytes(tensor), self._start.pop(tensor), place))


def _device(value: SSAValue) -> str:
    assert isinstance(value.type, TensorType)
    return device(value.type)


def _bytes(value: SSAValue) -> int:
    """How many bytes a tensor takes; 0 where its type does not say it, or it is none."""
    found = storage_bytes(value.type) if isinstance(value.type, TensorType) else None
    return 0 if found is None else aligned(found)
