"""What a pass may ask about the meaning of operators. The compiler implements it with PyTorch; passes see only this."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation
from xdsl.utils.exceptions import VerifyException


class CannotInfer(VerifyException):
    """PyTorch can neither state a result nor refuse the call: its operand types say too little."""


@dataclass(frozen=True)
class Vjp:
    """The backward of an op. Functions are shared by all who ask: clone what is in them.

    ``forward``: a function of the op's distinct operands that gives its results, flat, and is to take its place first: its
    ops have backwards that need nothing but what they take and give. Then there is no ``backward``. Both are None where no
    gradient reaches an operand.

    ``backward``: a function of the gradients of the results ``cotangents``, the operands ``operands`` and the results
    ``results`` of the op. It returns the gradients of the operands ``gradients``; of an operand passed twice, their sum,
    under its first position. Results are counted flat, the elements of a packed one apart.

    ``declarations``: the ``torch.operator`` ops that the functions need in their module.
    """

    forward: FuncOp | None
    backward: FuncOp | None
    cotangents: tuple[int, ...]
    operands: tuple[int, ...]
    results: tuple[int, ...]
    gradients: tuple[int, ...]
    declarations: tuple[Operation, ...]


@dataclass(frozen=True)
class Jvp:
    """The forward derivative of an op: a function of its distinct operands and then the tangents of the operands
    ``tangents``, which returns the results, flat, and then the tangents of the results ``results``."""

    function: FuncOp
    tangents: tuple[int, ...]
    results: tuple[int, ...]
    declarations: tuple[Operation, ...]


@dataclass(frozen=True)
class OutVariant:
    """The overload ``operator`` (``aten.mm.out``) takes what the op takes, and in the arguments ``outs``, in the order of the
    op's results, the tensors that it writes these into."""

    operator: str
    outs: tuple[str, ...]


class Semantics(Protocol):
    """The one door to torch for passes.

    A constant value is an attribute: ``TensorLiteralAttr`` for a tensor (its type stands beside it), IntegerAttr, FloatAttr,
    StringAttr or NoneValueAttr for a host value.
    """

    def infer(self, op: Operation) -> Sequence[Attribute]:
        """The result types of ``op`` at its operand types, by fake tensors. A size or number that depends on what the types do
        not say has no name. VerifyException where PyTorch refuses the call, CannotInfer where the types say too little."""
        ...

    def requires_grad(self, op: Operation, operands: Sequence[bool]) -> Sequence[bool]:
        """Which results of ``op`` require grad, where these operands do. CannotInfer where that cannot be told."""
        ...

    def aliases(self, op: Operation) -> Sequence[tuple[int, int]]:
        """The pairs (result, operand) of ``op`` that share memory at its operand types. CannotInfer where it cannot be told."""
        ...

    def evaluate(self, op: Operation, operands: Sequence[Attribute], max_elements: int) -> Sequence[Attribute] | None:
        """The values of ``op``'s results at constant operand values, or None where the call raises, or where a result is no
        plain tensor or host value, or has more than ``max_elements`` elements. Never allocates a larger result."""
        ...

    def decompose(self, op: Operation) -> FuncOp | None:
        """A detached function of simpler operators that computes what the torch op ``op`` does, at its operand types: an
        argument for each different operand, in order, a value for each result, which may be an argument. None where PyTorch
        decomposes it no further, or where a part would write or draw."""
        ...

    def out_variant(self, op: Operation) -> OutVariant | None:
        """The overload that computes the results of the torch op ``op`` right into tensors of the result types. None where
        there is none, or it computes elsewhere and copies, or refuses such tensors, or may give them other sizes on the way."""
        ...

    def autocast(self, op: Operation, state: Mapping[str, str | None]) -> Mapping[int, str]:
        """The operands that autocast casts before ``op``, with the dtype, where it is on for the kinds of devices and dtypes of
        ``state`` (None: PyTorch's default). VerifyException where it does something else to ``op`` than that."""
        ...

    def convert_fx_to_torch(self, module: ModuleOp, function: FuncOp) -> None:
        """Replaces each ``fx`` call in ``function`` by a call of a function of ``torch`` ops, traced at the operand types."""
        ...

    def functionalize(self, module: ModuleOp, function: FuncOp) -> None:
        """Rewrites ``function`` without mutation: written inputs come back as extra results with a recorded copy-back."""
        ...

    def vjp(self, op: Operation, needs: Sequence[bool], cotangents: Mapping[int, Attribute], *, twice: bool = False) -> Vjp:
        """The backward of ``op`` for the operands that ``needs`` marks, given gradients of these types of its results.

        ``twice``: the backward that PyTorch takes where it is to be differentiated again. Of some operators the other one reads
        what was computed from operands as if it were constant, or is one operator without a derivative.

        Traced from PyTorch's autograd at the operand types. VerifyException where PyTorch cannot differentiate the call.
        """
        ...

    def has_second_backward(self, operator: str) -> bool:
        """Whether ``operator`` is a backward without a derivative, in whose place autograd meets a function that has one where
        gradients are differentiated again."""
        ...

    def jvp(self, op: Operation, needs: Sequence[bool]) -> Jvp:
        """The forward derivative of ``op`` along the operands that ``needs`` marks. VerifyException as ``vjp``."""
        ...
