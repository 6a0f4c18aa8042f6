"""The cost model of fusion: memory traffic saved against recomputation and lost parallelism.

The loops of a kernel are *rows*, which run in parallel, and loops inside of each row. The result of a reduction is available
once its row is done, so only ops with the same rows may use it in the kernel. Values that only the group reads are not stored:
each stage (a reduction, or a result of the group) that needs one recomputes it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import DYNAMIC_INDEX, FixedBitwidthType
from xdsl.ir import Block, Operation, SSAValue

from fxc.dialects.attributes.size_polynomials import Steps
from fxc.dialects.attributes.types import is_tensor
from fxc.dialects.target import CpuAttr, TargetAttr
from fxc.dialects.torch_ops.base import TorchOp
from fxc.passes.analysis.size_values import ANY_SIZE
from fxc.passes.operators.accumulating import combined_dtype, kind_of
from fxc.passes.operators.bodies import old_of, rule_of
from fxc.passes.operators.rules import Accumulation, dtype_of
from fxc.passes.operators.scalars import FLOATS, Uncovered, machine_type
from fxc.passes.operators.table import has_formula, operator_of

SORTING = 6
"""PyTorch's sorting of updates, in launches of the same duration."""

MOST_VALUES = 128
"""The largest number of inputs and outputs of a group together."""

MOST_COPIES = 256
"""The largest number of operations that a kernel may repeat, in several stages or at several positions of one."""

MOST_OPERATIONS = 2048
"""The largest cost of the operations of a group, in additions: LLVM takes more than twice the time for twice the code."""

ROWS = "rows: two reductions with different dimensions left"
DOMAIN = "domain: one reduces, and the other has other loops than its operand"
PARALLELISM = "parallelism: too few rows for the work of each"
WORK = "work: recomputation takes longer than a load and a store"
LENGTH = "length: recomputation in several stages makes a kernel long, and slow to compile"
CODE = "code: a kernel of so many operations is slow to compile"
ROOM = "registers: a kernel has too few for so many tensors"
SHAPE = "shape: a result and its reader have different loops"
ATOMICS = "updates: programs of a CPU would wait for each other, and PyTorch's call does not"
ORDER = "order: floats that are added in any order differ from run to run, and deterministic algorithms are requested"
CONTENTION = "contention: so many updates of one element that sorting them first, as PyTorch does, is faster"
TRAFFIC = "traffic: partial sums in memory are written and read once more, which takes longer than a call"
"""The rules, as printed in remarks."""


def assumed(shape: Sequence[Steps]) -> tuple[int, ...]:
    """``shape`` for cost comparisons, with ``ANY_SIZE`` for unknown sizes."""
    return tuple(size if isinstance(size, int) and size != DYNAMIC_INDEX else ANY_SIZE for size in shape)


@dataclass(frozen=True)
class Extent:
    """The loops of a slice: ``shape`` is that of the largest tensor that it computes or reduces, without ones.

    For a slice with a reduction, ``reduced`` is the shape of the reduced tensor, and ``kept`` are the dimensions that remain.
    """

    shape: tuple[int, ...]
    reduced: tuple[int, ...] | None = None
    kept: tuple[int, ...] = ()
    is_static: bool = False
    """Whether the sizes of its reductions are known."""

    repeated: float = 0.0
    """Recomputed work, in elements times operations."""
    copies: int = 0
    """The number of operations that the kernel repeats, in several stages or at several positions of one."""

    operations: int = 0
    """The cost of its operations for one element, in additions."""

    @property
    def elements(self) -> int:
        return math.prod(self.shape)

    @property
    def rows(self) -> tuple[int, ...]:
        assert self.reduced is not None
        return tuple(size for dim in self.kept if (size := self.reduced[dim]) != 1)

    def has_rows_of(self, other: Extent) -> bool:
        return self.rows == other.rows and (self.reduced != other.reduced or self.kept == other.kept)

    def joined(self, other: Extent) -> Extent:
        """The extent of the merged slice, without recomputation across the two."""
        large = self if self.elements > other.elements else other
        row = self if self.reduced is not None else other
        return Extent(
            shape=large.shape,
            reduced=row.reduced,
            kept=row.kept,
            is_static=row.is_static,
            repeated=self.repeated + other.repeated,
            copies=self.copies + other.copies,
            operations=self.operations + other.operations,
        )


@dataclass(frozen=True)
class Updates:
    """``count`` updates of ``elements``, which are combined in elements of ``element_bytes``.

    ``again``: the result is computed from the combined elements in another pass. ``sorted``: PyTorch sorts the updates first.
    ``adds_floats``: rounding depends on the order of updates.
    """

    count: int
    elements: int
    element_bytes: int
    again: bool
    sorted: bool
    adds_floats: bool


