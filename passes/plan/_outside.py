"""Memory that lies beside the arenas of a function: what operators, and functions that are called, allocate themselves."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from xdsl.dialects.builtin import TensorType
from xdsl.dialects.func import CallOp
from xdsl.ir import Block, Operation, SSAValue

from fxc.dialects.effects import aliases
from fxc.dialects.marks import ONCE
from fxc.dialects.plan import AllocOp, ArenaOp, aligned, released, storage_bytes
from fxc.dialects.types import device
from fxc.passes.plan._offsets import Span


class Outside:
    """What the ops of a block allocate, as far as types say how much that is; calls that are made once are none of its ops.

    ``of``: device -> the tensors that they return in memory of their own, from there until the last name is released; and
    what the functions that they call take on the way, of which ``taken`` says how much: name -> bytes, results included.
    """

    def __init__(self, block: Block, taken: Mapping[str, int]) -> None:
        self.of = defaultdict[str, list[Span]](list)
        self._names = dict[SSAValue, set[SSAValue]]()
        """Tensor -> its names that are not released."""
        self._tensors = dict[SSAValue, set[SSAValue]]()
        """Name -> the tensors that it may be in."""
        self._start = dict[SSAValue, int]()
        length = 0
        for place, op in enumerate(block.ops):
            self._step(place, op, taken)
            length = place + 1
        for tensor in self._start:
            self._add(tensor, length)

    def _step(self, place: int, op: Operation, taken: Mapping[str, int]) -> None:
        if isinstance(op, (AllocOp, ArenaOp)) or ONCE in op.attributes:
            return
        shared = set[SSAValue]()
        for index, operand in aliases(op):
            name = op.results[index]
            shared.add(name)
            for tensor in self._tensors.get(operand, ()) if name.first_use is not None else ():
                self._names[tensor].add(name)
                self._tensors.setdefault(name, set()).add(tensor)
        made = [result for result in op.results if result not in shared and _bytes(result)]
        for result in made:
            self._start[result], self._names[result], self._tensors[result] = place, {result}, {result}
        if isinstance(op, CallOp) and (bytes := taken.get(op.callee.string_value(), 0) - sum(map(_bytes, made))) > 0:
            self.of["cpu"].append(Span(bytes, place, place + 1))
        for name in released(op):
            for tensor in self._tensors.pop(name, ()):
                self._names[tensor].discard(name)
                if not self._names[tensor]:
                    self._add(tensor, place)
                    del self._start[tensor]

    def _add(self, tensor: SSAValue, end: int) -> None:
        assert isinstance(tensor.type, TensorType)
        self.of[device(tensor.type)].append(Span(_bytes(tensor), self._start[tensor], end))


def _bytes(value: SSAValue) -> int:
    """How many bytes a tensor takes; 0 where its type does not say it, or it is none."""
    found = storage_bytes(value.type) if isinstance(value.type, TensorType) else None
    return 0 if found is None else aligned(found)
