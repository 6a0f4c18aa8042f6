"""Linear forms over loops: the number of an element in memory, as a sum of loops times steps.

A reshape gives quotients and remainders of loops. A remainder is written as ``x - c * (x // c)``: where dimensions that were
cut are contiguous in memory, the quotients cancel, and what is left is linear again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineDimExpr,
    AffineExpr,
    AffineSymExpr,
)
from xdsl.utils.exceptions import VerifyException

from fxc.dialects.types import contiguous_strides, strides
from fxc.passes.lowering._tile.dynamic import Steps

Atom: TypeAlias = "int | Quotient | Symbol"
"""A loop by its number, a quotient of a form, or a number that is computed."""

LARGEST = 1 << 62
"""What a number that is computed may be: it is the place of an element."""


@dataclass(frozen=True)
class Form:
    """``constant`` and the sum of ``terms``: atoms, each once, times factors that are not 0."""

    constant: int
    terms: tuple[tuple[Atom, int], ...] = ()

    @staticmethod
    def of(constant: int, terms: Mapping[Atom, int]) -> Form:
        return Form(constant, tuple((atom, factor) for atom, factor in terms.items() if factor))

    def __add__(self, other: Form) -> Form:
        terms = dict(self.terms)
        for atom, factor in other.terms:
            terms[atom] = terms.get(atom, 0) + factor
        return Form.of(self.constant + other.constant, terms)

    def times(self, factor: int) -> Form:
        return Form.of(self.constant * factor, {atom: each * factor for atom, each in self.terms})

    def factor(self, loop: int) -> int:
        """How far one step of ``loop`` goes, outside of quotients."""
        return dict(self.terms).get(loop, 0)

    def loops(self) -> set[int]:
        """The loops on which this depends."""
        inner = {loop for atom, _ in self.terms if isinstance(atom, Quotient) for loop in atom.form.loops()}
        return inner | {atom for atom, _ in self.terms if isinstance(atom, int)}

    def divided_loops(self) -> set[int]:
        """The loops in quotients."""
        return {loop for atom, _ in self.terms if isinstance(atom, Quotient) for loop in atom.form.loops()}

    def renamed(self, names: Mapping[int, int]) -> Form:
        """The same over other loops; a loop without a name has one step and is dropped."""
        total = Form(self.constant)
        for atom, factor in self.terms:
            if isinstance(atom, Quotient):
                total += Form(0, ((Quotient(atom.form.renamed(names), atom.divisor), factor),))
            elif isinstance(atom, Symbol):
                total += Form(0, ((atom, factor),))
            elif atom in names:
                total += Form(0, ((names[atom], factor),))
        return total

    def range(self, sizes: Mapping[int, Steps]) -> tuple[int, int]:
        """The smallest and the largest value, for loops of these ``sizes``."""
        low = high = self.constant
        for atom, factor in self.terms:
            if isinstance(atom, int):
                steps = sizes[atom]
                ends = (0, max(steps - 1, 0) if isinstance(steps, int) else LARGEST)
            elif isinstance(atom, Symbol):
                ends = (0, LARGEST)
            else:
                ends = tuple(end // atom.divisor for end in atom.form.range(sizes))
            low += min(factor * end for end in ends)
            high += max(factor * end for end in ends)
        return low, high

    def quotient(self, divisor: int, sizes: Mapping[int, Steps]) -> Form:
        """``self // divisor``, without what divides evenly."""
        even = Form.of(self.constant // divisor, {atom: f // divisor for atom, f in self.terms if f % divisor == 0})
        rest = Form.of(self.constant % divisor, {atom: f for atom, f in self.terms if f % divisor})
        low, high = rest.range(sizes)
        if low >= 0 and high < divisor:
            return even
        return even + Form(0, ((Quotient(rest, divisor), 1),))


@dataclass(frozen=True)
class Quotient:
    """``form // divisor``."""

    form: Form
    divisor: int


@dataclass(frozen=True)
class Symbol:
    """What ``value`` is, a number that is computed and not negative."""

    value: SSAValue


def form_of(expression: AffineExpr, sizes: Mapping[int, Steps], symbols: Sequence[SSAValue] = ()) -> Form:
    """The form of an index expression over loops of these ``sizes``, and ``symbols``."""
    match expression:
        case AffineSymExpr():
            return Form(0, ((Symbol(symbols[expression.position]), 1),))
        case AffineConstantExpr():
            return Form(expression.value)
        case AffineDimExpr():
            return Form(0, ((expression.position, 1),))
        case AffineBinaryOpExpr():
            left, right = (form_of(side, sizes, symbols) for side in (expression.lhs, expression.rhs))
            if expression.kind is AffineBinaryOpKind.Add:
                return left + right
            if not right.terms:
                number = right.constant
                if expression.kind is AffineBinaryOpKind.Mul:
                    return left.times(number)
                if expression.kind is AffineBinaryOpKind.FloorDiv and number > 0:
                    return left.quotient(number, sizes)
                if expression.kind is AffineBinaryOpKind.Mod and number > 0:
                    return left + left.quotient(number, sizes).times(-number)
    raise VerifyException(f"no address can be made of {expression}")


def address(
    type: TensorType, index: Sequence[AffineExpr], sizes: Mapping[int, Steps], symbols: Sequence[SSAValue] = ()
) -> Form:
    """The number, in memory, of the element of a tensor of ``type`` at ``index``."""
    total = Form(0)
    for expression, step in zip(index, steps_of(type), strict=True):
        total += form_of(expression, sizes, symbols).times(step)
    return total


def steps_of(type: TensorType) -> list[int]:
    """The strides of a tensor, of which the first size need not be known where it is contiguous."""
    given = strides(type)
    return list(contiguous_strides(type.get_shape())) if given is None else [int(step) for step in given]


def extent(type: Attribute) -> int:
    """How many elements a tensor of ``type``, of known sizes, goes over in memory."""
    assert isinstance(type, TensorType)
    pairs = zip(type.get_shape(), steps_of(type), strict=True)
    return 0 if 0 in type.get_shape() else 1 + sum((size - 1) * step for size, step in pairs)


def collapsed(
    order: Sequence[int], sizes: Mapping[int, Steps], forms: Sequence[Form]
) -> tuple[list[int], dict[int, Steps], list[Form]]:
    """Loops in nesting ``order``, neighbours joined where every form goes through them in even steps.

    Returns the loops that are left (an inner one stands for those joined to it), their sizes, and the forms over them.
    """
    left, new, forms = list[int](), dict(sizes), list(forms)
    divided = {loop for form in forms for loop in form.divided_loops()}
    for loop in _real(order, sizes):
        if left and not {left[-1], loop} & divided and all(f.factor(left[-1]) == f.factor(loop) * new[loop] for f in forms):
            outer = left.pop()
            new[loop] = new[loop] * new.pop(outer)
            forms = [form + Form(0, ((outer, -form.factor(outer)),)) if form.factor(outer) else form for form in forms]
        left.append(loop)
    return left, {loop: new[loop] for loop in left}, [_without_units(form, sizes) for form in forms]


def _real(order: Sequence[int], sizes: Mapping[int, Steps]) -> Iterator[int]:
    return (loop for loop in order if sizes[loop] != 1)


def _without_units(form: Form, sizes: Mapping[int, Steps]) -> Form:
    """``form`` without loops of one step."""
    names = {loop: loop for loop in form.loops() if sizes[loop] != 1}
    return form.renamed(names)