@dataclass(frozen=True)
class CostModel:
    """Parameters of a machine.

    ``programs``: the number of rows that keep it busy. ``small``: the number of elements too few for a separate program.
    ``values``: the number of tensors that a kernel has registers for. ``rate``: operations per nanosecond. ``bandwidth``: bytes
    of memory per nanosecond. ``launch``: the fixed cost of a kernel in nanoseconds. ``lone``: some operators are kernels alone,
    and so are new values of arguments, which are computed in place.
    ``splits``: a few rows of known sizes become several kernels, or a kernel of parts, so that they also keep it busy.
    ``atomic``: nanoseconds between two updates of one element; None where programs should not update the same elements.
    ``ordered``: floats must not be added in arbitrary order.
    """

    programs: int
    small: int
    values: int
    rate: float
    bandwidth: float
    launch: float
    lone: bool
    splits: bool = False
    atomic: float | None = None
    ordered: bool = False

    @classmethod
    def of(cls, target: TargetAttr, *, ordered: bool = False) -> CostModel:
        """The cost model of ``target``."""
        rate, bandwidth, launch = target.additions(), target.traffic(), float(target.launch.value.data)
        if isinstance(target, CpuAttr):
            programs, small = max(16, 4 * target.threads.value.data), target.l1.value.data // 8
            return cls(programs, small, MOST_VALUES, rate, bandwidth, launch, lone=True)
        processors, most = target.multiprocessors.value.data, target.max_threads.value.data
        values = min(MOST_VALUES, target.registers.value.data // most)
        atomic = float(target.atomic.value.data)
        return cls(
            processors, 4 * most, values, rate, bandwidth, launch, lone=False, splits=True, atomic=atomic, ordered=ordered
        )

    def objection(self, producer: Extent, consumer: Extent, *, stored: bool) -> str | None:
        """The rule that rejects one kernel for both, else None.

        ``stored``: other ops, too, read the values that ``consumer`` reads from ``producer``.
        """
        if producer.reduced is not None and consumer.reduced is not None:
            return None if producer.has_rows_of(consumer) else ROWS
        if producer.reduced is not None:
            return self._after(producer, consumer)
        if not stored:
            return None
        if consumer.reduced is not None:
            return self._after(consumer, producer)
        if (producer.elements == 1) != (consumer.elements == 1):
            return SHAPE
        return None if _is_within(producer.shape, consumer.shape) or _is_within(consumer.shape, producer.shape) else SHAPE

    def objection_of_siblings(self, a: Extent, b: Extent) -> str | None:
        """The rule that rejects one kernel for two slices that read the same tensor, but not each other; else None."""
        if a.reduced is not None and b.reduced is not None:
            return None if a.has_rows_of(b) else ROWS
        if a.reduced is None and b.reduced is None:
            return None if a.shape == b.shape else SHAPE
        return self._after(*((a, b) if a.reduced is not None else (b, a)))

    def objection_of_updates(self, updates: Updates) -> str | None:
        """The rule that rejects a kernel for ``updates``, else None."""
        if self.atomic is None:
            return ATOMICS
        if self.ordered and updates.adds_floats:
            return ORDER
        saved = self.launch * (SORTING if updates.sorted else 1)
        if updates.sorted and self.atomic * updates.count / max(updates.elements, 1) > saved:
            return CONTENTION
        more = 2 * updates.element_bytes * ((updates.elements if updates.again else 0) - updates.count)
        return TRAFFIC if more / self.bandwidth > saved else None

    def is_too_much_work(self, extent: Extent, traffic: int) -> bool:
        """Whether recomputation in ``extent`` takes longer than a launch and the ``traffic`` of its kernel in bytes."""
        return extent.repeated / self.rate > self.launch + traffic / self.bandwidth

    def _after(self, reduction: Extent, other: Extent) -> str | None:
        """The rule that rejects computing ``other`` in the rows of ``reduction``, else None."""
        if not _is_within(reduction.rows, other.shape) or other.elements > max(reduction.elements, self.small):
            return DOMAIN
        rows = math.prod(reduction.rows)
        if self.splits and reduction.is_static:
            return None
        return PARALLELISM if rows < self.programs and other.elements > self.small * rows else None


def _is_within(part: Sequence[int], whole: Sequence[int]) -> bool:
    """Whether ``part`` is a subsequence of ``whole``."""
    rest = iter(whole)
    return all(size in rest for size in part)


def updates_shape(op: Operation | Block) -> tuple[int, ...] | None:
    """The sizes of the loops over the updates that ``op`` combines; None where there are none or few."""
    if not isinstance(op, TorchOp) or not isinstance(operator_of(op).formula, Accumulation):
        return None
    try:
        rule = rule_of(op)
        return assumed(rule.shape(op)) if isinstance(rule, Accumulation) else None
    except Uncovered:
        return None


def updates_of(op: Operation) -> Updates | None:
    """The cost of the updates that ``op`` combines; None where there are none or few, or kernels do not support them."""
    shape, formula = updates_shape(op), operator_of(op).formula
    if shape is None or not isinstance(op, TorchOp) or not isinstance(formula, Accumulation):
        return None
    try:
        kind, dtype = kind_of(op), combined_dtype(op)
        again = dtype != dtype_of(op.results[0]) or old_of(op, _is_unknown) is not None
    except Uncovered:
        return None
    type, element = op.results[0].type, machine_type(dtype)
    assert is_tensor(type) and isinstance(element, FixedBitwidthType)
    elements = math.prod(assumed(type.get_shape()))
    adds_floats = kind == "add" and dtype in FLOATS
    return Updates(math.prod(shape), elements, element.size, again, formula.sorted, adds_floats)


def _is_unknown(value: SSAValue) -> bool:
    return not isinstance(value.owner, Operation) or not has_formula(value.owner)
