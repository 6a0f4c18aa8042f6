"""Addresses of elements as sums of loops times strides, and joining of loops that traverse memory evenly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineExpr

from fxc.dialects.attributes.size_polynomials import Steps, strides_of
from fxc.dialects.attributes.types import is_tensor
from fxc.passes.analysis.index.forms import Form
from fxc.passes.analysis.index.maps import form_of
from fxc.passes.analysis.index.ranges import Ranges
from fxc.passes.kernels.tiling.dynamic import fixed


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
