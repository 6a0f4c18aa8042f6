"""Proofs that kernels stay inside of their buffers: every access, for all sizes that the guards of a program allow.

``unproved`` asks for each load, store, gather, scatter and atomic whether a lane that is not masked can lie outside. z3 answers
for integers of any size; it gets products as unknowns, and what follows for these from bounds of their factors.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import combinations
from math import prod
from unittest.mock import patch

from xdsl.context import Context
from xdsl.dialects import scf
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import BlockArgument, Operation, SSAValue

from fxc.dialects import plan, tile
from fxc.dialects.attributes.size_polynomials import Polynomial, Steps, is_natural, sizes_of, strides_of
from fxc.dialects.attributes.types import IntType
from fxc.dialects.text.syntax import op_text
from fxc.dialects.tile.types import shape_of
from fxc.driver.runner import verify_module
from fxc.errors import VerifyError
from fxc.passes.analysis.size_values import facts_of
from fxc.passes.kernels.tile.tile import TilePass
from tests.access_conditions import (
    Condition,
    at_least,
    both,
    divided,
    implies,
    opposite,
)
from tests.access_questions import disproved
from tests.access_terms import Lanes, Terms

Launch = tile.LaunchOp | plan.LaunchOp
Access = tile.LoadOp | tile.StoreOp | tile.GatherOp | tile.ScatterOp | tile.AtomicOp

LARGEST = 1 << 62
"""No tensor has more elements: memory has no more bytes."""


@dataclass(frozen=True)
class Unproved:
    """An access that may lie outside of its buffer: where, and what z3 found, or why it didn't."""

    access: str
    claim: str
    found: str

    def __str__(self) -> str:
        return f"{self.access}\n  {self.claim}: {self.found}"


def launches_of(module: ModuleOp) -> Iterator[Launch]:
    """The launches of kernels in ``module``."""
    yield from (op for op in module.walk() if isinstance(op, Launch) and op.kernel() is not None)


def unproved_in(module: ModuleOp) -> list[Unproved]:
    """What is not proved of the kernels that ``module`` launches."""
    least = facts_of(module, "min")
    return [found for op in launches_of(module) if (kernel := op.kernel()) is not None for found in unproved(kernel, op, least)]


def accesses_of(kernel: tile.KernelOp) -> list[Access]:
    return [op for op in kernel.walk() if isinstance(op, Access)]


def unproved(kernel: tile.KernelOp, launch: Launch, least: Mapping[str, int]) -> list[Unproved]:
    """The accesses of ``kernel`` not proved to lie in the buffers of ``launch``. ``least``: what sizes are at least."""
    proofs = Proofs(kernel, launch, least)
    return [found for op in accesses_of(kernel) for found in proofs.unproved(op)]


class Watch:
    """Proves the kernels of all modules that the pass ``tile`` leaves behind, each that is different once."""

    def __init__(self) -> None:
        self.seen = set[object]()
        self.kernels = self.accesses = 0
        self.unproved = list[Unproved]()
        self.seconds = 0.0

    @contextmanager
    def on(self) -> Iterator[list[Unproved]]:
        """What is not proved of the kernels that are made in the meantime."""
        apply, found = TilePass.apply, list[Unproved]()

        def applied(instance: TilePass, ctx: Context, op: ModuleOp) -> None:
            apply(instance, ctx, op)
            with suppress(VerifyError):  # which the runner reports
                verify_module(op)
                found.extend(self.prove(op))

        with patch.object(TilePass, "apply", applied):
            yield found

    def prove(self, module: ModuleOp) -> list[Unproved]:
        least, found, start = facts_of(module, "min"), list[Unproved](), time.process_time()
        for launch in launches_of(module):
            kernel = launch.kernel()
            assert kernel is not None
            key = (_form(kernel), tuple(launch.operand_types), tuple(launch.result_types), tuple(least.items()))
            if key not in self.seen:
                self.seen.add(key)
                self.kernels += 1
                self.accesses += len(accesses_of(kernel))
                found += unproved(kernel, launch, least)
        self.unproved += found
        self.seconds += time.process_time() - start
        return found


def _form(kernel: tile.KernelOp) -> object:
    """Equal for kernels that differ in names and in numbers that they compute with only."""
    numbers, found = dict[SSAValue, int](), list[object]([kernel.grid, kernel.arg_attrs])
    for op in kernel.walk():
        arguments = [argument for region in op.regions for block in region.blocks for argument in block.args]
        for value in (*op.results, *arguments):
            numbers[value] = len(numbers)
        shown = [(name, value) for name, value in op.properties.items() if op is not kernel]
        found.append((op.name, tuple(shown), tuple(op.result_types), tuple(numbers[value] for value in op.operands)))
    return tuple(found)


@dataclass(frozen=True)
class Extent:
    """How many elements there are: ``elements`` where none of ``sizes`` is 0, else none."""

    elements: Steps
    sizes: tuple[Steps, ...]
    strides: tuple[Steps, ...]

    def inside(self, offset: Steps) -> Iterator[Condition]:
        """That factors of strides in ``offset`` are indices of these dimensions; not all that is asked here need hold."""
        for size, stride in zip(self.sizes, self.strides, strict=True):
            if isinstance(stride, Polynomial) and (index := divided(offset, stride)[0]) != 0:
                last = divided(self.elements - 1, stride)[0]  # of dimensions that are one loop
                yield from (at_least(index), at_least(size - 1, index), at_least(last, index))

    def remainders(self, offset: Steps) -> Iterator[tuple[Condition, Condition]]:
        """That what is left of ``offset`` for each dimension, from the first on, is an index of it; and what follows then."""
        for size, stride in zip(self.sizes, self.strides, strict=True):
            if isinstance(stride, Polynomial) and is_natural(stride):
                index, offset = divided(offset, stride)
                yield at_least(size - 1, index), at_least((size - 1 - index) * stride)


