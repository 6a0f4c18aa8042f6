"""The interface to operator semantics for passes. The compiler implements it with PyTorch; passes use only this protocol."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from xdsl.dialects.builtin import DictionaryAttr, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation
from xdsl.utils.exceptions import VerifyException

from fxc.dialects.equations import Snippet


class CannotInfer(VerifyException):
    """The result types of a call cannot be inferred, because its operand types say too little; the call may be valid."""


@dataclass(frozen=True)
class Vjp:
    """The backward of an op. The functions are shared by all callers: clone their contents.

    ``forward``: a function of the distinct operands of the op that returns its results, flat. It replaces the op first, because
    the backwards of its ops need only their operands and results. Then ``backward`` is None. Both are None where no gradient
    reaches an operand.

    ``backward``: a function of the gradients of the results ``cotangents``, the operands ``operands`` and the results
    ``results`` of the op. It returns the gradients of the operands ``gradients``; for an operand passed twice, their sum,
    under its first position. Results are counted flat, each element of a packed one separately.

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
    """The forward derivative of an op.

    A function of its distinct operands and then the tangents of the operands ``tangents``, which returns the results, flat, and
    then the tangents of the results ``results``.
    """

    function: FuncOp
    tangents: tuple[int, ...]
    results: tuple[int, ...]
    declarations: tuple[Operation, ...]


@dataclass(frozen=True)
class OutVariant:
    """The overload ``operator`` (``aten.mm.out``) of an op that writes its results into given tensors.

    It takes the arguments of the op, and in the arguments ``outs``, in the order of the results, the tensors to write.
    """

    operator: str
    outs: tuple[str, ...]


class Semantics(Protocol):
    """The only access to torch for passes.

    A constant value is an attribute: ``TensorLiteralAttr`` for a tensor (its type is stored separately), IntegerAttr,
    FloatAttr, StringAttr or NoneValueAttr for a host value.
    """

    def infer(self, op: Operation) -> Sequence[Attribute]:
        """The result types of ``op`` for its operand types, by fake tensors.

        A size or number that the types do not determine has no name. VerifyException where PyTorch rejects the call,
        CannotInfer where the types say too little.
        """
        ...

    def remember(self, module: ModuleOp) -> None:
        """Take the result types of the ops of ``module``, which PyTorch computed, as those that ``infer`` returns for them."""
        ...

    def requires_grad(self, op: Operation, operands: Sequence[bool]) -> Sequence[bool]:
        """Whether each result of ``op`` requires grad, given that of the operands. CannotInfer where that is unknown."""
        ...

    def aliases(self, op: Operation) -> Sequence[tuple[int, int]]:
        """The (result, operand) index pairs of ``op`` that share memory for its operand types. CannotInfer where unknown."""
        ...

    def returned(self, op: Operation) -> Sequence[tuple[int, int]]:
        """The index pairs (leaf of the results, operand) that are one tensor, as of ``x.to(x.dtype)``. Or CannotInfer."""
        ...

    def evaluate(self, op: Operation, operands: Sequence[Attribute], max_elements: int) -> Sequence[Attribute] | None:
        """The values of the results of ``op`` at constant operand values. Never allocates more than ``max_elements`` elements.

        None where the call raises, or where a result is not a plain tensor or host value, or has more than ``max_elements``.
        """
        ...

    def decompose(self, op: Operation) -> FuncOp | None:
        """A detached function of simpler operators that computes the torch op ``op`` for its operand types.

        It has an argument for each distinct operand, in order, and a value for each result, which may be an argument. None
        where PyTorch has no further decomposition, or where it contains a write or a random operator.
        """
        ...

    def out_variant(self, op: Operation) -> OutVariant | None:
        """The overload that computes the results of the torch op ``op`` directly into tensors of the result types.

        None where there is none, or it computes elsewhere and copies, or rejects such tensors, or may resize them.
        """
        ...

    def autocast(self, op: Operation, state: Mapping[str, str | None]) -> Mapping[int, str]:
        """The operands that autocast casts before ``op``, with the dtype.

        Autocast is on for the kinds of devices and dtypes of ``state`` (None: PyTorch's default). CaptureError where it
        changes ``op`` in another way.
        """
        ...

    def convert_fx_to_torch(self, module: ModuleOp, function: FuncOp) -> None:
        """Replace each ``fx`` call in ``function`` by a call of a function of ``torch`` ops, traced for the operand types."""
        ...

    def functionalize(self, module: ModuleOp, function: FuncOp) -> None:
        """Rewrite ``function`` without mutation: new values of written inputs are extra results with a recorded copy-back."""
        ...

    def vjp(self, op: Operation, needs: Sequence[bool], cotangents: Mapping[int, Attribute], *, twice: bool = False) -> Vjp:
        """The backward of ``op`` for the operands that ``needs`` marks, given gradients of these types of its results.

        ``twice``: the backward that PyTorch uses if it is differentiated again. For some operators the default backward treats
        values computed from operands as constants, or is one operator without a derivative.

        Traced from PyTorch's autograd for the operand types. VerifyException where PyTorch cannot differentiate the call.
        """
        ...

    def has_second_backward(self, operator: str) -> bool:
        """Whether ``operator`` is a backward without a derivative that has a differentiable replacement.

        Autograd uses the replacement where gradients are differentiated again.
        """
        ...

    def retrace(
        self, function: FuncOp, level: str, arguments: Sequence[Attribute], symbols: DictionaryAttr | None
    ) -> Snippet | None:
        """The operations of ``function`` at other arguments: types of tensors, and literals. None if they do not accept them.

        ``level``: as in ``fxc.dialects.equations``.
        """
        ...

    def jvp(self, op: Operation, needs: Sequence[bool]) -> Jvp:
        """The forward derivative of ``op`` for the operands that ``needs`` marks. VerifyException as for ``vjp``."""
        ...
