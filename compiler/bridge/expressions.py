"""Expressions over the symbols of a module: text, and SymPy's."""

from __future__ import annotations

import ast
import sys
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import sympy
import torch.utils._sympy.functions as torch_sympy

from fxc.errors import FxcError


def sympy_symbol(name: str) -> sympy.Symbol:
    return sympy.Symbol(name, integer=True, positive=not name.startswith("u") or None)


def _floor_div(a: Any, b: Any) -> Any:
    """``a // b``; no division where the product ``b`` divides each term of ``a``, which PyTorch does not see of powers."""
    if not b.is_Add and b != 0 and all(symbol.is_positive for symbol in b.free_symbols):
        quotient = sympy.expand(a / b)
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
    """The sympy expression of ``text``, read as arithmetic over symbols: nothing is evaluated. FxcError where it is not."""
    try:
        return _expression_of(ast.parse(text, mode="eval").body)
    except (SyntaxError, ValueError, KeyError, TypeError, RecursionError, ZeroDivisionError) as error:
        raise FxcError(f"not an expression in the module's symbols: {text!r}") from error


def number_of(size: int | str, numbers: Mapping[sympy.Symbol, Any]) -> int:
    """What ``size`` is where symbols are these ``numbers``; beyond any size where one of its symbols is none of them."""
    if isinstance(size, int):
        return size
    value = parse_expression(size).subs(list(numbers.items())) if size else sympy.oo
    return int(value) if value.is_Integer else sys.maxsize


@lru_cache(1 << 12)
def canonical(text: str) -> str:
    """``text`` as types write expressions: what is read from it is written so again. SymPy distributes numbers over sums that
    it reads, but not always over those that it computes."""
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
"""After how many readings an expression is written as it was read."""


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
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in _CALLS:
            return getattr(torch_sympy, name)(*map(_expression_of, args))
    raise ValueError(ast.dump(node))
