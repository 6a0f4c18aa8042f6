"""A group of torch ops as ``linalg.generic`` ops, one for each tensor that must exist.

A tensor exists where others read it as a result of the group, where it is what a reduction combined, or where it is a part of a
concatenation. All else is computed again wherever a tensor that exists needs it: at which places, rules say by index
expressions over the loops, so views cost nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Sequence

from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import AffineMapAttr, TensorType, i64
from xdsl.dialects.linalg import ops as linalg
from xdsl.dialects.linalg.attrs import IteratorTypeAttr
from xdsl.ir import Attribute, Block, Operation, OpResult, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from fxc.dialects.effects import is_pure
from fxc.dialects.fusion import YieldOp
from fxc.dialects.tile import AccumulateOp
from fxc.dialects.torch_ops.base import TorchOp
from fxc.dialects.torch_ops.constant import ConstantOp
from fxc.dialects.types import device, dtype_name, layout, sizes, strides, tensor_type
from fxc.passes.lowering._linalg.accumulating import (
    COMBINED,
    accumulation_of,
    combined_dtype,
    decoded,
    encoded,
    kind_of,
    start_of,
)
from fxc.passes.lowering._linalg.places import Places
from fxc.passes.lowering._linalg.reductions import SUM, dimensions, keeps_dimensions
from fxc.passes.lowering._linalg.rules import (
    Accumulation,
    Constant,
    Conversion,
    Index,
    Placed,
    Read,
    Reduction,
    Rule,
    Steps,
    View,
    dtype_of,
    python_arguments,
    result_dtype,
    shape_of,
    tensors,
)
from fxc.passes.lowering._linalg.scalars import (
    DTYPES,
    Scalar,
    Uncovered,
    computation_dtype,
    constant,
    loaded,
    machine_type,
    stored,
    where,
)
from fxc.passes.lowering._linalg.table import CONCATENATIONS, RULES, STACKS


class Generics:
    """Writes the ops of ``source``, the body of a group, as ``linalg`` ops into the new block ``target``."""

    def __init__(self, source: Block) -> None:
        self.source, self.target = source, Block()
        self.tensors = dict[SSAValue, SSAValue]()
        """The tensor that a value of the source is, where it exists."""
        self.wholes = dict[SSAValue, SSAValue]()
        """The tensor that is put together of pieces: nothing in the group reads it."""
        self.totals = dict[SSAValue, SSAValue]()
        """What was combined for the result of a reduction or of an accumulation."""
        self.combined = dict[Hashable, SSAValue]()
        """What was combined, by what combines which elements: the mean of a variance is the sum beside it."""

    def convert(self) -> Block:
        """The body of linalg ops. Uncovered where an op, a type or an argument has no rule."""
        last = self.source.last_op
        assert isinstance(last, YieldOp)
        wanted = set(last.operands)
        for op in self.source.ops:
            if isinstance(op, TorchOp):
                self._op(op, wanted)
            elif op is not last and not (isinstance(op, ConstantOp) and not isinstance(op.result.type, TensorType)):
                raise Uncovered(op.name)
        made = self.tensors | self.wholes
        self.target.add_op(YieldOp.of([made[value] for value in last.operands]))
        return self.target

    def add(self, op: Operation) -> SSAValue:
        self.target.add_op(op)
        return op.results[0]

    def is_outside(self, value: SSAValue) -> bool:
        return not isinstance(value, OpResult) or value.op.parent is not self.source

    def _op(self, op: TorchOp, wanted: set[SSAValue]) -> None:
        check_types(op)
        if op.operator in CONCATENATIONS | STACKS and op.results[0] in wanted:
            self._concatenate(op)
        elif isinstance(rule := rule_of(op), Reduction):
            self._reduce(op, rule)
        elif isinstance(rule, Accumulation):
            self._accumulate(op, rule)
        for result in op.results:
            if result in wanted and result not in self.tensors and result not in self.wholes:
                self.tensors[result] = self._materialize(result, result.type)
            for made in (self.tensors, self.wholes):
                if result in made:
                    made[result].name_hint = result.name_hint

    def _materialize(self, value: SSAValue, type: Attribute, added: Sequence[int] = ()) -> SSAValue:
        """``value`` as a tensor of ``type``, which has dimensions of size 1 ``added``: one generic over its elements."""
        assert isinstance(type, TensorType)
        body = Body(self, type.get_shape())
        index = tuple(loop for dim, loop in enumerate(body.loops) if dim not in added)
        element = stored(body.element(value, index), dtype_name(type.element_type))
        empty = self.add(tensor.EmptyOp([], type))
        body.block.insert_arg(type.element_type, len(body.block.args))
        return body.generic(element, empty, range(len(body.shape)))

    def _concatenate(self, op: TorchOp) -> None:
        """Make the result of its pieces, for what reads the group: in it, elements are chosen among those of the parts."""
        arguments, [result] = python_arguments(op), op.results
        shape, parts = shape_of(result), arguments["tensors"]
        dim = arguments.get("dim", 0) % max(len(shape), 1)
        adds = op.operator in STACKS
        if any(dtype_of(part) != dtype_of(result) or len(shape_of(part)) + adds != len(shape) for part in parts):
            return
        pieces = list[SSAValue]()
        for part in parts:
            size = 1 if adds else shape_of(part)[dim]
            type = tensor_type(dtype_of(part), (*shape[:dim], size, *shape[dim + 1 :]), None, device(part.type))
            pieces.append(self._materialize(part, type, [dim] if adds else []))
        assert isinstance(result.type, TensorType)
        self.wholes[result] = self.add(tensor.ConcatOp(pieces, dim, result.type))

    def _reduce(self, op: TorchOp, rule: Reduction) -> None:
        """Make the tensor of what is combined."""
        [source], [result] = tensors(op), op.results
        dtype = computation_dtype(rule.accumulation(result_dtype(op)))
        dims, first = dimensions(op), None
        if rule.centred:
            first = self._combined(source, SUM, dims, dtype, None)
        elif rule.extreme is not None:
            first = self._combined(source, rule.extreme, dims, rule.extreme.accumulation(dtype_of(source)), None)
        made = self._combined(source, rule, dims, dtype, first)
        made.name_hint = result.name_hint
        self.totals[result] = made
        if made.type == result.type and rule.finish is None and made not in self.tensors.values():
            self.tensors[result] = made

    def _combined(self, source: SSAValue, rule: Reduction, dims: Sequence[int], dtype: str, first: SSAValue | None) -> SSAValue:
        """The elements of ``source`` along ``dims`` combined, or what ``rule`` makes of them and of a ``first`` reduction."""
        if dtype == "uint8":
            raise Uncovered("a reduction of unsigned numbers")
        key = source, rule.combine, rule.start(dtype), tuple(dims), dtype, first
        if key not in self.combined:
            self.combined[key] = self._loops_of(source, rule, dims, dtype, first)
        return self.combined[key]

    def _loops_of(self, source: SSAValue, rule: Reduction, dims: Sequence[int], dtype: str, first: SSAValue | None) -> SSAValue:
        body = Body(self, shape_of(source))
        element = body.element(source, body.loops)
        kept = [dim for dim in range(len(body.shape)) if dim not in dims]
        if first is not None:
            known = body.load(first, tuple(body.loops[dim] for dim in kept))
            if rule.extreme is not None:
                element = element.to(known.dtype)
                element = where(element.eq(known) | element.is_nan(), body.place(dims), rule.start(dtype))
            else:
                distance = element.to(dtype) - known / self._number(source, dims)
                element = distance * distance
        assert isinstance(source.type, TensorType)
        type = tensor_type(dtype, tuple(body.shape[dim] for dim in kept), None, device(source.type))
        start = constant(self.target, rule.start(dtype), dtype).value
        filled = self.add(linalg.FillOp([start], [self.add(tensor.EmptyOp([], type))], [type]))
        element = element.to(dtype)
        total = Scalar(body.block, body.block.insert_arg(machine_type(dtype), len(body.block.args)), dtype)
        return body.generic(rule.combine(total, element).value, filled, kept)

    def _accumulate(self, op: TorchOp, rule: Accumulation) -> None:
        """Make the tensor of all updates combined: they and their places are loops of their own."""
        [result], kind, dtype, shape = op.results, kind_of(op), combined_dtype(op), rule.shape(op)
        assert isinstance(result.type, TensorType)
        place = device(result.type)

        def loops(dtype: str, element: Callable[[Body], Scalar]) -> SSAValue:
            body, type = Body(self, shape), tensor_type(dtype, shape, None, place)
            value = element(body).to(dtype).value
            empty = self.add(tensor.EmptyOp([], type))
            body.block.insert_arg(type.element_type, len(body.block.args))
            return body.generic(value, empty, range(len(shape)))

        scale = python_arguments(op).get("alpha", 1)
        updates = loops(dtype, lambda body: encoded(op, body.element(*rule.update(op, body.loops))) * scale)
        places = loops("int64", lambda body: body.made(rule.place(op, body.loops, body.places)))
        type = tensor_type(dtype, shape_of(result), None, place)
        start = constant(self.target, start_of(op), dtype).value
        filled = self.add(linalg.FillOp([start], [self.add(tensor.EmptyOp([], type))], [type]))
        made = self.add(AccumulateOp.of(kind, updates, places, filled))
        made.name_hint = result.name_hint
        self.totals[result] = made
        if type == result.type and old_of(op, self.is_outside) is None:
            self.tensors[result] = made

    def _number(self, source: SSAValue, dims: Sequence[int]) -> int:
        return math.prod(shape_of(source)[dim] for dim in dims)

    def total(self, op: TorchOp, rule: Reduction, index: Index, body: Body) -> Scalar:
        """The result of a reduction at ``index``, from what was combined."""
        [source], dims = tensors(op), dimensions(op)
        if keeps_dimensions(op):
            index = tuple(place for dim, place in enumerate(index) if dim not in dims)
        total = body.load(self.totals[op.results[0]], index)
        if rule.finish is not None:
            total = rule.finish(op, total, self._number(source, dims))
        return total.to(computation_dtype(result_dtype(op)))

    def accumulated(self, op: TorchOp, index: Index, old: Sequence[Scalar], body: Body) -> Scalar:
        """The result of an accumulation at ``index``: what was combined, and at most one element that was there before."""
        total = decoded(op, body.load(self.totals[op.results[0]], index))
        for element in old:
            total = COMBINED[kind_of(op)].combine(total, element.to(total.dtype))
        return total.to(computation_dtype(result_dtype(op)))


class Key(tuple[SSAValue, Index]):
    """A read that is looked up often: index expressions are trees, hashed once."""

    _hash: int | None = None

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = super().__hash__()
        return self._hash


class Body:
    """The body of a generic over ``shape`` that is being written."""

    def __init__(self, generics: Generics, shape: Sequence[int]) -> None:
        self.generics, self.shape, self.block = generics, tuple(shape), Block()
        self.loops: Index = tuple(AffineExpr.dimension(dim) for dim in range(len(shape)))
        self.inputs = dict[tuple[SSAValue, Index], Scalar]()
        self.elements = dict[tuple[SSAValue, Index], Scalar]()
        self.reads = dict[tuple[SSAValue, Index], Sequence[Read]]()
        """What an element is computed of, where its place says that."""
        self.places = Places(self.block, shape)
        self.begun = dict[tuple[SSAValue, Index], tuple[Steps, Sequence[Read]]]()
        """Elements that are made step by step, and what the next step waits for."""

    def element(self, value: SSAValue, index: Index) -> Scalar:
        """The element of ``value`` at ``index``; the ops that it takes are written where they are not yet."""
        stack: list[Read] = [Key((value, index))]
        while stack:
            key = stack[-1]
            if key not in self.elements:
                reads = self.reads.get(key) or self._reads(key)
                if missing := [read for read in reads if read not in self.elements]:
                    stack += reversed(missing)
                    continue
                if key not in self.elements:
                    self.elements[key] = self._written(key)
            stack.pop()
        return self.elements[value, index]

    def _rule(self, value: SSAValue, index: Index) -> tuple[TorchOp, Rule, int] | None:
        """The op that computes ``value`` here, its rule, and which result it is; None where ``value`` is read as a tensor."""
        if self.generics.is_outside(value):
            return None
        assert isinstance(value, OpResult) and isinstance(value.op, TorchOp)
        rule = rule_of(value.op)
        if value in self.generics.tensors and (
            isinstance(rule, (Reduction, Placed, Accumulation)) or self._is_own_place(value, index)
        ):
            return None
        return value.op, rule, value.index

    def _is_own_place(self, value: SSAValue, index: Index) -> bool:
        """Whether ``index`` is a loop for each dimension: another place of a result may be another program's."""
        pairs = zip(index, shape_of(value), strict=True)
        return all(size == 1 or (place in self.loops and self.shape[self.loops.index(place)] == size) for place, size in pairs)

    def _reads(self, key: Read) -> Sequence[Read]:
        (_, index), found = key, self._rule(*key)
        if found is None:
            return []
        op, rule, result = found
        if isinstance(rule, Placed):
            return self._advance(key, rule.steps(op, index, result, self.places))
        if isinstance(rule, Reduction):
            return []
        if isinstance(rule, Accumulation):
            old = old_of(op, self.generics.is_outside)
            self.reads[key] = [] if old is None else [Key((old, index))]
            return self.reads[key]
        self.reads[key] = reads = [Key(read) for read in rule.reads(op, index, result)]
        return reads

    def _advance(self, key: Read, start: Steps) -> Sequence[Read]:
        """Go on with the element as far as it can be made; what it needs then, nothing where it is there."""
        try:
            steps, reads = self.begun.get(key) or (start, [Key(read) for read in next(start)])
            while all(read in self.elements for read in reads):
                reads = [Key(read) for read in steps.send([self.elements[read] for read in reads])]
        except StopIteration as made:
            self.elements[key] = made.value
            return []
        self.begun[key] = steps, reads
        return reads

    def made(self, steps: Steps) -> Scalar:
        """What ``steps`` make of the elements that they ask for."""
        try:
            reads = next(steps)
            while True:
                reads = steps.send([self.element(*read) for read in reads])
        except StopIteration as made:
            return made.value

    def _written(self, key: Read) -> Scalar:
        (value, index), found = key, self._rule(*key)
        if found is None:
            return self.load(self.generics.tensors.get(value, value), index)
        op, rule, _ = found
        if isinstance(rule, Reduction):
            return self.generics.total(op, rule, index, self)
        if isinstance(rule, Accumulation):
            return self.generics.accumulated(op, index, [self.elements[read] for read in self.reads[key]], self)
        assert not isinstance(rule, Placed)
        made = rule.emit(op, [self.elements[read] for read in self.reads[key]], self.block)
        if isinstance(made.value, OpResult) and made.value.name_hint is None:
            made.value.name_hint = value.name_hint
        return made.rounded(dtype_of(value)) if value in self.generics.tensors else made

    def load(self, source: SSAValue, index: Index) -> Scalar:
        if 0 in self.shape:  # there is no element
            return constant(self.block, 0, computation_dtype(dtype_of(source)))
        if not self.places.is_affine(index, shape_of(source)):
            return self.places.element(source, index, dtype_of(source))
        if (source, index) not in self.inputs:
            assert isinstance(source.type, TensorType)
            argument = self.block.insert_arg(source.type.element_type, len(self.block.args))
            self.inputs[source, index] = loaded(self.block, argument, dtype_of(source))
        return self.inputs[source, index]

    def place(self, dims: Sequence[int]) -> Scalar:
        """The number of an element among those along ``dims``, row by row."""
        total = constant(self.block, 0, "int64")
        for dim in dims:
            index = linalg.IndexOp(dim)
            number = arith.IndexCastOp(index.result, i64)
            self.block.add_ops([index, number])
            total = total * self.shape[dim] + Scalar(self.block, number.result, "int64")
        return total

    def _within(self, source: SSAValue, index: Index) -> Index:
        """``index`` where a loop that stands alone goes through a whole dimension: the first part of one is ``d mod size``."""
        pairs = zip(index, shape_of(source), strict=True)
        return tuple(
            expression % size if expression in self.loops and self.shape[self.loops.index(expression)] < size else expression
            for expression, size in pairs
        )

    def generic(self, element: SSAValue, output: SSAValue, kept: Iterable[int]) -> SSAValue:
        """Close the body with ``element``. The last argument of the block is that of ``output``, which has loops ``kept``."""
        kept = list(kept)
        inputs = [source for source, _ in self.inputs]
        maps = [AffineMap(len(self.shape), 0, self._within(source, index)) for source, index in self.inputs]
        seen = {expression for map in maps for expression in map.results}
        if not seen.issuperset(self.loops[dim] for dim in range(len(self.shape)) if dim not in kept):
            inputs.append(self._extent())  # a loop that no operand shows the size of
            maps.append(AffineMap(len(self.shape), 0, self.loops))
        maps.append(AffineMap(len(self.shape), 0, tuple(self.loops[dim] for dim in kept)))
        kinds = [IteratorTypeAttr.parallel() if dim in kept else IteratorTypeAttr.reduction() for dim in range(len(self.shape))]
        self.block.add_op(linalg.YieldOp(element))
        attributes = [AffineMapAttr(map) for map in maps]
        return self.generics.add(linalg.GenericOp(inputs, [output], Region(self.block), attributes, kinds, [output.type]))

    def _extent(self) -> SSAValue:
        """A tensor of the sizes of the loops, which is not read."""
        type = tensor_type("bool", self.shape)
        self.block.insert_arg(type.element_type, len(self.block.args) - 1)
        return self.generics.add(tensor.EmptyOp([], type))


def rule_of(op: TorchOp) -> Rule:
    if op.operator not in RULES:
        raise Uncovered(op.operator)
    return accumulation_of(op) or RULES[op.operator]


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


def has_rule(op: Operation) -> bool:
    return isinstance(op, TorchOp) and op.operator in RULES


def check_types(op: TorchOp) -> None:
    """Refuse what is no op on dense tensors of one device, of known sizes and of dtypes that kernels take."""
    if not is_pure(op) or op.is_packed:
        raise Uncovered(f"{op.operator} with effects")
    devices = set[str]()
    for value in (*op.operands, *op.results):
        if not isinstance(type := value.type, TensorType):
            continue
        steps = strides(type)
        if layout(type) != "strided" or not all(isinstance(size, int) for size in (*sizes(type), *(steps or ()))):
            raise Uncovered("sizes that are not known")
        if dtype_name(type.element_type) not in DTYPES:
            raise Uncovered(f"elements of {type.element_type}")
        devices.add(device(type))
    if len(devices) > 1:
        raise Uncovered("tensors of several devices")
