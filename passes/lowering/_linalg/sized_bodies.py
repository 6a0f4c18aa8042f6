"""Sizes that are not known, put into bodies: places and numbers that depend on them are computed of the sizes around.

A map of loops cannot say what depends on a size, so such elements are read by ``tensor.extract``, at places that the body
computes. Every place is proved to lie within its tensor, or is one that the body checks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from xdsl.dialects import affine, arith, cf, scf, tensor
from xdsl.dialects.builtin import (
    AffineMapAttr,
    AnyFloat,
    IndexType,
    IntegerAttr,
    IntegerType,
    StringAttr,
    TensorType,
    UnrealizedConversionCastOp,
    i64,
)
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import Block, Operation, SSAValue
from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineDimExpr,
    AffineExpr,
    AffineMap,
    AffineSymExpr,
)
from xdsl.rewriter import InsertPoint, Rewriter

from fxc.dialects.semi_affine import replaced
from fxc.dialects.steps import Polynomial, Steps, divided, is_natural, names_in, shifted, sizes_of
from fxc.dialects.types import IntType, sizes, tensor_type
from fxc.passes.lowering._linalg.scalars import Uncovered
from fxc.passes.lowering._tile.numbers import value_of_size

PLACE = 1000
"""In maps that are not finished, symbols from here on are the names of sizes, in order."""

UNPROVED = "places that may lie outside for some sizes"

Bounds = tuple["Steps | None", "Steps | None"]
"""The smallest and the largest value; None where that is not known."""


@dataclass(frozen=True)
class Symbols:
    """What is known of the names of sizes: the ``least`` that one may be, and which value around says it (``find``)."""

    least: Mapping[str, int]
    find: Callable[[str], SSAValue | None]


@dataclass(frozen=True)
class Names:
    """The names of sizes, in the order of their symbols, and how ``texts`` of types write sizes."""

    names: Sequence[str]
    texts: Mapping[Steps, str]


def finish(block: Block, edits: Mapping[Operation, Mapping[str, Any]], symbols: Symbols, names: Names) -> None:
    """Put sizes into ``block``, where ``edits`` says that attributes depend on them. Uncovered where that is not possible."""
    _Finish(block, edits, symbols, names).run()


class _Finish:
    def __init__(self, block: Block, edits: Mapping[Operation, Mapping[str, Any]], symbols: Symbols, names: Names) -> None:
        self.block, self.edits, self.symbols = block, edits, symbols
        self.names, self.texts = names.names, names.texts
        self._sizes = dict[str, SSAValue]()
        """Names of sizes -> their values, as an ``index``."""
        self.some = set[str]()
        """The names of sizes that are 1 or more wherever the loops at hand have a step."""
        made = {result for op in block.walk() for result in op.results}
        made |= {argument for op in block.walk() for region in op.regions for each in region.blocks for argument in each.args}
        self.outside = list(dict.fromkeys(v for op in block.walk() for v in op.operands if v not in made))
        self._start = block.first_op

    def run(self) -> None:
        for op in list(self.block.ops):
            if isinstance(op, linalg.GenericOp):
                self._generic(op)
            elif op in self.edits:
                raise Uncovered("a size that is not known")
            elif isinstance(op, tensor.EmptyOp):
                self._empty(op)
        for op in self.block.ops:
            for result in op.results:
                if isinstance(result.type, TensorType):
                    self._check_names(result.type)
        for value in self.outside:
            if isinstance(value.type, TensorType):
                self._check_names(value.type)

    def _check_names(self, type: TensorType) -> None:
        """Make sure that some value says each size."""
        for name in names_in(type):
            self.size(name)

    # values of sizes

    def size(self, name: str) -> SSAValue:
        """The size ``name`` as an ``index``, at the begin of the block."""
        if name not in self._sizes:
            around = value_of_size(self.outside, name) or self.symbols.find(name)
            if around is None:
                raise Uncovered(f"a size {name} that is not known")
            self._sizes[name] = self._of(around, name)
        return self._sizes[name]

    def _steps(self, number: Steps) -> SSAValue:
        """``number`` as an ``index``, at the begin of the block."""
        if isinstance(number, int):
            return self._first(arith.ConstantOp(IntegerAttr(number, IndexType())))
        terms = list[SSAValue]()
        for names, factor in number.terms:
            parts = [self.size(name) for name in names]
            parts += [self._steps(factor)] if factor != 1 or not names else []
            terms.append(reduce(lambda a, b: self._first(arith.MuliOp(a, b)), parts))
        return reduce(lambda a, b: self._first(arith.AddiOp(a, b)), terms)

    def _of(self, value: SSAValue, name: str) -> SSAValue:
        """The size ``name``, which ``value`` is or has."""
        if isinstance(value.type, IntType):
            return self._first(UnrealizedConversionCastOp.create(operands=[value], result_types=[IndexType()]))
        assert isinstance(value.type, TensorType)
        dim = arith.ConstantOp(IntegerAttr(sizes(value.type).index(name), IndexType()))
        self._first(dim)
        return self._first(tensor.DimOp(value, dim.result))

    def _first(self, op: Operation) -> SSAValue:
        assert self._start is not None
        self.block.insert_op_before(op, self._start)
        return op.results[0]

    def _empty(self, op: tensor.EmptyOp) -> None:
        assert isinstance(op.tensor.type, TensorType)
        op.operands = [self._steps(size) for size in sizes_of(op.tensor.type) if isinstance(size, Polynomial)]

    # loops

    def _generic(self, op: linalg.GenericOp) -> None:
        loops = self._loops(op)
        self.some = {name for size in loops.values() if isinstance(size, Polynomial) for name in _factors(size)}
        self._body(op, loops)
        maps: list[AffineMap] = self.edits.get(op, {}).get("indexing_maps") or [each.data for each in op.indexing_maps]
        if set(self.edits.get(op, {})) - {"indexing_maps"} or any(map(_has_names, maps[-1].results)):
            raise Uncovered("a size that is not known")
        maps = [
            AffineMap(map.num_dims, map.num_symbols, tuple(self._without_idle_rests(each, loops) for each in map.results))
            for map in maps
        ]
        keep = [place for place, map in enumerate(maps) if not any(_has_names(each) for each in map.results)]
        for place in range(len(op.inputs)):
            if place in keep:
                source = op.inputs[place].type
                assert isinstance(source, TensorType)
                self._check(maps[place].results, sizes_of(source), loops)
        inputs, left = [op.inputs[place] for place in keep[:-1]], [maps[place] for place in keep]
        for place in reversed([place for place in range(len(op.inputs)) if place not in keep]):
            self._extract(op, place, maps[place], loops)
        shown = {each for map in left for each in map.results}
        if len(inputs) < len(op.inputs) and not shown.issuperset(map(AffineDimExpr, loops)):
            inputs.append(self._extent(op, loops))
            left.insert(-1, AffineMap(len(loops), 0, tuple(map(AffineDimExpr, sorted(loops)))))
            op.body.block.insert_arg(inputs[-1].type.element_type, len(op.body.block.args) - 1)  # type: ignore[attr-defined]
        if left != [each.data for each in op.indexing_maps]:
            name = op.results[0]._name
            attributes = [AffineMapAttr(each) for each in left]
            new = linalg.GenericOp(
                inputs, list(op.outputs), op.detach_region(op.body), attributes, list(op.iterator_types), [op.results[0].type]
            )
            Rewriter.replace_op(op, new)
            new.results[0]._name = name

    def _without_idle_rests(self, place: AffineExpr, loops: Mapping[int, Steps]) -> AffineExpr:
        """``place`` without a rest that is the number itself."""
        if isinstance(place, AffineBinaryOpExpr) and place.kind is AffineBinaryOpKind.Mod:
            (low, high), (size, _) = self._bounds(place.lhs, loops), self._bounds(place.rhs, loops)
            if low is not None and high is not None and size is not None and self._is_natural(low):
                return place.lhs if self._is_natural(size - 1 - high) else place
        return place

    def _loops(self, op: linalg.GenericOp) -> dict[int, Steps]:
        """The steps of each loop: those of the dimension in which it stands alone."""
        found = dict[int, Steps]()
        for value, attribute in zip(op.operands, op.indexing_maps, strict=True):
            assert isinstance(value.type, TensorType)
            for place, size in zip(attribute.data.results, sizes_of(value.type), strict=True):
                if isinstance(place, AffineDimExpr) and found.setdefault(place.position, size) != size:
                    raise Uncovered("loops over sizes that may differ")
        if len(found) < len(op.iterator_types):
            raise Uncovered("a size that is not known")
        return found

    def _extent(self, op: linalg.GenericOp, loops: Mapping[int, Steps]) -> SSAValue:
        """A tensor of the sizes of the loops, which is not read."""
        steps = [loops[loop] for loop in sorted(loops)]
        dims = [size if isinstance(size, int) else self.texts.get(size, str(size)) for size in steps]
        empty = tensor.EmptyOp([], tensor_type("bool", tuple(dims)))
        Rewriter.insert_op(empty, InsertPoint.before(op))
        self._empty(empty)
        return empty.tensor

    def _extract(self, op: linalg.GenericOp, place: int, map: AffineMap, loops: Mapping[int, Steps]) -> None:
        """Read the input ``place`` at places that the body computes. Its argument goes."""
        source, body, ops = op.inputs[place], op.body.block, list[Operation]()
        assert isinstance(source.type, TensorType)
        self._check(map.results, sizes_of(source.type), loops)
        indices = list[SSAValue]()
        for expression in map.results:
            dims = sorted({part.position for part in expression.post_order() if isinstance(part, AffineDimExpr)})
            own = [linalg.IndexOp(dim) for dim in dims]
            renamed = replaced(expression, lambda leaf, dims=dims: _renamed(leaf, dims))
            apply = self._apply([index.result for index in own], [], renamed)
            ops += [*own, apply]
            indices.append(apply.results[0])
        argument = body.args[place]
        ops.append(tensor.ExtractOp(source, indices, source.type.element_type))
        if body.first_op is not None:
            body.insert_ops_before(ops, body.first_op)
        ops[-1].results[0].name_hint = argument.name_hint
        argument.replace_all_uses_with(ops[-1].results[0])
        body.erase_arg(argument)

    def _apply(self, dims: Sequence[SSAValue], numbers: Sequence[SSAValue], expression: AffineExpr) -> affine.ApplyOp:
        """``expression`` over ``dims``, ``numbers`` and names."""
        names = [self.names[at] for at in sorted({part - PLACE for part in _symbols(expression) if part >= PLACE})]

        def leaf(part: AffineExpr) -> AffineExpr:
            if isinstance(part, AffineSymExpr) and part.position >= PLACE:
                return AffineSymExpr(len(numbers) + names.index(self.names[part.position - PLACE]))
            return part

        map = AffineMap(len(dims), len(numbers) + len(names), (replaced(expression, leaf),))
        operands = [*dims, *numbers, *(self.size(name) for name in names)]
        return affine.ApplyOp.create(operands=operands, result_types=[IndexType()], properties={"map": AffineMapAttr(map)})

    # bodies

    def _body(self, op: linalg.GenericOp, loops: Mapping[int, Steps]) -> None:
        places = dict[SSAValue, AffineExpr]()
        """What is applied, over the loops; symbols below ``PLACE`` are numbers that the body computes."""
        for inner in list(op.body.walk()):
            changes = dict(self.edits.get(inner, {}))
            if isinstance(inner, affine.ApplyOp):
                map: AffineMap = changes.pop("map", inner.map.data)
                own, numbers = inner.mapOperands[: map.num_dims], inner.mapOperands[map.num_dims :]
                at = [AffineDimExpr(value.owner.dim.value.data) for value in own]  # type: ignore[union-attr]
                new = self._apply(own, numbers, map.results[0])
                Rewriter.replace_op(inner, new)
                places[new.result] = replaced(map.results[0], lambda leaf, at=at: _over(leaf, at))
            elif isinstance(inner, arith.ConstantOp) and "value" in changes:
                self._number(inner, changes.pop("value"))
            elif isinstance(inner, cf.AssertOp) and "msg" in changes:
                inner.properties["msg"] = StringAttr(changes.pop("msg"))
            elif isinstance(inner, tensor.ExtractOp):
                self._check_extract(inner, places, loops)
            if changes:
                raise Uncovered("a size that is not known")

    def _number(self, op: arith.ConstantOp, number: Steps) -> None:
        """Compute ``number`` in the place of ``op``. What is counted in floats is not negative: a divisor of a mean."""
        assert isinstance(number, Polynomial)
        ops, type = list[Operation](), op.result.type

        def add(new: Operation) -> SSAValue:
            ops.append(new)
            return new.results[0]

        total: SSAValue | None = None
        for names, factor in number.terms:
            term: SSAValue | None = None
            for name in names:
                part = add(arith.IndexCastOp(self.size(name), i64))
                term = part if term is None else add(arith.MuliOp(term, part))
            if term is None or factor != 1:
                by = add(arith.ConstantOp(IntegerAttr(factor, i64)))
                term = by if term is None else add(arith.MuliOp(term, by))
            total = term if total is None else add(arith.AddiOp(total, term))
        assert total is not None
        if isinstance(type, AnyFloat):
            if not is_natural(number):
                total = add(arith.MaxSIOp(total, add(arith.ConstantOp(IntegerAttr(0, i64)))))
            total = add(arith.SIToFPOp(total, type))
        elif isinstance(type, IntegerType) and type.width.data < 64:
            total = add(arith.TruncIOp(total, type))
        elif type != i64:
            raise Uncovered("a size that is not known")
        Rewriter.replace_op(op, ops, [total])

    # proofs

    def _check(self, index: Sequence[AffineExpr], dims: Sequence[Steps], loops: Mapping[int, Steps]) -> None:
        """Refuse an index of which it is not sure that it lies within ``dims``."""
        if not all(low and high for low, high in self._proofs(index, dims, loops)):
            raise Uncovered(UNPROVED)

    def _proofs(
        self, index: Sequence[AffineExpr], dims: Sequence[Steps], loops: Mapping[int, Steps]
    ) -> Iterator[tuple[bool, bool]]:
        """Whether each of ``index`` surely is not below 0, and not beyond its dimension."""
        for expression, size in zip(index, dims, strict=True):
            low, high = self._bounds(expression, loops)
            yield low is not None and self._is_natural(low), high is not None and self._is_natural(size - 1 - high)

    def _check_extract(self, op: tensor.ExtractOp, places: Mapping[SSAValue, AffineExpr], loops: Mapping[int, Steps]) -> None:
        """Refuse an element at a place that may lie outside, and of which the body does not check it."""
        assert isinstance(op.tensor.type, TensorType)
        guard = op.parent_op()
        tests = _tests(guard.cond) if isinstance(guard, scf.IfOp) else {}
        for value, size in zip(op.indices, sizes_of(op.tensor.type), strict=True):
            expression = places[value]
            if any(at < PLACE for at in _symbols(expression)):
                continue  # a number that the body computes and checks
            [(low, high)] = self._proofs([expression], [size], loops)
            tested = tests.get(value, set())
            if not (low or "low" in tested) or not (high or "high" in tested):
                raise Uncovered(UNPROVED)

    def _is_natural(self, number: Steps) -> bool:
        least = {**dict.fromkeys(self.some, 1), **{name: max(n, name in self.some) for name, n in self.symbols.least.items()}}
        return is_natural(shifted(number, least))

    def _bounds(self, expression: AffineExpr, loops: Mapping[int, Steps]) -> Bounds:
        match expression:
            case AffineConstantExpr():
                return expression.value, expression.value
            case AffineDimExpr():
                return 0, loops[expression.position] - 1
            case AffineSymExpr():
                name = Polynomial.name(self.names[expression.position - PLACE])
                return name, name
            case AffineBinaryOpExpr():
                left, right = self._bounds(expression.lhs, loops), self._bounds(expression.rhs, loops)
                if expression.kind is AffineBinaryOpKind.Add:
                    return _plus(left[0], right[0]), _plus(left[1], right[1])
                if expression.kind is AffineBinaryOpKind.Mul:
                    stands = left[0] is not None and left[0] == left[1]
                    return self._product(right, left) if stands else self._product(left, right)
                return self._quotient(expression.kind, left, right)
        return None, None

    def _product(self, number: Bounds, factor: Bounds) -> Bounds:
        by = factor[0]
        if by is None or by != factor[1]:
            return None, None
        ends = tuple(None if end is None else end * by for end in number)
        if self._is_natural(by):
            return ends[0], ends[1]
        return (ends[1], ends[0]) if self._is_natural(-by) else (None, None)

    def _quotient(self, kind: AffineBinaryOpKind, number: Bounds, divisor: Bounds) -> Bounds:
        (low, high), by = number, divisor[0]
        if by is None or by != divisor[1] or low is None or not self._is_natural(low):
            return None, None
        if kind is AffineBinaryOpKind.Mod:
            return 0, high if high is not None and self._is_natural(by - 1 - high) else by - 1
        if kind is not AffineBinaryOpKind.FloorDiv or high is None:
            return 0, None
        whole, rest = divided(high, by)
        if self._is_natural(rest) and self._is_natural(by - 1 - rest):
            return 0, whole
        return 0, whole - 1 if self._is_natural(-rest - 1) and self._is_natural(by + rest) else None


def _factors(size: Polynomial) -> Sequence[str]:
    """The names that are not 0 where ``size`` is not."""
    return size.terms[0][0] if len(size.terms) == 1 else ()


def _plus(a: Steps | None, b: Steps | None) -> Steps | None:
    return None if a is None or b is None else a + b


def _symbols(expression: AffineExpr) -> set[int]:
    return {part.position for part in expression.post_order() if isinstance(part, AffineSymExpr)}


def _has_names(expression: AffineExpr) -> bool:
    return any(at >= PLACE for at in _symbols(expression))


def _renamed(leaf: AffineExpr, dims: Sequence[int]) -> AffineExpr:
    return AffineDimExpr(dims.index(leaf.position)) if isinstance(leaf, AffineDimExpr) else leaf


def _over(leaf: AffineExpr, dims: Sequence[AffineExpr]) -> AffineExpr:
    return dims[leaf.position] if isinstance(leaf, AffineDimExpr) else leaf


def _tests(condition: SSAValue) -> dict[SSAValue, set[str]]:
    """Places -> which of their ends ``condition`` tests, where it is a conjunction."""
    found, pending = dict[SSAValue, set[str]](), [condition]
    while pending:
        op = pending.pop().owner
        if isinstance(op, arith.AndIOp):
            pending += op.operands
        elif isinstance(op, arith.CmpiOp) and isinstance(cast := op.lhs.owner, arith.IndexCastOp):
            ends = _ENDS.get(arith.CMPI_COMPARISON_OPERATIONS[op.predicate.value.data], set())
            found.setdefault(cast.input, set()).update(ends)
    return found


_ENDS = {"ult": {"low", "high"}, "slt": {"high"}, "sge": {"low"}}
