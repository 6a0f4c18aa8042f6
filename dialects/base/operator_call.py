"""The interface of operations outside of the dialect ``torch`` that one call of an operator of PyTorch computes."""

from __future__ import annotations

from abc import abstractmethod

from xdsl.ir import Operation

from fxc.dialects.attributes.values import Tree


class OperatorCall(Operation):
    """An operation that export and the interpreter run as a call."""

    @abstractmethod
    def operator_call(self) -> tuple[str, list[Tree]]:
        """The operator, such as ``aten.add.Tensor``, and the arguments."""
