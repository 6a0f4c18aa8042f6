"""Higher-order operators (cond, while_loop, map, checkpoint, ...): calls that take graphs, as ops with regions."""

from __future__ import annotations

from typing import ClassVar

from xdsl.ir.core import OpTraits
from xdsl.traits import IsolatedFromAbove

from fxc.dialects.effects import CallEffects
from fxc.dialects.fx import PositionalCall


class HigherOrderOp(PositionalCall):
    """``torch.higher_order.cond(%p, @true_graph_0, @false_graph_0, (%x,)) ({...}, {...}) : ...``.

    Each graph argument names its submodule; ``regions[i]`` is the i-th distinct name in argument order. A region takes what the
    operator passes to it as block arguments, sees nothing else, and ends in ``fx.output``.
    """

    name = "torch.higher_order"
    PROPERTY_NAMES = ("args", "kwargs")
    traits: ClassVar[OpTraits] = OpTraits(lambda: (IsolatedFromAbove(), CallEffects()))

    @property
    def operator(self) -> str:
        """``higher_order.cond``."""
        return self.name.removeprefix("torch.")
