"""All rules: the operators that kernels can compute."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

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
    updating,
    views,
)
from fxc.passes.operators import random as randoms
from fxc.passes.operators.aliases import ALIASES
from fxc.passes.operators.rules import Rule

_PRIMS = {
    "add": "add.Tensor", "sub": "sub.Tensor", "mul": "mul.Tensor", "div": "div.Tensor",
    "rsqrt": "rsqrt.default", "sqrt": "sqrt.default", "neg": "neg.default", "exp": "exp.default", "log": "log.default",
}  # fmt: skip
"""Operators of ``prims`` that decompositions end in -> those of ``aten`` that do the same."""

_OWN: Mapping[str, Rule] = MappingProxyType(
    {
        **{f"prims.{prim}.default": {**arithmetic.TABLE, **functions.TABLE}[f"aten.{name}"] for prim, name in _PRIMS.items()},
        **arithmetic.TABLE,
        **functions.TABLE,
        **activations.TABLE,
        **special.TABLE,
        **bessel.TABLE,
        **polynomials.TABLE,
        **incomplete_gamma.TABLE,
        **integers.TABLE,
        **randoms.TABLE,
        **views.TABLE,
        **assembling.TABLE,
        **indexing.TABLE,
        **accumulating.TABLE,
        **updating.TABLE,
        **reductions.SOURCES,
        **reductions.TABLE,
    }
)

RULES: Mapping[str, Rule] = MappingProxyType({**_OWN, **{alias: _OWN[name] for alias, name in ALIASES.items()}})
"""Operator overload (``aten.add.Tensor``) -> its rule; of two for scatters, that for few updates."""

CONCATENATIONS = frozenset(["aten.cat.default", "aten.concat.default", "aten.concatenate.default"])
"""Operators that put tensors behind each other."""

STACKS = frozenset(["aten.stack.default"])
"""Operators that put tensors behind each other along a new dimension."""
