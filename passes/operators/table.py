"""The table of all operator records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from xdsl.ir import Operation

from fxc.dialects.base.effects import aliases
from fxc.dialects.context import FxcContext
from fxc.dialects.torch_ops.base import TorchOp
from fxc.passes.operators import (
    accumulating,
    activations,
    arithmetic,
    assembling,
    bessel,
    functions,
    incomplete_gamma,
    indexing,
    polynomials,
    pooling,
    products,
    reductions,
    special,
    views,
)
from fxc.passes.operators import random as randoms
from fxc.passes.operators.record import Operator, Role
from fxc.passes.rewriting.insertion import decompose

FAMILIES = (
    arithmetic,
    functions,
    activations,
    special,
    bessel,
    polynomials,
    incomplete_gamma,
    randoms,
    views,
    assembling,
    indexing,
    accumulating,
    reductions,
    products,
    pooling,
)

OPERATORS: Mapping[str, Operator] = MappingProxyType(
    {name: record for family in FAMILIES for name, record in family.RECORDS.items()}
)
"""Operator overload (``aten.add.Tensor``) -> its record."""

_NOTHING = Operator()


def operator_of(op: Operation) -> Operator:
    """The record of the operator that ``op`` calls; an empty record if there is none."""
    return OPERATORS.get(op.name.removeprefix("torch."), _NOTHING)


def role_of(op: Operation) -> Role | None:
    return operator_of(op).role


def is_contraction(op: Operation) -> bool:
    """Whether ``op`` is a contraction or a convolution."""
    return operator_of(op).role in (Role.CONTRACTION, Role.CONVOLUTION)


def replace_by_parts(ctx: FxcContext, op: TorchOp) -> Sequence[TorchOp]:
    """Replace ``op`` by its parts and return them; none if its decomposition does not apply."""
    parts = operator_of(op).parts
    return decompose(ctx, op) if parts is None or parts.split is None else parts.split(ctx, op)


def has_formula(op: Operation) -> bool:
    """Whether kernels can compute the operator that ``op`` calls."""
    return operator_of(op).formula is not None


def is_computed_by_kernels(op: Operation) -> bool:
    """Whether ``op`` computes elements, and kernels can."""
    return isinstance(op, TorchOp) and has_formula(op) and not any(aliases(op))
