"""Grids: the number of programs of a launch, as numbers, or as Python text if it depends on scalar arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from xdsl.dialects.builtin import AffineMapAttr
from xdsl.ir.affine import AffineBinaryOpExpr, AffineBinaryOpKind, AffineConstantExpr, AffineDimExpr, AffineExpr

from fxc.dialects.tile import KernelOp
from fxc.errors import KernelError

Grid: TypeAlias = "tuple[int | str, ...]"
"""Numbers, or texts: expressions of ``n0``, ``n1``, ..., the scalars of a launch in order."""

_OPERATORS = {
    AffineBinaryOpKind.Add: "({} + {})",
    AffineBinaryOpKind.Mul: "{} * {}",
    AffineBinaryOpKind.FloorDiv: "({} // {})",
    AffineBinaryOpKind.CeilDiv: "-(-{} // {})",
    AffineBinaryOpKind.Mod: "({} % {})",
}


def grid_of(kernel: KernelOp, names: Sequence[str] | None = None) -> Grid:
    """The grid of ``kernel``. ``names``: the names of its scalars in the text, by default ``n0``, ..."""
    if not isinstance(kernel.grid, AffineMapAttr):
        return kernel.programs
    scalars = kernel.scalars()
    known = [f"n{i}" for i in range(len(scalars))] if names is None else list(names)
    numbers = [known[scalars.index(argument)] for argument in kernel.indices()]
    axes = kernel.grid.data.results
    return tuple(axis.value if isinstance(axis, AffineConstantExpr) else _text(axis, numbers) for axis in axes)


def _text(expression: AffineExpr, numbers: Sequence[str]) -> str:
    match expression:
        case AffineConstantExpr():
            return str(expression.value)
        case AffineDimExpr():
            return numbers[expression.position]
        case AffineBinaryOpExpr():
            return _OPERATORS[expression.kind].format(_text(expression.lhs, numbers), _text(expression.rhs, numbers))
        case _:
            raise KernelError(f"no grid can be made of {expression}")


def programs_of(grid: Grid, numbers: Sequence[Any]) -> tuple[int, ...]:
    """The number of programs along each axis in a launch with the scalars ``numbers``."""
    names = {f"n{i}": number for i, number in enumerate(numbers)}
    return tuple(axis if isinstance(axis, int) else int(eval(axis, {"__builtins__": {}}, names)) for axis in grid)
