"""Numbers of steps that are not known before a kernel runs, and how many programs they make."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import IntegerAttr, TensorType, UnrealizedConversionCastOp
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr

from fxc.dialects.attributes.size_polynomials import Polynomial, Steps, names_in, names_of, sizes_of, steps_of_size, value_at
from fxc.dialects.attributes.types import IntType

TYPICAL = 1021
"""What a size that is not known counts as where costs are compared."""


@dataclass(frozen=True)
class Quotient:
    """How many shares of ``length`` steps ``size`` has, the last of which may be shorter."""

    size: Polynomial
    length: int

    def expression(self, places: Mapping[str, int]) -> AffineExpr:
        """The number, of names as dimensions of a map."""
        total = self.size.expression(lambda name: AffineExpr.dimension(places[name]))
        return total if self.length == 1 else total.ceil_div(self.length)


Count: TypeAlias = int | Quotient
"""How many programs there are."""


def ceildiv(steps: Steps, length: int) -> Count:
    """How many shares of ``length`` steps there are."""
    return Quotient(steps, length) if isinstance(steps, Polynomial) else -(-steps // length)


def fixed(steps: Steps) -> int:
    """``steps``, which are known here."""
    assert isinstance(steps, int)
    return steps


def typical(steps: Steps) -> int:
    """``steps``, or what they may be."""
    return value_at(steps, dict.fromkeys(names_of(steps), TYPICAL))


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
        for place, size in zip(attribute.data.results, sizes_of(value.type), strict=True):
            if isinstance(place, AffineDimExpr):
                found[place.position] = size
    return dict(sorted(found.items()))


def size_said_by(value: SSAValue) -> Steps | None:
    """The size that ``value``, an ``index`` around the loops of a group, is; None where it is another value."""
    match value.owner:
        case tensor.DimOp(source=source, index=index):
            assert isinstance(source.type, TensorType) and isinstance(index.owner, arith.ConstantOp)
            assert isinstance(index.owner.value, IntegerAttr)
            return sizes_of(source.type)[index.owner.value.value.data]
        case UnrealizedConversionCastOp(inputs=[number]) if isinstance(number.type, IntType):
            return steps_of_size(number.type.expression.data)
    return None


def symbolic_sizes(tensors: Sequence[SSAValue], numbers: Iterable[Steps] = ()) -> list[str]:
    """The names in the types of ``tensors`` that a kernel reads and writes, and in ``numbers``, in order."""
    types = [value.type for value in tensors if isinstance(value.type, TensorType)]
    return sorted({*(name for type in types for name in names_in(type)), *(n for each in numbers for n in names_of(each))})
