"""Conversion between index expressions and MLIR's affine expressions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from xdsl.ir import SSAValue
from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineDimExpr,
    AffineExpr,
    AffineSymExpr,
)
from xdsl.utils.exceptions import VerifyException

from fxc.dialects.attributes.size_polynomials import Steps, combined
from fxc.passes.analysis.index.forms import Atom, Form, Quotient, Symbol
from fxc.passes.analysis.index.ranges import remainders_of

Spelling: TypeAlias = Callable[["str | Symbol"], AffineExpr]
"""The affine symbol for the name of a size, or for a computed number."""


def affine_of(form: Form, spelled: Spelling) -> AffineExpr:
    """``form`` over dimensions with the numbers of its loops. Remainders become ``mod``."""
    remainders, rest = remainders_of(form)
    total: AffineExpr = AffineExpr.constant(0)
    for atom, factor in rest.terms:
        total = total + _scaled(_atom(atom, spelled), factor, spelled)
    for remainder in remainders:
        quotient = remainder.quotient
        operands = affine_of(quotient.form, spelled), _number(quotient.divisor, spelled)
        total = total + _scaled(combined(AffineBinaryOpKind.Mod, *operands), remainder.factor, spelled)
    return total + _number(rest.constant, spelled)


def _atom(atom: Atom, spelled: Spelling) -> AffineExpr:
    match atom:
        case Quotient(form, divisor):
            return combined(AffineBinaryOpKind.FloorDiv, affine_of(form, spelled), _number(divisor, spelled))
        case Symbol():
            return spelled(atom)
        case _:
            return AffineExpr.dimension(atom)


def _scaled(expression: AffineExpr, factor: Steps, spelled: Spelling) -> AffineExpr:
    return combined(AffineBinaryOpKind.Mul, expression, _number(factor, spelled))


def _number(number: Steps, spelled: Spelling) -> AffineExpr:
    return AffineExpr.constant(number) if isinstance(number, int) else number.expression(spelled)


def form_of(expression: AffineExpr, symbols: Sequence[SSAValue | Steps] = ()) -> Form:
    """The form of an affine expression over loops and ``symbols``, which are sizes or computed values.

    VerifyException for a product of loops, and for a divisor that is not a size or is not known to be positive.
    """
    match expression:
        case AffineSymExpr():
            symbol = symbols[expression.position]
            return Form.atom(Symbol(symbol)) if isinstance(symbol, SSAValue) else Form(symbol)
        case AffineConstantExpr():
            return Form(expression.value)
        case AffineDimExpr():
            return Form.atom(expression.position)
        case AffineBinaryOpExpr():
            left, right = (form_of(side, symbols) for side in (expression.lhs, expression.rhs))
            match expression.kind:
                case AffineBinaryOpKind.Add:
                    return left + right
                case AffineBinaryOpKind.Mul if not left.terms or not right.terms:
                    return left * right.constant if not right.terms else right * left.constant
                case AffineBinaryOpKind.FloorDiv if _divides(right):
                    return left // right.constant
                case AffineBinaryOpKind.CeilDiv if _divides(right):
                    return -(-left // right.constant)
                case AffineBinaryOpKind.Mod if _divides(right):
                    return left % right.constant
                case _:
                    pass
        case _:
            pass
    raise VerifyException(f"no address can be made of {expression}")


def _divides(form: Form) -> bool:
    return not form.terms and (not isinstance(form.constant, int) or form.constant > 0)
