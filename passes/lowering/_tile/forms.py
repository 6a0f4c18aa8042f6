"""Linear forms over loops: the number of an element in memory, as a sum of loops times steps, which may not be known.

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

from fxc.dialects.steps import Steps, divided, is_natural, names_of, strides_of
from fxc.passes.lowering._tile.dynamic import fixed

Atom: TypeAlias = "int | Quotient | Symbol"
"""A loop by its number, a quotient of a form, or a number that is computed."""

LARGEST = 1 << 62
"""What a number that is computed may be: it is the place of an element."""


@dataclass(frozen=True)
class Form:
    """``constant`` and the sum of ``terms``: atoms, each once, times factors that are not 0."""

    constant: Steps
    terms: tuple[tuple[Atom, Steps], ...] = ()

    @staticmethod
    def of(constant: Steps, terms: Mapping[Atom, Steps]) -> Form:
        return Form(constant, tuple((atom, factor) for atom, factor in terms.items() if factor))

    def __add__(self, other: Form) -> Form:
        terms = dict(self.terms)
        for atom, factor in other.terms:
            terms[atom] = terms.get(atom, 0) + factor
        return Form.of(self.constant + other.constant, terms)

    def times(self, factor: Steps) -> Form:
        return Form.of(self.constant * factor, {atom: each * factor for atom, each in self.terms})

    def names(self) -> list[str]:
        """The names of sizes in this."""
        inner = [name for atom, _ in self.terms if isinstance(atom, Quotient) for name in atom.form.names()]
        divisors = [name for atom, _ in self.terms if isinstance(atom, Quotient) for name in names_of(atom.divisor)]
        return [
            *inner,
            *divisors,
            *(name for number in (self.constant, *dict(self.terms).values()) for name in names_of(number)),
        ]

    def factor(self, loop: int) -> Steps:
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

    def range(self, sizes: Mapping[int, Steps]) -> tuple[Steps, Steps]:
        """The smallest and the largest value, for loops of these ``sizes``."""
        low = high = self.constant
        for atom, factor in self.terms:
            ends = self._ends(atom, sizes)
            if is_natural(factor):
                low, high = low + factor * ends[0], high + factor * ends[1]
            elif is_natural(-factor):
                low, high = low + factor * ends[1], high + factor * ends[0]
            else:
                low, high = low - LARGEST, high + LARGEST
        return low, high

    def _ends(self, atom: Atom, sizes: Mapping[int, Steps]) -> tuple[Steps, Steps]:
        if isinstance(atom, int):
            steps = sizes[atom]
            return 0, max(steps - 1, 0) if isinstance(steps, int) else steps - 1
        if isinstance(atom, Symbol):
            return 0, LARGEST
        low, high = atom.form.range(sizes)
        if isinstance(low, int) and isinstance(high, int) and isinstance(atom.divisor, int):
            return low // atom.divisor, high // atom.divisor
        whole, rest = divided(high, atom.divisor)
        is_whole = is_natural(rest) and is_natural(atom.divisor - 1 - rest)
        return 0 if is_natural(low) else -LARGEST, whole if is_whole else LARGEST

    def quotient(self, divisor: Steps, sizes: Mapping[int, Steps]) -> Form:
        """``self // divisor``, without what divides evenly."""
        parts = {atom: divided(factor, divisor) for atom, factor in self.terms}
        whole, left = divided(self.constant, divisor)
        even = Form.of(whole, {atom: quotient for atom, (quotient, rest) in parts.items() if not rest})
        rest = Form.of(left, {atom: factor for atom, factor in self.terms if parts[atom][1]})
        low, high = rest.range(sizes)
        if is_natural(low) and is_natural(divisor - 1 - high):
            return even
        return even + Form(0, ((Quotient(rest, divisor), 1),))


@dataclass(frozen=True)
class Quotient:
    """``form // divisor``."""

    form: Form
    divisor: Steps


@dataclass(frozen=True)
class Symbol:
    """What ``value`` is, a number that is computed and not negative."""

    value: SSAValue


def form_of(expression: AffineExpr, sizes: Mapping[int, Steps], symbols: Sequence[SSAValue | Steps] = ()) -> Form:
    """The form of an index expression over loops of these ``sizes``, and ``symbols``: numbers, or values that are computed."""
    match expression:
        case AffineSymExpr():
            symbol = symbols[expression.position]
            return Form(0, ((Symbol(symbol), 1),)) if isinstance(symbol, SSAValue) else Form(symbol)
        case AffineConstantExpr():
            return Form(expression.value)
        case AffineDimExpr():
            return Form(0, ((expression.position, 1),))
        case AffineBinaryOpExpr():
            left, right = (form_of(side, sizes, symbols) for side in (expression.lhs, expression.rhs))
            if expression.kind is AffineBinaryOpKind.Add:
                return left + right
            if not left.terms and expression.kind is AffineBinaryOpKind.Mul:
                return right.times(left.constant)
            if not right.terms:
                number = right.constant
                if expression.kind is AffineBinaryOpKind.Mul:
                    return left.times(number)
                if expression.kind is AffineBinaryOpKind.FloorDiv and is_natural(number) and number:
                    return left.quotient(number, sizes)
                if expression.kind is AffineBinaryOpKind.Mod and is_natural(number) and number:
                    return left + left.quotient(number, sizes).times(-number)
    raise VerifyException(f"no address can be made of {expression}")


def address(
    type: TensorType, index: Sequence[AffineExpr], sizes: Mapping[int, Steps], symbols: Sequence[SSAValue | Steps] = ()
) -> Form:
    """The number, in memory, of the element of a tensor of ``type`` at ``index``."""
    total = Form(0)
    for expression, step in zip(index, strides_of(type), strict=True):
        total += form_of(expression, sizes, symbols).times(step)
    return total


def extent(type: Attribute) -> int:
    """How many elements a tensor of ``type``, of known sizes, goes over in memory."""
    assert isinstance(type, TensorType)
    pairs = zip(type.get_shape(), map(fixed, strides_of(type)), strict=True)
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