class Proofs:
    """What is known of one launch of a kernel."""

    def __init__(self, kernel: tile.KernelOp, launch: Launch, least: Mapping[str, int]) -> None:
        inputs = launch.inputs if isinstance(launch, plan.LaunchOp) else launch.operands
        outputs = launch.outs if isinstance(launch, plan.LaunchOp) else launch.results
        pointers = kernel.inputs()
        given = zip(kernel.scalars(), inputs[len(pointers) :], strict=True)
        names = {scalar: value.type.expression.data for scalar, value in given if isinstance(value.type, IntType)}
        self.kernel = kernel
        self.terms = Terms(kernel, least, {scalar: name for scalar, name in names.items() if name})
        tensors = [*inputs[: len(pointers)], *outputs]
        types = [value.type for value in tensors if isinstance(value.type, TensorType)]
        self.extents: dict[SSAValue, Extent] = dict(zip([*pointers, *kernel.outputs()], map(self._extent, types), strict=True))
        numbers = [number for type in types for number in (*sizes_of(type), *strides_of(type))]
        self.facts = [at_least(self.terms.of_sizes(number)) for number in dict.fromkeys(numbers)]
        self.facts += [at_least(count, 1) for count in self.terms.programs()]
        self.facts += [at_least(count - 1, self.terms.program(axis)) for axis, count in enumerate(self.terms.programs())]
        self.facts += [
            implies(both(*(at_least(size, 1) for size in extent.sizes)), at_least(LARGEST, extent.elements))
            for extent in self.extents.values()
        ]
        self.sizes = list(dict.fromkeys(size for extent in self.extents.values() for size in _runs(extent.sizes)))
        self.asked = dict[object, str | None]()

    def _extent(self, type: TensorType) -> Extent:
        sizes, strides = ([self.terms.of_sizes(number) for number in each] for each in (sizes_of(type), strides_of(type)))
        total: Steps = 1
        for size, stride in zip(sizes, strides, strict=True):
            total = total + (size - 1) * stride
        return Extent(total, tuple(sizes), tuple(strides))

    def unproved(self, op: Access) -> Iterator[Unproved]:
        pointer, extent = self._buffer(op.pointer)
        block = op.result.type if isinstance(op, tile.LoadOp | tile.GatherOp) else op.value.type
        shape = shape_of(block)
        lanes: Lanes = tuple(
            0 if size == 1 else self.terms.unknown(("lane", dim), natural=True) for dim, size in enumerate(shape)
        )
        offset = self._offset(op, lanes)
        limit = self.kernel.elements(pointer)
        context = [*self._around(op), *(at_least(size - 1, lane) for lane, size in zip(lanes, shape, strict=True))]
        if op.mask is not None:
            context.append(self.terms.condition(op.mask, lanes))
        elements = extent.elements if limit is None or not isinstance(extent.elements, int) else min(extent.elements, limit)
        claims = {f"{size} may be 0": at_least(size, 1) for size in extent.sizes}
        claims |= {
            "it may lie before the buffer": at_least(offset),
            "it may lie behind the buffer": at_least(elements - 1, offset),
        }
        key = (tuple(context), tuple(claims.items()))
        if key in self.asked:
            return
        self.asked[key] = None
        steps = [*((step, True) for step in extent.inside(offset)), *extent.remainders(offset)]
        for claim, reason in disproved(self.terms, [*self.facts, *context], claims, self.sizes, steps):
            yield Unproved(op_text(op), claim, reason)

    def _buffer(self, pointer: SSAValue) -> tuple[BlockArgument, Extent]:
        """The pointer of the kernel that this is, and how much there is."""
        assert isinstance(pointer, BlockArgument)
        owner = pointer.owner.parent_op()
        if isinstance(owner, tile.LastProgramOp):
            return self._buffer(owner.pointers[pointer.index])
        return pointer, self.extents[pointer]

    def _offset(self, op: Access, lanes: Lanes) -> Steps:
        if not isinstance(op, tile.LoadOp | tile.StoreOp):
            return self.terms.number(op.offsets, lanes)
        total = self.terms.number(op.base, ())
        for lane, stride in zip(lanes, op.strides(), strict=True):
            total = total + lane * (stride if isinstance(stride, int) else self.terms.number(stride, ()))
        return total

    def _around(self, op: Operation) -> Iterator[Condition]:
        """What holds where ``op`` runs: of the loops and the branches around it."""
        block = op.parent
        while block is not None and (around := block.parent_op()) is not None and around is not self.kernel:
            if isinstance(around, scf.ForOp):
                yield at_least(self.terms.number(around.ub, ()) - 1, self.terms.step_of(around))
            elif isinstance(around, scf.IfOp):
                holds = self.terms.condition(around.cond, ())
                yield holds if any(each is block for each in around.true_region.blocks) else opposite(holds)
            block = around.parent


def _runs(sizes: Sequence[Steps]) -> Iterator[Steps]:
    """The products of neighbours among ``sizes``."""
    for start, stop in combinations(range(len(sizes) + 1), 2):
        yield prod(sizes[start:stop])  # type: ignore[arg-type]
