"""Expressions over the symbols of a module, as text and as SymPy expressions."""

from __future__ import annotations

import ast
import sys
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import sympy
import torch.utils._sympy.functions as torch_sympy

from fxc.errors import FxcError

_sympy: Any = sympy


def sympy_symbol(name: str) -> sympy.Symbol:
    """The symbol with this name: a size ``s0`` is positive, a number ``n0`` and a data-dependent ``u0`` may have any sign."""
    return sympy.Symbol(name, integer=True, positive=not name.startswith(("n", "u")) or None)


def symbol_name(symbol: Any) -> str:
    """The name in a module of ``symbol``, of PyTorch, where sizes and numbers that may be negative have similar names."""
    name = str(symbol)
    return f"n{name[1:]}" if name.startswith("s") and symbol.is_integer and symbol.is_positive is None else name


def _floor_div(a: Any, b: Any) -> Any:
    """Return ``a // b``, simplified if the product ``b`` divides each term of ``a``; PyTorch misses this for powers."""
    if not b.is_Add and b != 0 and all(symbol.is_positive for symbol in b.free_symbols):
        quotient = _sympy.expand(a / b)
        if quotient.is_polynomial() and all(term.as_coeff_Mul()[0].is_Integer for term in quotient.as_ordered_terms()):
            return quotient
    return torch_sympy.FloorDiv(a, b)


_BINARY: dict[type[ast.AST], Any] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.FloorDiv: _floor_div,
    ast.Mod: torch_sympy.Mod,
    ast.Pow: lambda a, b: a**b,
    ast.Div: lambda a, b: a / b,
}
_CALLS = frozenset(
    {
        "Mod", "PythonMod", "CleanDiv", "CeilDiv", "ModularIndexing", "Max", "Min", "Where", "Identity", "ToFloat",
        "TruncToInt", "FloorToInt", "CeilToInt", "RoundToInt", "RoundDecimal", "TruncToFloat", "IntTrueDiv", "FloatTrueDiv",
        "FloatPow", "PowByNatural", "LShift", "RShift",
    }
)  # fmt: skip


@lru_cache(1 << 12)
def parse_expression(text: str) -> sympy.Expr:
    """Parse ``text`` as arithmetic over symbols into a SymPy expression, without evaluation. FxcError if it is not."""
    try:
        return _expression_of(ast.parse(text, mode="eval").body)
    except (SyntaxError, ValueError, KeyError, TypeError, RecursionError, ZeroDivisionError) as error:
        raise FxcError(f"not an expression in the module's symbols: {text!r}") from error


def readable(text: str) -> str:
    """``text``; empty, as for a number of unknown value, where it is no expression: that of a bool which became a number."""
    try:
        parse_expression(text)
    except FxcError:
        return ""
    return text


def number_of(size: int | str, numbers: Mapping[sympy.Symbol, Any]) -> int:
    """Return ``size`` for these values of symbols; ``sys.maxsize`` if it has other symbols."""
    if isinstance(size, int):
        return size
    value = parse_expression(size).subs(list(numbers.items())) if size else sympy.oo
    return int(value) if value.is_Integer else sys.maxsize


@lru_cache(1 << 12)
def canonical(text: str) -> str:
    """Return the canonical form of ``text`` in types, which parsing and printing does not change.

    SymPy distributes numbers over sums that it parses, but not always over those that it computes.
    """
    for _ in range(_READINGS):
        try:
            again = text if text.isidentifier() else str(parse_expression(text))
        except FxcError:
            return text
        if again == text:
            break
        text = again
    return text


_READINGS = 4
"""The maximum number of parses until the text is stable."""


def _expression_of(node: ast.AST) -> sympy.Expr:
    match node:
        case ast.Constant(value=int() as value):
            return sympy.Integer(value)
        case ast.Constant(value=float() as value):
            return sympy.Float(value)
        case ast.Name(id=name):
            return sympy_symbol(name)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_expression_of(operand)
        case ast.BinOp(left=left, op=op, right=right):
            return _BINARY[type(op)](_expression_of(left), _expression_of(right))
        case ast.Call(func=ast.Name(id="FloorDiv"), args=[a, b], keywords=[]):
            return _floor_div(_expression_of(a), _expression_of(b))
        case ast.Call(func=ast.Name(id="Abs"), args=[value], keywords=[]):
            return _sympy.Abs(_expression_of(value))
        case ast.Call(func=ast.Name(id="Eq"), args=[a, b], keywords=[]):  # a bool in a tensor is Eq(u0, 1)
            return _sympy.Eq(_expression_of(a), _expression_of(b))
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in _CALLS:
            return getattr(torch_sympy, name)(*map(_expression_of, args))
        case _:
            raise ValueError(ast.dump(node))
