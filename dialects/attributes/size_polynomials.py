"""Dynamic sizes as polynomials: sums of products of symbol names and integers; and affine maps with such factors and divisors.

``"s0*s1 + 1"`` is a polynomial in ``s0`` and ``s1``. A text with other operations, such as ``"(s0 - 1)//2"``, is one name.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial, reduce
from math import prod
from types import MappingProxyType
from typing import Any, TypeAlias

from xdsl.dialects.builtin import TensorType
from xdsl.ir.affine import AffineBinaryOpExpr, AffineBinaryOpKind, AffineConstantExpr, AffineExpr
from xdsl.parser.affine_parser import AffineParser
from xdsl.utils.mlir_lexer import MLIRToken

from fxc.dialects.attributes.types import Dim, sizes, strides

Monomial: TypeAlias = tuple[str, ...]
"""A product of names, sorted; a name may occur several times."""


@dataclass(frozen=True)
class Polynomial:
    """``terms``: pairs of names and a nonzero factor, sorted. At least one term has names; a plain number is an int."""

    terms: tuple[tuple[Monomial, int], ...]

    @staticmethod
    def name(name: str) -> Polynomial:
        return Polynomial((((name,), 1),))

    def __add__(self, other: Steps) -> Steps:
        found = dict(self.terms)
        for names, factor in _terms(other):
            found[names] = found.get(names, 0) + factor
        return _polynomial(found)

    __radd__ = __add__

    def __neg__(self) -> Polynomial:
        return Polynomial(tuple((names, -factor) for names, factor in self.terms))

    def __sub__(self, other: Steps) -> Steps:
        return self + -other

    def __rsub__(self, other: Steps) -> Steps:
        return -self + other

    def __mul__(self, other: Steps) -> Steps:
        found = dict[Monomial, int]()
        for names, factor in self.terms:
            for others, by in _terms(other):
                key = tuple(sorted((*names, *others)))
                found[key] = found.get(key, 0) + factor * by
        return _polynomial(found)

    __rmul__ = __mul__

    def names(self) -> list[str]:
        """The distinct names."""
        return sorted({name for names, _ in self.terms for name in names})

    def at(self, numbers: Mapping[str, int]) -> int:
        """The value for ``numbers``, a value for each name."""
        return sum(factor * prod(numbers[name] for name in names) for names, factor in self.terms)

    def text(self, name: Callable[[str], str] = str) -> str:
        """Python text; ``name`` renders each name."""
        parts = list[str]()
        for names, factor in self.terms:
            parts.append("*".join([*([] if names and factor == 1 else [str(factor)]), *map(name, names)]))
        return " + ".join(parts)

    def expression(self, expression: Callable[[str], AffineExpr]) -> AffineExpr:
        """An affine expression; ``expression`` maps each name to its expression."""
        total: AffineExpr = AffineExpr.constant(0)
        for names, factor in self.terms:
            term = reduce(partial(combined, AffineBinaryOpKind.Mul), map(expression, names), AffineExpr.constant(1))
            total = total + combined(AffineBinaryOpKind.Mul, term, AffineExpr.constant(factor))
        return total

    def __str__(self) -> str:
        return self.text()


Steps: TypeAlias = int | Polynomial
"""A number that may be dynamic: a loop bound or a step."""


def _terms(number: Steps) -> Sequence[tuple[Monomial, int]]:
    return number.terms if isinstance(number, Polynomial) else [((), number)]


def _polynomial(terms: Mapping[Monomial, int]) -> Steps:
    found = sorted(((names, factor) for names, factor in terms.items() if factor), key=lambda term: (-len(term[0]), term))
    if all(not names for names, _ in found):
        return found[0][1] if found else 0
    return Polynomial(tuple(found))


def names_of(number: Steps) -> list[str]:
    """The distinct names in ``number``."""
    return number.names() if isinstance(number, Polynomial) else []


def value_at(number: Steps, numbers: Mapping[str, int]) -> int:
    """``number`` evaluated with a value for each name."""
    return number.at(numbers) if isinstance(number, Polynomial) else number


def is_natural(number: Steps) -> bool:
    """Whether ``number`` is certainly not negative for any sizes."""
    return all(factor >= 0 for _, factor in _terms(number))


def shifted(number: Steps, by: Mapping[str, int]) -> Steps:
    """``number`` with each name ``n`` replaced by ``n`` plus its value in ``by``, or 0."""
    total: Steps = 0
    for names, factor in _terms(number):
        total = total + factor * prod([Polynomial.name(name) + by.get(name, 0) for name in names])
    return total


def divided(number: Steps, divisor: Steps) -> tuple[Steps, Steps]:
    """Quotient and remainder: ``number`` is the quotient times ``divisor`` plus the remainder, 0 if it divides symbolically.

    Numbers divide as in Python. A divisor of several terms divides only its integer multiples.
    """
    if isinstance(divisor, int) and isinstance(number, int):
        return divmod(number, divisor)
    terms = _terms(divisor)
    if len(terms) > 1:
        factor = dict(_terms(number)).get(terms[0][0], 0) // terms[0][1]
        return (factor, 0) if number == factor * divisor else (0, number)
    [(names, by)] = terms
    whole: Steps = 0
    for others, factor in _terms(number):
        left = list(others)
        for name in names:
            if name in left:
                left.remove(name)
            else:
                break
        else:
            if factor % by == 0:
                whole += _polynomial({tuple(left): factor // by})
    return whole, number - whole * divisor


@lru_cache(4096)
def steps_of_size(size: Dim) -> Steps:
    """The number of a size or stride in a type."""
    if isinstance(size, int):
        return size
    try:
        return evaluated(size, Polynomial.name)
    except NO_VALUE:
        return Polynomial.name(size)


_BINARY: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: lambda a, b: a // b,
    ast.Mod: operator.mod,
}
_CALLS: Mapping[str, Callable[..., Any]] = MappingProxyType({"Max": max, "Min": min, "max": max, "min": min})
NO_VALUE = (SyntaxError, LookupError, ArithmeticError, ValueError, TypeError)
"""The errors of ``evaluated``: the text is more than arithmetic, or divides or compares polynomials."""


def evaluated(text: str, of_name: Callable[[str], Steps]) -> Steps:
    """The size ``text`` for these values of its names."""
    return _value(ast.parse(text, mode="eval").body, of_name)


def _value(node: ast.expr, of_name: Callable[[str], Steps]) -> Steps:
    match node:
        case ast.Constant(value=int(number)):
            return number
        case ast.Name(id=name):
            return of_name(name)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, of_name)
        case ast.BinOp(left=left, op=ast.Pow(), right=ast.Constant(value=int(times))) if 0 <= times < 8:
            return prod([_value(left, of_name)] * times)
        case ast.BinOp(left=left, op=op, right=right):
            return _BINARY[type(op)](_value(left, of_name), _value(right, of_name))
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]):
            return _CALLS[name](*(_value(arg, of_name) for arg in args))
        case _:
            raise ValueError("more than integer arithmetic")


def sizes_of(type: TensorType) -> list[Steps]:
    """The sizes of a tensor type."""
    return [steps_of_size(size) for size in sizes(type)]


def strides_of(type: TensorType) -> list[Steps]:
    """The strides of a tensor type."""
    given = strides(type)
    return contiguous_steps(sizes_of(type)) if given is None else [steps_of_size(step) for step in given]


def contiguous_steps(sizes: Sequence[Steps]) -> list[Steps]:
    """Row-major strides; a static size of 0 counts as 1."""
    found, step = list[Steps](), 1
    for size in reversed(sizes):
        found.insert(0, step)
        step = step * (max(size, 1) if isinstance(size, int) else size)
    return found


def names_in(type: TensorType) -> list[str]:
    """The distinct names in the sizes and strides of a tensor type."""
    return sorted({name for number in (*sizes_of(type), *strides_of(type)) for name in names_of(number)})


_KINDS: Mapping[str, AffineBinaryOpKind] = MappingProxyType(
    {
        "*": AffineBinaryOpKind.Mul,
        "floordiv": AffineBinaryOpKind.FloorDiv,
        "ceildiv": AffineBinaryOpKind.CeilDiv,
        "mod": AffineBinaryOpKind.Mod,
    }
)


def combined(kind: AffineBinaryOpKind, left: AffineExpr, right: AffineExpr) -> AffineExpr:
    """The expression of two operands, simplified where it is affine."""
    constants = isinstance(right, AffineConstantExpr) or (isinstance(left, AffineConstantExpr) and kind in _EITHER)
    return AffineExpr.binary(kind, left, right) if constants or kind is _ADD else AffineBinaryOpExpr(kind, left, right)


_ADD = AffineBinaryOpKind.Add
_EITHER = (AffineBinaryOpKind.Add, AffineBinaryOpKind.Mul)


def replaced(expression: AffineExpr, leaf: Callable[[AffineExpr], AffineExpr]) -> AffineExpr:
    """``expression`` with ``leaf`` applied to each constant, dimension and symbol."""
    if isinstance(expression, AffineBinaryOpExpr):
        return combined(expression.kind, replaced(expression.lhs, leaf), replaced(expression.rhs, leaf))
    return leaf(expression)


class SemiAffineParser(AffineParser):
    """Parses products with symbols and quotients by them."""

    def _create_binop_expr(self, lhs: AffineExpr, rhs: AffineExpr, binop: MLIRToken) -> AffineExpr:
        kind = _KINDS.get(binop.text)
        return super()._create_binop_expr(lhs, rhs, binop) if kind is None else combined(kind, lhs, rhs)
