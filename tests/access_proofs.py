"""Proofs that kernels stay inside of their buffers: every access, for all sizes that the guards of a program allow.

``unproved`` asks for each load, store, gather, scatter and atomic whether a lane that is not masked can lie outside. z3 answers
for integers of any size; it gets products as unknowns, and what follows for these from bounds of their factors.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import combinations
from math import prod
from unittest.mock import patch

import z3
from xdsl.context import Context
from xdsl.dialects import scf
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import BlockArgument, Operation, SSAValue

from fxc.dialects import plan, tile
from fxc.dialects.attributes.size_polynomials import Monomial, Polynomial, Steps, is_natural, sizes_of, strides_of
from fxc.dialects.attributes.types import IntType
from fxc.dialects.text.syntax import op_text
from fxc.dialects.tile.types import shape_of
from fxc.driver.runner import verify_module
from fxc.errors import VerifyError
from fxc.passes.analysis.size_values import facts_of
from fxc.passes.kernels.tile.tile import TilePass
from tests.access_conditions import (
    All,
    AtLeast0,
    Condition,
    Some,
    Unknown,
    at_least,
    both,
    divided,
    either,
    implies,
    names_in,
    opposite,
    products_in,
    share_of,
)
from tests.access_terms import Lanes, Terms

Launch = tile.LaunchOp | plan.LaunchOp
Access = tile.LoadOp | tile.StoreOp | tile.GatherOp | tile.ScatterOp | tile.AtomicOp

EFFORT, LITTLE = 10_000_000, 50_000
"""Steps of z3 for a question, as many on every machine, and at first for one on the way. What it can't answer is not proved."""

ROUNDS = 3  # how often products of bounds are made
TRIES = ((LITTLE, 400), (EFFORT, 400), (EFFORT, 6000))
"""The steps for a question on the way, and the number of products of bounds a round, of the tries to answer a question."""

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


def disproved(
    terms: Terms,
    facts: Sequence[Condition],
    claims: Mapping[str, Condition],
    sizes: Sequence[Steps],
    steps: Sequence[tuple[Condition, Condition]],
) -> Iterator[tuple[str, str]]:
    """Which of ``claims`` do not follow from ``facts``, and why. ``steps`` may hold, with what follows, and help then."""
    left = {name: claim for name, claim in claims.items() if claim is not True and claim not in facts}
    if not left or any(fact is False for fact in facts):
        return
    for effort, most in TRIES:
        question = Question(terms, facts, left.values(), sizes, steps, effort, most)
        reasons = {name: reason for name, claim in left.items() if (reason := question.counterexample(claim)) is not None}
        if not (left := {name: left[name] for name in reasons}):
            return
    yield from reasons.items()


