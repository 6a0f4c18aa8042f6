"""Places that are no affine maps of loops: those that indices in memory say, and those that may lie outside of a tensor.

In an index expression, symbol ``k`` is a number that the body computes. Views are expressions of expressions, so what is
gathered may be a view. An element at such a place is read by ``tensor.extract``; where the place may lie outside, within
``scf.if``, and it is 0 there: what asks for it chooses another value.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from xdsl.dialects import affine, arith, cf, scf, tensor
from xdsl.dialects.builtin import AffineMapAttr, IndexType, TensorType, i64
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineDimExpr,
    AffineExpr,
    AffineMap,
    AffineSymExpr,
)

from fxc.passes.lowering._linalg.scalars import Scalar, computation_dtype, constant, loaded, machine_type, where

Bounds = tuple[int, int]
"""The smallest and the largest value."""

OUTSIDE = "index out of range: an index of {} lies outside of a dimension of size {}"


class Places:
    """The places that the body ``block`` of a generic over ``shape`` computes."""

    def __init__(self, block: Block, shape: Sequence[int]) -> None:
        self.block, self.shape = block, tuple(shape)
        self.symbols = list[SSAValue]()
        self.sizes = list[int]()
        """Of each symbol, how many values it may have, from 0 on."""
        self._values = list[Scalar]()
        self._loops = dict[int, SSAValue]()
        self._indices = dict[AffineExpr, SSAValue]()
        self._numbers = dict[AffineExpr, SSAValue]()
        self._inside = dict[tuple[AffineExpr, int], Scalar]()
        self._known = dict[Hashable, AffineExpr]()

    def symbol(self, number: Scalar, size: int) -> AffineExpr:
        """``number``, an int64 from 0 to below ``size``, as an expression."""
        key = (number.value, size)
        if key not in self._known:
            self._values.append(number)
            self.symbols.append(self._add(arith.IndexCastOp(number.value, IndexType())))
            self.sizes.append(size)
            self._known[key] = AffineExpr.symbol(len(self.symbols) - 1)
        return self._known[key]

    def checked(self, number: Scalar, size: int, operator: str, real: Scalar | None, *, wraps: bool) -> AffineExpr:
        """``number`` as an expression; the kernel fails where it does not say a place in a dimension of ``size``.

        ``real``: where it is a number at all, if not everywhere. ``wraps``: from -1 down it counts from the end. ``operator``
        is what the error names.
        """
        key = (number.value, size, f"{operator} {wraps}", *([] if real is None else [real.value]))
        if key not in self._known:
            place = number.to("int64")
            if real is not None:
                place = where(real, place, 0)
            if wraps:
                place = where(place < 0, place + size, place)
            inside = self._is_below(place, size)
            self.block.add_op(cf.AssertOp(inside.value, OUTSIDE.format(operator, size)))
            self._known[key] = self.symbol(where(inside, place, 0), size)
        return self._known[key]

    def number(self, expression: AffineExpr) -> Scalar:
        """The value of ``expression`` as an int64."""
        if isinstance(expression, AffineSymExpr):
            return self._values[expression.position]
        if expression not in self._numbers:
            cast = arith.IndexCastOp.create(operands=[self._index(expression)], result_types=[i64])
            self._numbers[expression] = self._add(cast)
        return Scalar(self.block, self._numbers[expression], "int64")

    def inside(self, expression: AffineExpr, size: int) -> Scalar | None:
        """Whether 0 <= ``expression`` < ``size``; None where it always is."""
        if self._fits(expression, size):
            return None
        low, high = self.bounds(expression)
        key = (expression, size)
        if key not in self._inside:
            place = self.number(expression)
            self._inside[key] = place < size if low >= 0 else place >= 0 if high < size else self._is_below(place, size)
        return self._inside[key]

    def _is_below(self, place: Scalar, size: int) -> Scalar:
        """Whether 0 <= ``place`` < ``size``: without a sign, what is negative is a large number."""
        below = self._add(arith.CmpiOp(place.value, place.constant(size).value, "ult"))
        return Scalar(self.block, below, "bool")

    def within(self, index: Sequence[AffineExpr], shape: Sequence[int]) -> Scalar | None:
        """Whether ``index`` is within ``shape``; None where it always is.

        What is divided must not be negative: where it is, an index that others made of it may seem to be within.
        """
        pairs = zip(index, shape, strict=True)
        found = [self.inside(place, size) for place, size in pairs]
        found += [self.number(part) >= 0 for place in index for part in self._negative(place)]
        return all_of([condition for condition in found if condition is not None])

    def is_affine(self, index: Sequence[AffineExpr], shape: Sequence[int]) -> bool:
        """Whether ``index`` is one of loops only, and within ``shape`` for all of them."""
        pairs = zip(index, shape, strict=True)
        return all(not _has_symbols(at) and not self._negative(at) and self._fits(at, size) for at, size in pairs)

    def _negative(self, expression: AffineExpr) -> list[AffineExpr]:
        """What is divided in ``expression`` and may be negative."""
        divisions = AffineBinaryOpKind.FloorDiv, AffineBinaryOpKind.Mod
        parts = [part for part in expression.post_order() if isinstance(part, AffineBinaryOpExpr) and part.kind in divisions]
        return list(dict.fromkeys(part.lhs for part in parts if self.bounds(part.lhs)[0] < 0))

    def _fits(self, place: AffineExpr, size: int) -> bool:
        low, high = self.bounds(place)
        return low >= 0 and high < size

    def element(self, source: SSAValue, index: Sequence[AffineExpr], dtype: str) -> Scalar:
        """The element of ``source``, of ``dtype`` in memory, at ``index``; 0 where that lies outside."""
        assert isinstance(source.type, TensorType)
        inside = self.within(index, source.type.get_shape())
        indices = [self._index(place) for place in index]
        kind = computation_dtype(dtype)
        if inside is None:
            return _extracted(self.block, source, indices, dtype)
        blocks = Block(), Block()
        found = _extracted(blocks[0], source, indices, dtype)
        for block, value in zip(blocks, (found.value, constant(blocks[1], 0, kind).value), strict=True):
            block.add_op(scf.YieldOp(value))
        chosen = scf.IfOp(inside.value, [machine_type(kind)], Region(blocks[0]), Region(blocks[1]))
        return Scalar(self.block, self._add(chosen), kind)

    def bounds(self, expression: AffineExpr) -> Bounds:
        """Of ``expression``, for all values of loops and symbols, each on its own."""
        match expression:
            case AffineConstantExpr():
                return expression.value, expression.value
            case AffineDimExpr():
                return 0, max(self.shape[expression.position] - 1, 0)
            case AffineSymExpr():
                return 0, max(self.sizes[expression.position] - 1, 0)
            case AffineBinaryOpExpr():
                left, right = self.bounds(expression.lhs), self.bounds(expression.rhs)
                match expression.kind:
                    case AffineBinaryOpKind.Add:
                        return left[0] + right[0], left[1] + right[1]
                    case AffineBinaryOpKind.Mul:
                        products = [a * b for a in left for b in right]
                        return min(products), max(products)
                    case AffineBinaryOpKind.FloorDiv:
                        return left[0] // right[0], left[1] // right[0]
                    case AffineBinaryOpKind.Mod:
                        whole = left[0] // right[0] == left[1] // right[0]
                        return (left[0] % right[0], left[1] % right[0]) if whole else (0, right[0] - 1)
        raise ValueError(f"no index expression of views: {expression}")

    def _index(self, expression: AffineExpr) -> SSAValue:
        """The value of ``expression``."""
        if expression not in self._indices:
            parts = list(expression.post_order())
            dims = sorted({part.position for part in parts if isinstance(part, AffineDimExpr)})
            symbols = sorted({part.position for part in parts if isinstance(part, AffineSymExpr)})
            operands = [*(self._loop(dim) for dim in dims), *(self.symbols[symbol] for symbol in symbols)]
            own = expression.replace_dims_and_symbols(
                [AffineExpr.dimension(dims.index(dim) if dim in dims else 0) for dim in range(len(self.shape))],
                [AffineExpr.symbol(symbols.index(at) if at in symbols else 0) for at in range(len(self.symbols))],
            )
            map = AffineMapAttr(AffineMap(len(dims), len(symbols), (own,)))
            apply = affine.ApplyOp.create(operands=operands, result_types=[IndexType()], properties={"map": map})
            self._indices[expression] = self._add(apply)
        return self._indices[expression]

    def _loop(self, dim: int) -> SSAValue:
        if dim not in self._loops:
            self._loops[dim] = self._add(linalg.IndexOp(dim))
        return self._loops[dim]

    def _add(self, op: Operation) -> SSAValue:
        self.block.add_op(op)
        return op.results[0]


def all_of(conditions: Sequence[Scalar]) -> Scalar | None:
    """Whether all of ``conditions`` hold; None where there are none."""
    result: Scalar | None = None
    for condition in conditions:
        result = condition if result is None else result & condition
    return result


def _extracted(block: Block, source: SSAValue, indices: Sequence[SSAValue], dtype: str) -> Scalar:
    op = tensor.ExtractOp(source, list(indices), source.type.element_type)  # type: ignore[attr-defined]
    block.add_op(op)
    return loaded(block, op.result, dtype)


def _has_symbols(expression: AffineExpr) -> bool:
    return any(isinstance(part, AffineSymExpr) for part in expression.post_order())
