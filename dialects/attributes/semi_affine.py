"""Affine maps whose factors and divisors may be symbols, for dynamic sizes: build, replace and parse."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from xdsl.ir.affine import AffineBinaryOpExpr, AffineBinaryOpKind, AffineConstantExpr, AffineExpr
from xdsl.parser.affine_parser import AffineParser
from xdsl.utils.mlir_lexer import MLIRToken

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