class Question:
    """What is known, as z3 understands it. Products of unknowns are unknowns of their own.

    ``effort``: steps of z3 for what is asked on the way; ``most``: products of bounds that are made in a round.
    """

    def __init__(
        self,
        terms: Terms,
        facts: Sequence[Condition],
        claims: Iterable[Condition],
        sizes: Sequence[Steps],
        steps: Sequence[tuple[Condition, Condition]],
        effort: int,
        most: int,
    ) -> None:
        self.terms, self.sizes, self.steps, self.names = terms, sizes, list(steps), dict[Monomial, z3.ArithRef]()
        self.solver = z3.Solver()
        self.effort, self.most = effort, most
        self.bounds, self.others = dict[Polynomial, None](), list[Some]()
        self.rounds = 0
        asked = [opposite(claim) for claim in claims]
        self.products = {names for each in (*facts, *asked) for names in products_in(each)}
        self.seen = seen = set[str]()
        pending = [name for each in (*facts, *asked) for name in names_in(each)]
        for fact in facts:
            self._add(fact)
        while pending:
            if (name := pending.pop()) not in seen:
                seen.add(name)
                for fact in terms.about.get(name, ()):
                    self._add(fact)
                    self.products |= set(products_in(fact))
                    pending += names_in(fact)
        self.natural = set(terms.natural)
        self.bounds |= dict.fromkeys(Polynomial.name(name) for name in sorted(seen & self.natural))

    def _add(self, fact: Condition) -> None:
        match fact:
            case All(parts):
                for part in parts:
                    self._add(part)
                return
            case AtLeast0(number):
                self.bounds[number] = None
            case Some():
                self.others.append(fact)
        self.solver.add(self.formula(fact))

    def formula(self, condition: Condition) -> z3.BoolRef:
        match condition:
            case AtLeast0(number):
                return self._linear(number) >= 0
            case Unknown(name, holds):
                return z3.Bool(name) if holds else z3.Not(z3.Bool(name))
            case All(parts):
                return z3.And(*map(self.formula, parts))
            case Some(parts):
                return z3.Or(*map(self.formula, parts))
        return z3.BoolVal(condition)

    def _linear(self, number: Polynomial) -> z3.ArithRef:
        return z3.Sum(*(self._unknown(names) * factor if names else z3.IntVal(factor) for names, factor in number.terms))

    def _unknown(self, names: Monomial) -> z3.ArithRef:
        if names not in self.names:
            self.names[names] = z3.Int("*".join(names))
        return self.names[names]

    def counterexample(self, claim: Condition) -> str | None:
        """Why ``claim`` does not follow; None where it does."""
        wrong = opposite(claim)
        while True:
            self.solver.push()
            self._assume(wrong)
            answer = self._check(EFFORT)
            found = None if answer == z3.unsat else self._model() if answer == z3.sat else str(self.solver.reason_unknown())
            self.solver.pop()
            if found is None or self.rounds == ROUNDS:
                return found
            self._more()
            self.rounds += 1

    def _assume(self, wrong: Condition) -> None:
        """Let ``wrong`` hold, and what follows for products."""
        self.solver.add(self.formula(wrong))
        if self.rounds and isinstance(wrong, AtLeast0):
            for factor in self._factors():
                if self._is_wanted(wrong.number, factor) and isinstance(product := wrong.number * factor, Polynomial):
                    self.solver.add(self._linear(product) >= 0)

    def _model(self) -> str:
        model = self.solver.model()
        meaning = dict[Polynomial, object]()
        for key, value in self.terms.known.items():
            if isinstance(value, Polynomial):
                meaning.setdefault(value, key)
        found = list[str]()
        for declared in model.decls():
            key = meaning.get(Polynomial.name(declared.name()))
            if key is not None and isinstance(key, tuple) and key[0] in ("size", "program", "lane", "step"):
                what = "of a loop" if isinstance(key[1], scf.ForOp) else key[1]
                found.append(f"{key[0]} {what} = {model[declared]}")
        return ", ".join(sorted(found))

    def _more(self) -> None:
        """Tell z3 what it doesn't know of products."""
        self._settle()
        self._bound_selected()
        self._bound_quotients()
        self._prove_steps()
        for names in sorted(self.products):
            if self.natural.issuperset(names):
                whole = Polynomial(((names, 1),))
                self.bounds.setdefault(whole)
                self.solver.add(self._linear(whole) >= 0)
                for place, name in enumerate(names):
                    rest = Polynomial(((names[:place] + names[place + 1 :], 1),))
                    some = at_least(Polynomial.name(name), 1)
                    self.solver.add(self.formula(either(some, at_least(0, whole))))
                    self.solver.add(self.formula(either(opposite(some), at_least(whole, rest))))
        made = {
            product: sum(len(names) > 1 and names not in self.products for names, _ in product.terms)
            for factor in self._factors()
            for bound in self.bounds
            if self._is_wanted(bound, factor)
            and isinstance(product := bound * factor, Polynomial)
            and product not in self.bounds
        }
        for product in sorted(made, key=lambda product: made[product])[: self.most]:
            self.bounds[product] = None
            self.products |= {names for names, _ in product.terms if len(names) > 1}
            self.solver.add(self._linear(product) >= 0)

    def _prove_steps(self) -> None:
        proved = [step for step in self.steps if not self._may_hold(opposite(step[0]))]
        self.steps = [step for step in self.steps if step not in proved]
        for fact in (fact for step in proved for fact in step if fact is not True):
            self._add(fact)

    def _bound_selected(self) -> None:
        """Look for bounds of numbers that are selected, such as places given by data: 0, and sizes."""
        multiplied = {name for names in self.products for name in names}
        for name in sorted(self.terms.selected & self.seen & multiplied):
            number = Polynomial.name(name)
            if name not in self.natural and not self._may_hold(at_least(-1, number)):
                self.natural.add(name)
                self._add(at_least(number))
            for size in self.sizes:
                self._bound(number, size, 1)

    def _bound_quotients(self) -> None:
        """Look for counts below which quotients lie: ``q < c`` where ``q >= c``, and so ``q * d >= c * d``, can't be.

        They are sizes, and shares of the grid.
        """
        multiplied = {name for names in self.products for name in names}
        counts = dict.fromkeys((*self.sizes, *self.terms.programs()))
        for name, (_, divisor) in self.terms.divided.items():
            if name in self.seen and (name in multiplied or isinstance(divisor, Polynomial)):
                quotient = Polynomial.name(name)
                counts |= dict.fromkeys(share for count in counts if (share := share_of(count, divisor)))
                for count in counts:
                    self._bound(quotient, count, divisor)
                for count in (1 << place for place in range(12)):
                    if name not in multiplied or self._bound(quotient, count, divisor):
                        break

    def _bound(self, quotient: Polynomial, size: Steps, divisor: Steps) -> bool:
        """Whether ``quotient``, by ``divisor``, is less than ``size``."""
        bound, above = at_least(size - 1, quotient), quotient - size
        if not isinstance(bound, AtLeast0) or bound.number in self.bounds:
            return isinstance(bound, AtLeast0)
        if self._may_hold(both(at_least(above), at_least(above * divisor))):
            return False
        self._add(bound)
        return True

    def _factors(self) -> list[Polynomial]:
        """What bounds may be multiplied by: parts of products that are not negative."""
        found = dict[Polynomial, None]()
        for names in sorted(self.products):
            for place in range(len(names)):
                rest = names[:place] + names[place + 1 :]
                if self.natural.issuperset(rest):
                    found[Polynomial(((rest, 1),))] = None
        return list(found)

    def _is_wanted(self, bound: Polynomial, factor: Polynomial) -> bool:
        """Whether the product of the two says something of a product that there is."""
        [(by, _)] = factor.terms
        return any(tuple(sorted((*names, *by))) in self.products for names, _ in bound.terms if names)

    def _settle(self) -> None:
        """Leave out of alternatives what can't be."""
        left = list[Some]()
        for fact in self.others:
            parts = [part for part in fact.parts if self._may_hold(part)]
            if len(parts) == len(fact.parts):
                left.append(fact)
            else:
                self.others = []
                self._add(either(*parts))
                left += self.others
        self.others = left

    def _may_hold(self, condition: Condition) -> bool:
        self.solver.push()
        self.solver.add(self.formula(condition))
        answer = self._check(self.effort)
        self.solver.pop()
        return answer != z3.unsat

    def _check(self, steps: int) -> z3.CheckSatResult:
        self.solver.set("rlimit", steps)
        return self.solver.check()
