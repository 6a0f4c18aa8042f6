"""A printed kernel: its source, and the data that a launch or a compiler needs. Plain data, for JSON and for workers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
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


@dataclass(frozen=True)
class KernelArgument:
    """An argument of a kernel.

    ``type`` is Triton's spelling (``*fp32``, ``i64``). Pointers have ``access`` ("read", "write", "readwrite") and
    ``elements``, the number of elements that may be accessed. The address in bytes, or the size, is divisible by ``divisible``.
    """

    name: str
    type: str
    access: str = ""
    elements: int | None = None
    divisible: int = 1

    @property
    def is_pointer(self) -> bool:
        return self.type.startswith("*")


@dataclass(frozen=True)
class KernelSource:
    """A Python file, ``source``, that defines the Triton function ``name``, to be launched on ``grid`` programs.

    A text in ``grid`` is a Python expression of ``n0``, ..., the scalars of a launch. ``lanes`` is the size of the largest
    block; ``warps`` is the number of warps (32 hardware lanes each) per program. If there is a ``counter``, the function has
    one more parameter of this name: the address of an int32 that is 0 before and after a launch, and that no concurrent launch
    uses.
    """

    name: str
    source: str
    arguments: tuple[KernelArgument, ...]
    grid: tuple[int | str, ...]
    lanes: int
    warps: int
    counter: str = ""

    @property
    def parameters(self) -> tuple[KernelArgument, ...]:
        """All parameters of the function: the arguments and the counter."""
        counters = (KernelArgument(self.counter, "*i32", "readwrite", 1),) if self.counter else ()
        return (*self.arguments, *counters)

    def unaligned(self) -> KernelSource:
        """The same kernel without assumptions about the divisibility of addresses and numbers."""
        return replace(self, arguments=tuple(replace(argument, divisible=1) for argument in self.arguments))

    def code(self) -> dict[str, Any]:
        """The parts that affect compilation, as JSON: everything except the comments, which are source locations."""
        lines = self.source.splitlines(keepends=True)
        return {**self.as_json(), "source": "".join(line for line in lines if not line.lstrip().startswith("#"))}

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> KernelSource:
        arguments = tuple(KernelArgument(**argument) for argument in data["arguments"])
        return replace(cls(**data), arguments=arguments, grid=tuple(data["grid"]))
