"""Symbolic numbers of steps, the numbers of programs that follow from them, and addresses as sums of loops times strides."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import IntegerAttr, TensorType, UnrealizedConversionCastOp
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr

from fxc.dialects.attributes.size_polynomials import (
    Polynomial,
    Steps,
    names_in,
    names_of,
    sizes_of,
    steps_of_size,
    strides_of,
    value_at,
)
from fxc.dialects.attributes.types import IntType, is_tensor, tensor_of
from fxc.passes.analysis.index.forms import Form
from fxc.passes.analysis.index.maps import form_of
from fxc.passes.analysis.index.ranges import Ranges

TYPICAL = 1021
"""The assumed value of an unknown size in cost comparisons."""


@dataclass(frozen=True)
class Quotient:
    """``size`` divided by ``length``, rounded up: the number of shares, the last of which may be shorter."""

    size: Polynomial
    length: int

    def expression(self, places: Mapping[str, int]) -> AffineExpr:
        """The quotient as an affine expression, whose dimensions are the names of sizes."""
        total = self.size.expression(lambda name: AffineExpr.dimension(places[name]))
        return total if self.length == 1 else total.ceil_div(self.length)


Count: TypeAlias = int | Quotient
"""The number of programs."""


def ceildiv(steps: Steps, length: int) -> Count:
    """The number of shares of ``length`` steps, the last of which may be shorter."""
    return Quotient(steps, length) if isinstance(steps, Polynomial) else -(-steps // length)


def fixed(steps: Steps) -> int:
    """``steps``, which must be static here."""
    assert isinstance(steps, int)
    return steps


def typical(steps: Steps) -> int:
    """``steps``, or a typical value where they are symbolic."""
    return value_at(steps, dict.fromkeys(names_of(steps), TYPICAL))


def known(steps: Iterable[Steps]) -> list[int] | None:
    """``steps`` as integers; None where one is symbolic."""
    listed = list(steps)
    numbers = [each for each in listed if isinstance(each, int)]
    return numbers if len(numbers) == len(listed) else None


def loop_sizes(op: linalg.GenericOp) -> dict[int, Steps]:
    """The number of steps of each loop of ``op``."""
    found = dict[int, Steps]()
    for value, attribute in zip(op.operands, op.indexing_maps, strict=True):
        for place, size in zip(attribute.data.results, sizes_of(tensor_of(value)), strict=True):
            if isinstance(place, AffineDimExpr):
                found[place.position] = size
    return dict(sorted(found.items()))


def size_of_value(value: SSAValue) -> Steps | None:
    """The size that is the value of ``value``, an ``index`` outside of the loops of a group; None for any other value."""
    match value.owner:
        case tensor.DimOp(source=source, index=index):
            assert is_tensor(source.type) and isinstance(index.owner, arith.ConstantOp)
            assert isinstance(index.owner.value, IntegerAttr)
            return sizes_of(source.type)[index.owner.value.value.data]
        case UnrealizedConversionCastOp(inputs=[number]) if isinstance(number.type, IntType):
            return steps_of_size(number.type.expression.data)
        case _:
            return None


def symbolic_sizes(tensors: Sequence[SSAValue], numbers: Iterable[Steps] = ()) -> list[str]:
    """The names in the types of ``tensors`` that a kernel reads and writes, and in ``numbers``, in order."""
    types = [value.type for value in tensors if is_tensor(value.type)]
    return sorted({*(name for type in types for name in names_in(type)), *(n for each in numbers for n in names_of(each))})


def address(
    type: TensorType, index: Sequence[AffineExpr], sizes: Mapping[int, Steps], symbols: Sequence[SSAValue | Steps] = ()
) -> Form:
    """The offset in memory of the element of a tensor of ``type`` at ``index``."""
    total = Form(0)
    for expression, step in zip(index, strides_of(type), strict=True):
        total += form_of(expression, symbols) * step
    return Ranges(sizes).simplified(total)


def extent(type: Attribute) -> int:
    """The number of elements in memory that a tensor of ``type``, of static sizes, spans."""
    assert is_tensor(type)
    pairs = zip(type.get_shape(), map(fixed, strides_of(type)), strict=True)
    return 0 if 0 in type.get_shape() else 1 + sum((size - 1) * step for size, step in pairs)


def collapsed(
    order: Sequence[int], sizes: Mapping[int, Steps], forms: Sequence[Form]
) -> tuple[list[int], dict[int, Steps], list[Form]]:
    """Join neighbours of the loops in nesting ``order`` where every form traverses them in even steps.

    Returns the remaining loops (an inner one represents those joined to it), their sizes, and the forms over them.
    """
    left, new = list[int](), dict(sizes)
    joined: list[Form] = list(forms)
    divided = {loop for form in forms for loop in form.divided_loops()}
    for loop in (loop for loop in order if sizes[loop] != 1):
        if left and not {left[-1], loop} & divided and all(f.factor(left[-1]) == f.factor(loop) * new[loop] for f in joined):
            outer = left.pop()
            new[loop] = new[loop] * new.pop(outer)
            joined = [form + Form(0, ((outer, -form.factor(outer)),)) if form.factor(outer) else form for form in joined]
        left.append(loop)
    return left, {loop: new[loop] for loop in left}, [_without_units(form, sizes) for form in joined]


def _without_units(form: Form, sizes: Mapping[int, Steps]) -> Form:
    """``form`` without loops of one step."""
    names = {loop: loop for loop in form.loops() if sizes[loop] != 1}
    return form.renamed(names)
