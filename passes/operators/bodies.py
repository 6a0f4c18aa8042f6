"""The body of one ``linalg.generic``: the elements that it computes, at the places where rules read them."""

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
from fxc.dialects.attributes.types import tensor_type
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
    """What exists of the group ``source`` that is converted: new ops in the block ``target``, and the tensors they make."""

    def __init__(self, source: Block, sizes: Sizes) -> None:
        self.source, self.target, self.sizes = source, Block(), sizes
        self.tensors = dict[SSAValue, SSAValue]()
        """The tensor that a value of the source is, where it exists."""
        self.totals = dict[SSAValue, SSAValue]()
        """What was combined for the result of a reduction or of an accumulation."""

    def add(self, op: Operation) -> SSAValue:
        self.target.add_op(op)
        return op.results[0]

    def empty(self, type: TensorType) -> SSAValue:
        return self.add(tensor.EmptyOp(self.sizes.dynamic(type), type))

    def tensor_type(self, dtype: str, shape: Sequence[Steps], device: str) -> TensorType:
        """Of a contiguous tensor."""
        return tensor_type(dtype, tuple(map(self.sizes.dim, shape)), None, device)

    def is_outside(self, value: SSAValue) -> bool:
        return not isinstance(value, OpResult) or value.op.parent is not self.source


class Key(tuple[SSAValue, Index]):
    """A read that is looked up often: index expressions are trees, hashed once."""

    _hash: int | None = None

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = super().__hash__()
        return self._hash


