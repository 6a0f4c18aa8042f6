"""Numbers of steps that are not known before a kernel runs: a symbolic size times a number, and quotients of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod
from typing import TypeAlias

from xdsl.dialects.builtin import TensorType
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr
from xdsl.utils.exceptions import VerifyException

from fxc.dialects.types import sizes


@dataclass(frozen=True)
class Size:
    """``factor`` times the symbolic size ``name``."""

    name: str
    factor: int = 1

    def __mul__(self, number: Steps) -> Size:
        """VerifyException for a product of two sizes: no kernel has both in one loop."""
        if not isinstance(number, int):
            raise VerifyException(f"no loop of {self.name} times {number.name} steps is known")
        return Size(self.name, self.factor * number)

    __rmul__ = __mul__

    def ceildiv(self, length: int) -> Quotient:
        return Quotient(self, length)


@dataclass(frozen=True)
class Quotient:
    """How many shares of ``length`` steps ``size`` has, the last of which may be shorter."""

    size: Size
    length: int

    def expression(self, place: int) -> AffineExpr:
        """The number, of the size as dimension ``place`` of a map."""
        return (AffineExpr.dimension(place) * self.size.factor).ceil_div(self.length)


Steps: TypeAlias = int | Size
"""How many steps a loop has."""

Count: TypeAlias = int | Quotient
"""How many programs there are."""


def ceildiv(steps: Steps, length: int) -> Count:
    """How many shares of ``length`` steps there are."""
    return steps.ceildiv(length) if isinstance(steps, Size) else -(-steps // length)


def product(counts: Sequence[Count]) -> tuple[Count, int]:
    """``counts``, one of which may be a quotient: it, or 1, and the product of the others."""
    return next((count for count in counts if isinstance(count, Quotient)), 1), prod(
        count for count in counts if isinstance(count, int)
    )


def fixed(steps: Steps) -> int:
    """``steps``, which are known here."""
    assert isinstance(steps, int)
    return steps


def known(steps: Iterable[Steps]) -> list[int] | None:
    """``steps``; None where one of them is not known."""
    listed = list(steps)
    numbers = [each for each in listed if isinstance(each, int)]
    return numbers if len(numbers) == len(listed) else None


def loop_sizes(op: linalg.GenericOp) -> dict[int, Steps]:
    """The steps of each loop of ``op``."""
    found = dict[int, Steps]()
    for value, attribute in zip(op.operands, op.indexing_maps, strict=True):
        assert isinstance(value.type, TensorType)
        for place, size in zip(attribute.data.results, sizes(value.type), strict=True):
            if isinstance(place, AffineDimExpr):
                found[place.position] = Size(size) if isinstance(size, str) else size
    return dict(sorted(found.items()))


def symbolic_sizes(tensors: Sequence[SSAValue]) -> list[str]:
    """The symbolic sizes of ``tensors`` that a kernel reads and writes, in the order of its scalars."""
    types = [value.type for value in tensors if isinstance(value.type, TensorType)]
    return sorted({size for type in types for size in sizes(type) if isinstance(size, str)})
