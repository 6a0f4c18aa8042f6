"""All rules: the operators that kernels can compute."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from fxc.passes.lowering._linalg import activations, arithmetic, functions, reductions, views
from fxc.passes.lowering._linalg.rules import Rule

_PRIMS = {
    "add": "add.Tensor", "sub": "sub.Tensor", "mul": "mul.Tensor", "div": "div.Tensor",
    "rsqrt": "rsqrt.default", "sqrt": "sqrt.default", "neg": "neg.default", "exp": "exp.default", "log": "log.default",
}  # fmt: skip
"""Operators of ``prims`` that decompositions end in -> those of ``aten`` that do the same."""

RULES: Mapping[str, Rule] = MappingProxyType(
    {
        **{f"prims.{prim}.default": {**arithmetic.TABLE, **functions.TABLE}[f"aten.{name}"] for prim, name in _PRIMS.items()},
        **arithmetic.TABLE,
        **functions.TABLE,
        **activations.TABLE,
        **views.TABLE,
        **reductions.SOURCES,
        **reductions.TABLE,
    }
)
"""Operator overload (``aten.add.Tensor``) -> its rule."""

CONCATENATIONS = frozenset(["aten.cat.default"])
"""Operators that put tensors behind each other."""
