"""Loops in formulas, with a data-dependent number of steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.ir import Block

from fxc.dialects.tile import IterateOp, NextOp
from fxc.passes.operators.scalars import Scalar


def iterate(
    going: Scalar, carried: Sequence[Scalar], given: Sequence[Scalar], step: Callable[..., tuple[Scalar, Sequence[Scalar]]]
) -> list[Scalar]:
    """Repeat ``step`` for each element while it is ``going``, and return the final carried values.

    ``step`` takes the carried values and then the loop invariants ``given``. It returns whether the element continues, and the
    new carried values. It is also computed for elements that have stopped; their results are dropped.
    """
    body = Block(arg_types=[value.value.type for value in carried])
    inside = [Scalar(body, argument, value.dtype) for argument, value in zip(body.args, carried, strict=True)]
    more, new = step(*inside, *(Scalar(body, value.value, value.dtype) for value in given))
    body.add_op(NextOp.of(more.value, [value.value for value in new]))
    op = IterateOp.of(going.value, [value.value for value in carried], body)
    going.body.add_op(op)
    return [Scalar(going.body, result, value.dtype) for result, value in zip(op.results, carried, strict=True)]
