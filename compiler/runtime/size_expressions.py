"""Evaluate expressions and conditions over sizes as arithmetic; no code is executed."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

Dim = int | str
"""A number, or an expression in symbols: equal symbols must get equal values within their bounds."""

_LARGEST_POWER = 64
"""The largest exponent. Larger exponents, from a file, could take unlimited time."""


def _power(base: Any, exponent: Any) -> Any:
    if abs(exponent) > _LARGEST_POWER:
        raise ValueError("a power that no size has")
    return base**exponent


_OPERATORS: Mapping[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: lambda a, b: a / b,
    ast.FloorDiv: lambda a, b: a // b,
    ast.Pow: _power,
    ast.Mod: operator.mod,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_CALLS: Mapping[str, Callable[..., Any]] = {
    "max": max, "min": min, "abs": abs,
    "torch.sym_float": float, "torch._sym_sqrt": math.sqrt, "math.sqrt": math.sqrt,
    "math.floor": math.floor, "math.ceil": math.ceil, "math.trunc": math.trunc,
}  # fmt: skip
"""Function name, as in PyTorch's conditions -> implementation."""


def value_of(expression: Dim, known: Mapping[str, int]) -> int | None:
    """Return the value of an expression or condition; None if it has an unknown symbol or is more than arithmetic."""
    if isinstance(expression, int):
        return expression
    try:
        return _value(ast.parse(expression, mode="eval").body, known)
    except (SyntaxError, ValueError, LookupError, ArithmeticError, TypeError):
        return None


def _value(node: ast.expr, known: Mapping[str, int]) -> Any:
    def of(part: ast.expr) -> Any:
        return _value(part, known)

    match node:
        case ast.Constant(value=int(number) | float(number)):
            return number
        case ast.Name(id=name):
            return known[name]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -of(operand)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return not of(operand)
        case ast.BinOp(left=left, op=op, right=right) | ast.Compare(left=left, ops=[op], comparators=[right]):
            return _OPERATORS[type(op)](of(left), of(right))
        case ast.BoolOp(op=op, values=values):
            parts: list[Any] = [of(part) for part in values]
            return all(parts) if isinstance(op, ast.And) else any(parts)
        case ast.Call(func=function, args=args, keywords=[]):
            return _CALLS[ast.unparse(function)](*map(of, args))
        case _:
            raise ValueError("more than arithmetic")