class Body:
    """The body of a generic over ``shape`` that is being written."""

    def __init__(self, group: Group, shape: Sequence[Steps]) -> None:
        self.group, self.shape, self.block = group, tuple(shape), Block()
        self.loops: Index = tuple(map(Form.atom, range(len(shape))))
        self.places = Places(self.block, shape, group.sizes.value, group.sizes.least)
        self._inputs = dict[tuple[SSAValue, Index], Scalar]()
        self._elements = dict[Read, Scalar]()
        self._reads = dict[Read, Sequence[Read]]()
        """What an element is computed of, where its place says that."""
        self._begun = dict[Read, tuple[Elements, Sequence[Read]]]()
        """Elements that are made step by step, and what the next step waits for."""
        self._needs = dict[Read, list[Read]]()
        """What an element takes that must lie inside of its tensor where the element does."""
        self._asked, self._unproved = list[Read](), set[Read]()

    def element(self, value: SSAValue, index: Index) -> Scalar:
        """The element of ``value`` at ``index``; the ops that it takes are written where they are not yet."""
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
        """What ``steps`` make of the elements that they ask for."""
        try:
            reads = next(steps)
            while True:
                reads = steps.send([self.element(*read) for read in reads])
        except StopIteration as made:
            return made.value

    def load(self, source: SSAValue, index: Index) -> Scalar:
        """The element at ``index`` of a tensor that exists; 0 where that lies outside."""
        if 0 in self.shape:  # there is no element
            return constant(self.block, 0, computation_dtype(dtype_of(source)))
        if not self._is_mapped(source, index):
            return self.places.element(source, index, dtype_of(source))
        if (source, index) not in self._inputs:
            assert isinstance(source.type, TensorType)
            argument = self.block.insert_arg(source.type.element_type, len(self.block.args))
            self._inputs[source, index] = loaded(self.block, argument, dtype_of(source))
        return self._inputs[source, index]

    def count(self, dims: Iterable[int], dtype: str) -> int | Scalar:
        """How many steps the loops ``dims`` have together, as a scalar of ``dtype`` where it is not known."""
        return self._counted([self.shape[dim] for dim in dims], dtype)

    def _counted(self, sizes: Iterable[Steps], dtype: str) -> int | Scalar:
        steps = math.prod(sizes)
        return steps if isinstance(steps, int) else self.places.constant(steps, dtype)

    def place(self, dims: Sequence[int]) -> Scalar:
        """The number of an element among those along ``dims``, row by row."""
        line = ZERO
        for dim in dims:
            line = line * self.shape[dim] + self.loops[dim]
        return self.places.number(line)

    def generic(self, element: SSAValue, output: SSAValue, kept: Iterable[int]) -> SSAValue:
        """Close the body with ``element``. The last argument of the block is that of ``output``, which has loops ``kept``.

        Uncovered where an element that must be there is not known to lie inside of its tensor, for all sizes.
        """
        self._check_needs()
        kept, rank = list(kept), len(self.shape)
        inputs = [source for source, _ in self._inputs]
        maps = [AffineMap(rank, 0, self._mapped(source, index)) for source, index in self._inputs]
        loops = [AffineExpr.dimension(dim) for dim in range(rank)]
        seen = {expression for map in maps for expression in map.results}
        if not seen.issuperset(loops[dim] for dim in range(rank) if dim not in kept):
            inputs.append(self._extent())  # a loop that no operand shows the size of
            maps.append(AffineMap(rank, 0, tuple(loops)))
        maps.append(AffineMap(rank, 0, tuple(loops[dim] for dim in kept)))
        kinds = [IteratorTypeAttr.parallel() if dim in kept else IteratorTypeAttr.reduction() for dim in range(rank)]
        self.block.add_op(linalg.YieldOp(element))
        attributes = [AffineMapAttr(map) for map in maps]
        return self.group.add(linalg.GenericOp(inputs, [output], Region(self.block), attributes, kinds, [output.type]))

    # what an element is made of

    def _key(self, read: Read) -> Key:
        value, index = read
        return Key((value, tuple(map(self.places.ranges.simplified, index))))

    def _rule(self, value: SSAValue, index: Index) -> tuple[TorchOp, Rule, int] | None:
        """The op that computes ``value`` here, its rule, and which result it is; None where ``value`` is read as a tensor."""
        if self.group.is_outside(value):
            return None
        assert isinstance(value, OpResult) and isinstance(value.op, TorchOp)
        rule = rule_of(value.op)
        if value in self.group.tensors and (
            isinstance(rule, (Reduction, Placed, Accumulation)) or self._is_own_place(value, index)
        ):
            return None
        return value.op, rule, value.index

    def _is_own_place(self, value: SSAValue, index: Index) -> bool:
        """Whether ``index`` is a loop for each dimension: another place of a result may be another program's."""
        pairs = zip(index, shape_of(value), strict=True)
        return all(size == 1 or self._loop_size(place) == size for place, size in pairs)

    def _loop_size(self, place: Form) -> Steps | None:
        """How many steps the loop has that ``place`` is; None where it is no loop."""
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
        """Go on with the element as far as it can be made; what it needs then, nothing where it is there."""
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
        """The result of a reduction at ``index``, from what was combined."""
        [source], dims = tensors(op), dimensions(op)
        if keeps_dimensions(op):
            index = tuple(place for dim, place in enumerate(index) if dim not in dims)
        total = self.load(self.group.totals[op.results[0]], index)
        if rule.finish is not None:
            shape = shape_of(source)
            total = rule.finish(op, total, self._counted([shape[dim] for dim in dims], total.dtype))
        return total.to(computation_dtype(result_dtype(op)))

    def _accumulated(self, op: TorchOp, index: Index, old: Sequence[Scalar]) -> Scalar:
        """The result of an accumulation at ``index``: what was combined, and at most one element that was there before."""
        total = decoded(op, self.load(self.group.totals[op.results[0]], index))
        for element in old:
            total = COMBINED[kind_of(op)].combine(total, element.to(total.dtype))
        return total.to(computation_dtype(result_dtype(op)))

    # whether it is there

    def _note(self, key: Read) -> None:
        """Remember an element of a tensor of which it is not known that it lies inside, for all sizes."""
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
        """Whether an affine map of the loops says ``index``, which is known to lie inside of ``source``."""
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
        """``index`` as a map. A loop that stands alone goes through a whole dimension: the first part is ``d mod size``."""
        places = list[AffineExpr]()
        for place, size in zip(index, shape_of(source), strict=True):
            expression, steps = affine_of(place, _unnamed), self._loop_size(place)
            places.append(expression if steps in (None, size) else expression % size)  # type: ignore[operator]
        return tuple(places)

    def _extent(self) -> SSAValue:
        """A tensor of the sizes of the loops, which is not read."""
        type = self.group.tensor_type("bool", self.shape, "cpu")
        self.block.insert_arg(type.element_type, len(self.block.args) - 1)
        return self.group.empty(type)


def _unnamed(symbol: object) -> AffineExpr:
    raise AssertionError(f"a map without symbols has {symbol}")


def rule_of(op: TorchOp) -> Rule:
    """How kernels compute ``op``. Uncovered where they do not."""
    if (formula := operator_of(op).formula) is None:
        raise Uncovered(op.operator)
    return chosen(op, formula)


def old_of(op: TorchOp, is_outside: Callable[[SSAValue], bool]) -> SSAValue | None:
    """What the updates of ``op`` are combined with in the end; None where that changes nothing. ``is_outside``: whether it is
    not known what a value is made of."""
    x = source = python_arguments(op).get("self")
    while source is not None and kind_of(op) == "add" and not is_outside(source):
        assert isinstance(source, OpResult) and isinstance(source.op, TorchOp)
        rule = rule_of(source.op)
        if isinstance(rule, Constant) and python_arguments(source.op).get("fill_value", rule.number) == 0:
            return None
        source = tensors(source.op)[0] if isinstance(rule, (View, Conversion)) else None
    return x
