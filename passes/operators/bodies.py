"""Build the body of one ``linalg.generic``: the elements that it computes, at the positions at which rules read them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from xdsl.dialects import tensor
from xdsl.dialects.builtin import AffineMapAttr, TensorType
from xdsl.dialects.linalg import ops as linalg
from xdsl.dialects.linalg.attrs import IteratorTypeAttr
from xdsl.ir import Block, Operation, OpResult, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from fxc.dialects.attributes.size_polynomials import Steps, names_of
from fxc.dialects.attributes.types import tensor_of, tensor_type
from fxc.dialects.torch_ops.base import TorchOp
from fxc.passes.analysis.index.forms import Form
from fxc.passes.analysis.index.maps import affine_of
from fxc.passes.operators.accumulating import COMBINED, chosen, decoded, kind_of
from fxc.passes.operators.index_expressions import Places
from fxc.passes.operators.reductions import dimensions, keeps_dimensions
from fxc.passes.operators.rules import (
    ZERO,
    Accumulation,
    Constant,
    Conversion,
    Elements,
    Index,
    Outside,
    Placed,
    Read,
    Reduction,
    Rule,
    View,
    dtype_of,
    python_arguments,
    result_dtype,
    shape_of,
    tensors,
)
from fxc.passes.operators.scalars import Scalar, Uncovered, computation_dtype, constant, loaded
from fxc.passes.operators.sizes import Sizes
from fxc.passes.operators.table import operator_of

UNPROVED = "an element that may lie outside of its tensor for some size"


class Group:
    """The state of the conversion of the group ``source``: new ops in the block ``target``, and their tensors."""

    def __init__(self, source: Block, sizes: Sizes) -> None:
        self.source, self.target, self.sizes = source, Block(), sizes
        self.tensors = dict[SSAValue, SSAValue]()
        """Value of the source -> its materialized tensor, if there is one."""
        self.totals = dict[SSAValue, SSAValue]()
        """Result of a reduction or accumulation -> the tensor of its totals."""

    def add(self, op: Operation) -> SSAValue:
        self.target.add_op(op)
        return op.results[0]

    def empty(self, type: TensorType) -> SSAValue:
        return self.add(tensor.EmptyOp(self.sizes.dynamic(type), type))

    def tensor_type(self, dtype: str, shape: Sequence[Steps], device: str) -> TensorType:
        """The type of a contiguous tensor."""
        return tensor_type(dtype, tuple(map(self.sizes.dim, shape)), None, device)

    def is_outside(self, value: SSAValue) -> bool:
        return not isinstance(value, OpResult) or value.op.parent is not self.source


class Key(tuple[SSAValue, Index]):
    """A read with a cached hash, since index expressions are trees and reads are looked up often."""

    _hash: int | None = None

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = super().__hash__()
        return self._hash


class Body:
    """Builds the body of a generic over ``shape``."""

    def __init__(self, group: Group, shape: Sequence[Steps]) -> None:
        self.group, self.shape, self.block = group, tuple(shape), Block()
        self.loops: Index = tuple(map(Form.atom, range(len(shape))))
        self.places = Places(self.block, shape, group.sizes.value, group.sizes.least)
        self._inputs = dict[tuple[SSAValue, Index], Scalar]()
        self._elements = dict[Read, Scalar]()
        self._reads = dict[Read, Sequence[Read]]()
        """Element -> the elements that it is computed from, if its rule determines them from its position."""
        self._begun = dict[Read, tuple[Elements, Sequence[Read]]]()
        """Element that is computed in steps -> its generator, and the reads that the next step needs."""
        self._needs = dict[Read, list[Read]]()
        """Element -> the reads that must be within bounds if the element is."""
        self._asked, self._unproved = list[Read](), set[Read]()

    def element(self, value: SSAValue, index: Index) -> Scalar:
        """The element of ``value`` at ``index``. Ops that compute it are added unless they exist."""
        first = self._key((value, index))
        self._asked.append(first)
        stack: list[Read] = [first]
        while stack:
            key = stack[-1]
            if key not in self._elements:
                reads = self._reads.get(key) or self._read_by(key)
                if missing := [read for read in reads if read not in self._elements]:
                    stack += reversed(missing)
                    continue
                if key not in self._elements:
                    self._elements[key] = self._written(key)
            stack.pop()
        return self._elements[first]

    def made(self, steps: Elements) -> Scalar:
        """Run the generator ``steps`` with the elements that it reads, and return its result."""
        try:
            reads = next(steps)
            while True:
                reads = steps.send([self.element(*read) for read in reads])
        except StopIteration as made:
            return made.value

    def load(self, source: SSAValue, index: Index) -> Scalar:
        """The element at ``index`` of a materialized tensor; 0 if ``index`` is out of bounds."""
        if 0 in self.shape:  # no elements
            return constant(self.block, 0, computation_dtype(dtype_of(source)))
        if not self._is_mapped(source, index):
            return self.places.element(source, index, dtype_of(source))
        if (source, index) not in self._inputs:
            argument = self.block.insert_arg(tensor_of(source).element_type, len(self.block.args))
            self._inputs[source, index] = loaded(self.block, argument, dtype_of(source))
        return self._inputs[source, index]

    def count(self, dims: Iterable[int], dtype: str) -> int | Scalar:
        """The product of the trip counts of the loops ``dims``: a number, or a scalar of ``dtype`` if it is dynamic."""
        return self._counted([self.shape[dim] for dim in dims], dtype)

    def _counted(self, sizes: Iterable[Steps], dtype: str) -> int | Scalar:
        steps = math.prod(sizes)
        return steps if isinstance(steps, int) else self.places.constant(steps, dtype)

    def place(self, dims: Sequence[int]) -> Scalar:
        """The row-major number of an element among those along ``dims``."""
        line = ZERO
        for dim in dims:
            line = line * self.shape[dim] + self.loops[dim]
        return self.places.number(line)

    def generic(self, element: SSAValue, output: SSAValue, kept: Iterable[int]) -> SSAValue:
        """Yield ``element`` and create the generic. ``output`` has the loops ``kept``; its block argument is the last one.

        Uncovered if a required element cannot be proved to be within bounds for all sizes.
        """
        self._check_needs()
        kept, rank = list(kept), len(self.shape)
        inputs = [source for source, _ in self._inputs]
        maps = [AffineMap(rank, 0, self._mapped(source, index)) for source, index in self._inputs]
        loops = [AffineExpr.dimension(dim) for dim in range(rank)]
        seen = {expression for map in maps for expression in map.results}
        if not seen.issuperset(loops[dim] for dim in range(rank) if dim not in kept):
            inputs.append(self._extent())  # no operand determines the size of some loop
            maps.append(AffineMap(rank, 0, tuple(loops)))
        maps.append(AffineMap(rank, 0, tuple(loops[dim] for dim in kept)))
        kinds = [IteratorTypeAttr.parallel() if dim in kept else IteratorTypeAttr.reduction() for dim in range(rank)]
        self.block.add_op(linalg.YieldOp(element))
        attributes = [AffineMapAttr(map) for map in maps]
        return self.group.add(linalg.GenericOp(inputs, [output], Region(self.block), attributes, kinds, [output.type]))

    # the elements that an element depends on

    def _key(self, read: Read) -> Key:
        value, index = read
        return Key((value, tuple(map(self.places.ranges.simplified, index))))

    def _rule(self, value: SSAValue, index: Index) -> tuple[TorchOp, Rule, int] | None:
        """The op that computes ``value`` in this body, its rule and the result number; None if ``value`` is loaded."""
        if self.group.is_outside(value):
            return None
        assert isinstance(value, OpResult) and isinstance(value.op, TorchOp)
        rule = rule_of(value.op)
        if value in self.group.tensors and (
            isinstance(rule, (Reduction, Placed, Accumulation)) or self._is_identity(value, index)
        ):
            return None
        return value.op, rule, value.index

    def _is_identity(self, value: SSAValue, index: Index) -> bool:
        """Whether ``index`` is one loop per dimension. Other positions of a result may be written by other programs."""
        pairs = zip(index, shape_of(value), strict=True)
        return all(size == 1 or self._loop_size(place) == size for place, size in pairs)

    def _loop_size(self, place: Form) -> Steps | None:
        """The trip count of the loop that ``place`` is; None if it is not a loop."""
        atom = place.only()
        return self.shape[atom] if isinstance(atom, int) else None

    def _read_by(self, key: Read) -> Sequence[Read]:
        (_, index), found = key, self._rule(*key)
        if found is None:
            return []
        op, rule, result = found
        if isinstance(rule, Placed):
            return self._advance(key, rule.steps(op, index, result, self.places))
        if isinstance(rule, Reduction):
            return []
        if isinstance(rule, Accumulation):
            old = old_of(op, self.group.is_outside)
            reads = [] if old is None else [Key((old, index))]
        else:
            reads = [self._key(read) for read in rule.reads(op, index, result)]
        self._reads[key], self._needs[key] = reads, list[Read](reads)
        return reads

    def _advance(self, key: Read, start: Elements) -> Sequence[Read]:
        """Advance the computation of an element as far as possible. Returns the missing reads, none if it is complete."""
        try:
            steps, reads = self._begun.get(key) or (start, self._wanted(key, next(start)))
            while all(read in self._elements for read in reads):
                reads = self._wanted(key, steps.send([self._elements[read] for read in reads]))
        except StopIteration as made:
            self._elements[key] = made.value
            return []
        self._begun[key] = steps, reads
        return reads

    def _wanted(self, key: Read, reads: Sequence[Read]) -> Sequence[Read]:
        keys = [self._key(read) for read in reads]
        if not isinstance(reads, Outside):
            self._needs.setdefault(key, []).extend(keys)
        return keys

    def _written(self, key: Read) -> Scalar:
        (value, index), found = key, self._rule(*key)
        if found is None:
            self._note(key)
            return self.load(self.group.tensors.get(value, value), index)
        op, rule, _ = found
        if isinstance(rule, Reduction):
            self._note(key)
            return self._total(op, rule, index)
        if isinstance(rule, Accumulation):
            self._note(key)
            return self._accumulated(op, index, [self._elements[read] for read in self._reads[key]])
        assert not isinstance(rule, Placed)
        made = rule.emit(op, [self._elements[read] for read in self._reads[key]], self.places)
        if isinstance(made.value, OpResult) and made.value.name_hint is None:
            made.value.name_hint = value.name_hint
        return made.rounded(dtype_of(value)) if value in self.group.tensors else made

    def _total(self, op: TorchOp, rule: Reduction, index: Index) -> Scalar:
        """The result of a reduction at ``index``, computed from the total."""
        [source], dims = tensors(op), dimensions(op)
        if keeps_dimensions(op):
            index = tuple(place for dim, place in enumerate(index) if dim not in dims)
        total = self.load(self.group.totals[op.results[0]], index)
        if rule.finish is not None:
            shape = shape_of(source)
            total = rule.finish(op, total, self._counted([shape[dim] for dim in dims], total.dtype))
        return total.to(computation_dtype(result_dtype(op)))

    def _accumulated(self, op: TorchOp, index: Index, old: Sequence[Scalar]) -> Scalar:
        """The result of an accumulation at ``index``: the total, combined with the element ``old`` if there is one."""
        total = decoded(op, self.load(self.group.totals[op.results[0]], index))
        for element in old:
            total = COMBINED[kind_of(op)].combine(total, element.to(total.dtype))
        return total.to(computation_dtype(result_dtype(op)))

    # bounds

    def _note(self, key: Read) -> None:
        """Record a read that cannot be proved to be within bounds for all sizes."""
        value, index = key
        loops = {loop for place in index for loop in place.loops()}
        numbers = [*shape_of(value), *(self.shape[loop] for loop in loops)]
        is_static = not any(names_of(number) for number in numbers) and not any(place.names() for place in index)
        if not is_static and not self.places.is_within(index, shape_of(value)):
            self._unproved.add(key)

    def _check_needs(self) -> None:
        pending, known = list(self._asked), set[Read]()
        while self._unproved and pending:
            key = pending.pop()
            if key in self._unproved:
                raise Uncovered(UNPROVED)
            if key not in known:
                known.add(key)
                pending += self._needs.get(key, [])

    # affine maps

    def _is_mapped(self, source: SSAValue, index: Index) -> bool:
        """Whether ``index`` is known to be within ``source`` and an affine map of the loops can express it."""
        shape = shape_of(source)
        if not self.places.is_within(index, shape):
            return False
        for place, size in zip(index, shape, strict=True):
            steps = self._loop_size(place)
            is_part = steps is not None and steps != size
            if place.symbols() or place.names() or (is_part and (names_of(steps) or names_of(size))):  # type: ignore[arg-type]
                return False
        return True

    def _mapped(self, source: SSAValue, index: Index) -> tuple[AffineExpr, ...]:
        """``index`` as map results. A single loop must cover its whole dimension, so a loop over a part is ``d mod size``."""
        places = list[AffineExpr]()
        for place, size in zip(index, shape_of(source), strict=True):
            expression, steps = affine_of(place, _unnamed), self._loop_size(place)
            places.append(expression if steps in (None, size) else expression % size)  # type: ignore[operator]
        return tuple(places)

    def _extent(self) -> SSAValue:
        """A tensor with the sizes of the loops, which is not read."""
        type = self.group.tensor_type("bool", self.shape, "cpu")
        self.block.insert_arg(type.element_type, len(self.block.args) - 1)
        return self.group.empty(type)


def _unnamed(symbol: object) -> AffineExpr:
    raise AssertionError(f"a map without symbols has {symbol}")


def rule_of(op: TorchOp) -> Rule:
    """The rule by which kernels compute ``op``. Uncovered if there is none."""
    if (formula := operator_of(op).formula) is None:
        raise Uncovered(op.operator)
    return chosen(op, formula)


def old_of(op: TorchOp, is_outside: Callable[[SSAValue], bool]) -> SSAValue | None:
    """The value that the updates of ``op`` are combined with at the end; None if it is neutral.

    ``is_outside``: whether a value is computed outside of the group, so that its op is not available.
    """
    x = source = python_arguments(op).get("self")
    while source is not None and kind_of(op) == "add" and not is_outside(source):
        assert isinstance(source, OpResult) and isinstance(source.op, TorchOp)
        rule = rule_of(source.op)
        if isinstance(rule, Constant) and python_arguments(source.op).get("fill_value", rule.number) == 0:
            return None
        source = tensors(source.op)[0] if isinstance(rule, (View, Conversion)) else None
    return x
