"""All records: what is known of operators."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from xdsl.ir import Operation

from fxc.passes.operators import (
    accumulating,
    activations,
    arithmetic,
    assembling,
    bessel,
    functions,
    incomplete_gamma,
    indexing,
    integers,
    polynomials,
    reductions,
    special,
    views,
)
from fxc.passes.operators import random as randoms
from fxc.passes.operators.record import Operator

FAMILIES = (
    arithmetic,
    functions,
    activations,
    special,
    bessel,
    polynomials,
    incomplete_gamma,
    integers,
    randoms,
    views,
    assembling,
    indexing,
    accumulating,
    reductions,
)

OPERATORS: Mapping[str, Operator] = MappingProxyType(
    {name: record for family in FAMILIES for name, record in family.RECORDS.items()}
)
"""Operator overload (``aten.add.Tensor``) -> its record."""

_NOTHING = Operator()


def operator_of(op: Operation) -> Operator:
    """The record of the operator that ``op`` calls; one without facts where there is none."""
    return OPERATORS.get(op.name.removeprefix("torch."), _NOTHING)


def has_formula(op: Operation) -> bool:
    """Whether kernels compute the operator that ``op`` calls."""
    return operator_of(op).formula is not None
