"""Estimate what operations of the torch level cost: floating-point operations, bytes, and time on the target.

An operation reads its operands from memory and writes its results, as a call of ATen does; a ``fusion.group`` as one kernel.
Views cost nothing. Symbolic sizes have their hints.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import astuple, dataclass
from operator import add

from xdsl.dialects.func import CallOp
from xdsl.ir import Operation, SSAValue
from xdsl.traits import SymbolTable

from fxc.dialects.attributes.types import device, element_bytes, is_tensor
from fxc.dialects.base.effects import aliases, inner_operations, writes
from fxc.dialects.fusion import GroupOp
from fxc.dialects.target import CpuAttr, GpuAttr, TargetAttr, target_of, toplevel
from fxc.dialects.torch_ops.base import TorchOp
from fxc.passes.analysis.size_values import HintedSizes
from fxc.passes.operators.record import Role
from fxc.passes.operators.rules import Constant, View
from fxc.passes.operators.table import operator_of

_MOVING = (Role.CONCATENATION, Role.STACK, Role.SPLIT)
"""Roles of operators that compute no elements."""


@dataclass(frozen=True)
class Cost:
    """``flops``; bytes ``read`` and ``written``; microseconds that the machine is ``busy``, and for the ``launch``."""

    flops: int = 0
    read: int = 0
    written: int = 0
    busy: float = 0.0
    launch: float = 0.0

    @property
    def bytes(self) -> int:
        return self.read + self.written

    @property
    def time(self) -> float:
        """Microseconds."""
        return self.busy + self.launch

    def __add__(self, other: Cost) -> Cost:
        return Cost(*map(add, astuple(self), astuple(other)))


class Costs:
    """Costs of operations in the module around ``op``, on its target, by default the first preset for their device."""

    def __init__(self, op: Operation) -> None:
        self.sizes, self._target = HintedSizes(op), target_of(toplevel(op))
        self._called = dict[Operation, Cost]()

    def of(self, op: Operation) -> Cost:
        """The cost of one run of ``op``; for regions that are alternatives or loops, of each of them once."""
        if isinstance(op, TorchOp) and not op.regions:
            return self._of_call(op)
        if isinstance(op, GroupOp):
            flops = sum(self.of(inner).flops for inner in inner_operations(op))
            return self._cost(flops, op.inputs(), op.results, is_product=False)
        if isinstance(op, CallOp):
            return self._of_function(SymbolTable.lookup_symbol(op, op.callee))
        return self.total(inner_operations(op))

    def total(self, ops: Iterable[Operation]) -> Cost:
        return sum(map(self.of, ops), Cost())

    def _of_function(self, function: Operation | None) -> Cost:
        if function is None:
            return Cost()
        if function not in self._called:
            self._called[function] = Cost()  # of a recursive call
            self._called[function] = self.total(inner_operations(function))
        return self._called[function]

    def _of_call(self, op: TorchOp) -> Cost:
        shared = {index for index, _ in aliases(op)}
        written = [result for i, result in enumerate(op.results) if i not in shared and self.sizes.elements(result.type)]
        written += writes(op) or ()
        if not written:
            return Cost()
        record = operator_of(op)
        if record.flops is not None:
            flops = record.flops(op, lambda value: self.sizes.shape(value.type))
        elif record.gathered or record.role in _MOVING or isinstance(record.formula, (View, Constant)):
            flops = 0
        else:
            flops = record.cost * max(self.sizes.elements(value.type) for value in (*op.operands, *written))
        read = () if record.reads_type or isinstance(record.formula, Constant) else op.operands
        return self._cost(
            flops, read, written, record.flops is not None, op.argument(record.gathered) if record.gathered else None
        )

    def _cost(
        self, flops: int, read: Iterable[SSAValue], written: Iterable[SSAValue], is_product: bool, gathered: object = None
    ) -> Cost:
        """``gathered``: the operand of which only as much is read as is written."""
        results = list(dict.fromkeys(written))
        out = sum(self.sizes.distinct_bytes(value.type) for value in results)
        sizes = {value: self.sizes.distinct_bytes(value.type) for value in read}
        into = sum(min(bytes, out) if value is gathered else bytes for value, bytes in sizes.items())
        target = self._target or _default_target(results)
        rate = target.products(8 * _width(results)) if is_product else target.additions()
        nanoseconds = max(flops / rate, (into + out) / target.traffic())
        return Cost(flops, into, out, nanoseconds / 1000, target.launch.value.data / 1000)


def _width(results: Iterable[SSAValue]) -> int:
    """The bytes of an element of the first tensor."""
    types = (value.type for value in results)
    return next((element_bytes(type.element_type) or 4 for type in types if is_tensor(type)), 4)


def _default_target(results: Iterable[SSAValue]) -> TargetAttr:
    on_cpu = all(device(value.type) == "cpu" for value in results if is_tensor(value.type))
    return CpuAttr.of() if on_cpu else GpuAttr.of()
