"""Compute index expressions in the body of a generic: positions in tensors, sizes, and the elements read there.

An index expression (``Form``) is over loops, sizes and numbers that the body computes. Views compose expressions, so a gather
may read a view. An element at a position that no affine map can express is read by ``tensor.extract``. If the position may be
out of bounds, the read is inside an ``scf.if``, and the element is 0 out of bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from typing import TypeAlias

from xdsl.dialects import affine, arith, cf, scf, tensor
from xdsl.dialects.builtin import AffineMapAttr, IndexType, i64
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from fxc.dialects.attributes.size_polynomials import Polynomial, Steps, sizes_of
from fxc.dialects.attributes.types import tensor_of
from fxc.passes.analysis.index.forms import Form, Symbol
from fxc.passes.analysis.index.maps import affine_of
from fxc.passes.analysis.index.ranges import Ranges
from fxc.passes.operators.scalars import Scalar, Uncovered, computation_dtype, constant, loaded, machine_type, where

OUTSIDE = "index out of range: an index of {} is outside of a dimension of size {}"

SizeValue: TypeAlias = Callable[[str], SSAValue]
"""Size name -> the size as an ``index`` value outside of the body."""


class Places:
    """Computes positions in the body ``block`` of a generic over loops of ``shape``. ``least``: size name -> its minimum."""

    def __init__(self, block: Block, shape: Sequence[Steps], size_value: SizeValue, least: Mapping[str, int]) -> None:
        self.block, self.ranges, self._size_value = block, Ranges(dict(enumerate(shape)), least), size_value
        self._loops = dict[int, SSAValue]()
        self._indices = dict[Form, SSAValue]()
        self._numbers = dict[Form, SSAValue]()
        self._inside = dict[tuple[Form, Steps], Scalar]()
        self._known = dict[Hashable, Form]()
        self._values = dict[Form, Scalar]()

    def symbol(self, number: Scalar, size: Steps) -> Form:
        """``number``, an int64 with 0 <= ``number`` < ``size``, as an expression."""
        key = (number.value, size)
        if key not in self._known:
            symbol = Form.atom(Symbol(self._add(arith.IndexCastOp(number.value, IndexType())), size))
            self._known[key], self._values[symbol] = symbol, number
        return self._known[key]

    def checked(self, number: Scalar, size: Steps, operator: str, real: Scalar | None, *, wraps: bool) -> Form:
        """``number`` as an expression, with an assertion that it is a valid position in a dimension of ``size``.

        ``real``: the condition under which ``number`` is valid data; None for always. ``wraps``: negative numbers count from
        the end. ``operator``: the name in the error message.
        """
        key = (number.value, size, f"{operator} {wraps}", *([] if real is None else [real.value]))
        if key not in self._known:
            place = number.to("int64")
            if real is not None:
                place = where(real, place, 0)
            if wraps:
                place = where(place < 0, place + self.size(size), place)
            inside = self._is_below(place, size)
            is_right = inside
            if real is not None and not self.ranges.is_positive(size):  # position 0 may not exist
                is_right = inside | ~real
            self.block.add_op(cf.AssertOp(is_right.value, OUTSIDE.format(operator, size)))
            self._known[key] = self.symbol(where(inside, place, 0), size)
        return self._known[key]

    def number(self, form: Form) -> Scalar:
        """The value of ``form`` as an int64."""
        if form in self._values:
            return self._values[form]
        if not form.terms and isinstance(form.constant, int):
            return constant(self.block, form.constant, "int64")
        if form not in self._numbers:
            names = form.names()
            name = names[0] if len(names) == 1 and form == Form(Polynomial.name(names[0])) else None
            index = self._index(form) if name is None else self._size_value(name)
            self._numbers[form] = self._add(arith.IndexCastOp.create(operands=[index], result_types=[i64]))
        return Scalar(self.block, self._numbers[form], "int64")

    def size(self, size: Steps) -> int | Scalar:
        """``size`` for computation: a number, or an int64 if it is dynamic."""
        return size if isinstance(size, int) else self.number(Form(size))

    def constant(self, number: float | Polynomial, dtype: str) -> Scalar:
        """``number`` as a scalar of ``dtype``."""
        if isinstance(number, Polynomial):
            return self.number(Form(number)).to(dtype)
        return constant(self.block, number, dtype)

    def inside(self, form: Form, size: Steps) -> Scalar | None:
        """Whether 0 <= ``form`` < ``size``; None if that always holds."""
        low, high = self.ranges.bounds(form)
        is_below = high is not None and self.ranges.is_natural(size - 1 - high)
        if self.ranges.is_natural(low) and is_below:
            return None
        key = (form, size)
        if key not in self._inside:
            place = self.number(form)
            if self.ranges.is_natural(low):
                self._inside[key] = place < self.size(size)
            else:
                self._inside[key] = place >= 0 if is_below else self._is_below(place, size)
        return self._inside[key]

    def _is_below(self, place: Scalar, size: Steps) -> Scalar:
        """Whether 0 <= ``place`` < ``size``, by one unsigned comparison: a negative number is a large unsigned one."""
        below = self._add(arith.CmpiOp(place.value, place.constant(self.size(size)).value, "ult"))
        return Scalar(self.block, below, "bool")

    def within(self, index: Sequence[Form], shape: Sequence[Steps]) -> Scalar | None:
        """Whether ``index`` is within ``shape``; None if that always holds."""
        found = [self.inside(place, size) for place, size in zip(index, shape, strict=True)]
        return all_of([condition for condition in found if condition is not None])

    def is_within(self, index: Sequence[Form], shape: Sequence[Steps]) -> bool:
        """Whether ``index`` is known to be within ``shape``. Uncovered if it has another rank, as one without elements may."""
        if len(index) != len(shape):
            raise Uncovered("an index of another rank")
        return all(self.ranges.is_within(place, size) for place, size in zip(index, shape, strict=True))

    def element(self, source: SSAValue, index: Sequence[Form], dtype: str) -> Scalar:
        """The element of ``source``, of ``dtype`` in memory, at ``index``; 0 if that is out of bounds."""
        inside = self.within(index, sizes_of(tensor_of(source)))
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

    def _index(self, form: Form) -> SSAValue:
        """The value of ``form``."""
        if form not in self._indices:
            loops, symbols = sorted(form.loops()), list[str | Symbol]()
            expression = affine_of(form.renamed({loop: place for place, loop in enumerate(loops)}), partial(_spelled, symbols))
            numbers = [self._size_value(each) if isinstance(each, str) else each.value for each in symbols]
            own = AffineMapAttr(AffineMap(len(loops), len(symbols), (expression,)))
            operands = [*map(self._loop, loops), *numbers]
            apply = affine.ApplyOp.create(operands=operands, result_types=[IndexType()], properties={"map": own})
            self._indices[form] = self._add(apply)
        return self._indices[form]

    def _loop(self, dim: int) -> SSAValue:
        if dim not in self._loops:
            self._loops[dim] = self._add(linalg.IndexOp(dim))
        return self._loops[dim]

    def _add(self, op: Operation) -> SSAValue:
        self.block.add_op(op)
        return op.results[0]


def _spelled(symbols: list[str | Symbol], symbol: str | Symbol) -> AffineExpr:
    if symbol not in symbols:
        symbols.append(symbol)
    return AffineExpr.symbol(symbols.index(symbol))


def all_of(conditions: Sequence[Scalar]) -> Scalar | None:
    """Whether all of ``conditions`` hold; None if there are none."""
    result: Scalar | None = None
    for condition in conditions:
        result = condition if result is None else result & condition
    return result


def _extracted(block: Block, source: SSAValue, indices: Sequence[SSAValue], dtype: str) -> Scalar:
    op = tensor.ExtractOp(source, list(indices), source.type.element_type)  # type: ignore[attr-defined]
    block.add_op(op)
    return loaded(block, op.result, dtype)
