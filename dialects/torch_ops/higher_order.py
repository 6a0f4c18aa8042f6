"""Higher-order operators (cond, while_loop, map, checkpoint, ...): calls that take graphs, as ops with regions."""

from __future__ import annotations

from typing import ClassVar

from xdsl.ir import SSAValue
from xdsl.ir.core import OpTraits
from xdsl.traits import IsolatedFromAbove

from fxc.dialects.base.effects import CallEffects, EffectsInterface, has_inner_effect, inner_operations, writes
from fxc.dialects.fx import PositionalCall

RUN_ALWAYS = frozenset({"torch.higher_order.with_effects", "torch.higher_order.print"})
"""Operators that must run, for any regions."""


class HigherOrderOp(PositionalCall, EffectsInterface):
    """``torch.higher_order.cond(%p, @true_graph_0, @false_graph_0, (%x,)) ({...}, {...}) : ...``.

    Each graph argument names its submodule; ``regions[i]`` is the i-th distinct name in argument order. A region takes the
    operands of the operator as block arguments, uses no other values from outside, and ends in ``fx.output``.
    """

    name = "torch.higher_order"
    PROPERTY_NAMES = ("args", "kwargs")
    traits: ClassVar[OpTraits] = OpTraits(lambda: (IsolatedFromAbove(), CallEffects()))

    @property
    def operator(self) -> str:
        """``higher_order.cond``."""
        return self.name.removeprefix("torch.")

    def writes(self) -> list[SSAValue] | None:
        """Nothing where the regions write nothing, even if they sample or have side effects."""
        is_quiet = bool(self.regions) and all(writes(inner) == [] for inner in inner_operations(self))
        return [] if self.is_pure() or is_quiet else None

    def has_side_effect(self) -> bool:
        return has_inner_effect(self) or self.name in RUN_ALWAYS
