"""What a pass may ask about the meaning of operators. The compiler implements it with PyTorch; passes see only this."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation


class Semantics(Protocol):
    """The one door to torch for passes.

    A constant value is an attribute: ``TensorLiteralAttr`` for a tensor (its type stands beside it), IntegerAttr, FloatAttr,
    StringAttr or NoneValueAttr for a host value.
    """

    def infer(self, op: Operation) -> Sequence[Attribute]:
        """The result types of ``op`` at its operand types, by fake tensors. VerifyException where PyTorch refuses the call."""
        ...

    def evaluate(self, op: Operation, operands: Sequence[Attribute], max_elements: int) -> Sequence[Attribute] | None:
        """The values of ``op``'s results at constant operand values, or None where the call raises, or where a result is no
        plain tensor or host value, or has more than ``max_elements`` elements. Never allocates a larger result."""
        ...

    def convert_fx_to_torch(self, module: ModuleOp, function: FuncOp) -> None:
        """Replaces each ``fx`` call in ``function`` by a call of a function of ``torch`` ops, traced at the operand types."""
        ...

    def functionalize(self, module: ModuleOp, function: FuncOp) -> None:
        """Rewrites ``function`` without mutation: written inputs come back as extra results with a recorded copy-back."""
        ...
