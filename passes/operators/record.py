"""The record of an operator: all that the compiler knows of it beside its schema and its effects, in one entry."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, TypeAlias

from fxc.dialects.context import FxcContext
from fxc.dialects.torch_ops.base import TorchOp
from fxc.passes.operators.rules import Rule
from fxc.passes.operators.sampling import Samples


class Role(Enum):
    """What an operator does to tensors as a whole, where passes treat all that do it alike."""

    CONCATENATION = auto()
    """Puts tensors behind each other along a dimension."""
    STACK = auto()
    """Puts tensors behind each other along a new dimension."""
    SPLIT = auto()
    """Cuts ``self`` along ``dim`` into pieces, a result each."""
    CONTRACTION = auto()
    """Multiplies two tensors and adds up along dimensions that both have."""
    CONVOLUTION = auto()
    """Is a contraction of ``input`` with ``weight``, and adds ``bias``; with an argument ``transposed``, where it is false."""
    BATCH_NORM = auto()
    """May use ``running_mean`` and ``running_var``; with an argument ``training``, where it is false."""
    GROUP_NORM = auto()
    """Normalises images by groups of channels."""


@dataclass(frozen=True)
class Factors:
    """The arguments of a product of matrices: its factors, and what is added, if anything is. ``is_turned``: the right factor
    has a row, not a column, for each column of the product. ``is_stacked``: factors may be stacks of matrices, both of them."""

    left: str
    right: str
    added: str = ""
    is_turned: bool = False
    is_stacked: bool = False


@dataclass(frozen=True)
class Activation:
    """oneDNN's word for an activation behind a product, the numbers it takes and its approximation, with their defaults, and
    whether it is computed to the last bit. In bfloat16 what is not is nearer than PyTorch's, which rounds the product first."""

    word: str
    numbers: Sequence[tuple[str, float]] = ()
    approximation: str = ""
    is_exact: bool = False


class When(Enum):
    """Where ``decompose-ops`` takes an operator apart."""

    ALWAYS = auto()
    KERNELS = auto()
    """Where kernels are made."""
    NO_FAST_CALL = auto()
    """Where kernels are made, and on devices other than CPUs, which have fast calls for it."""
    READ = auto()
    """Where a kernel reads a result."""
    BESIDE = auto()
    """Where a kernel reads a result, or computes an operand."""


Split: TypeAlias = Callable[[FxcContext, TorchOp], Sequence[TorchOp]]
"""Puts the parts of an op in its place, and returns those that may have parts again; none where it has none at its operands."""


@dataclass(frozen=True)
class Parts:
    """What an operator is made of: what ``split`` says, else PyTorch's decomposition."""

    when: When
    split: Split | None = None


FOR_KERNELS = Parts(When.KERNELS)
NO_FAST_CALL = Parts(When.NO_FAST_CALL)
"""PyTorch's decomposition into reductions and pointwise work."""


@dataclass(frozen=True)
class Operator:
    """Facts about an operator overload. One without a record is a call of the library."""

    formula: Rule | None = None
    """How kernels compute it."""
    cost: int = 1
    """How many additions the formula takes about as long as, for an element."""
    parts: Parts | None = None
    """How ``decompose-ops`` takes it apart."""
    role: Role | None = None
    gathered: str = ""
    """The argument that it reads at places that another says."""
    is_lone: bool = False
    """Whether a CPU kernel for it alone takes less time than PyTorch's: .2 to 1.0 of it, of 1,000 to 10,000,000 elements on one
    thread. Of the largest and smallest, of ``cat``, ``embedding`` and single pointwise operators it takes up to 1.6."""
    scan: str = ""
    """How ``tile.scan`` combines the elements of which it gives a result each."""
    sampled: Samples | None = None
    """What it is made of where ``lower-random`` samples."""
    reads_type: bool = False
    """Whether it reads no more of its first tensor than the type."""
    factors: Factors | None = None
    """Of a product of matrices."""
    onednn: Activation | None = None
    """How oneDNN computes it behind a product."""
    other_derivative: bool = False
    """Whether PyTorch has another backward where it is to be differentiated again, as the usual one reads factors that carry no
    gradient. It gives the same first derivatives and costs a factorisation, so it is taken in any case."""


def each(names: str, formula: Rule | None = None, **facts: Any) -> dict[str, Operator]:
    """One record for each of ``names``, overloads of ``aten`` where they name no namespace. ``facts``: its other fields."""
    return dict.fromkeys(map(_full, names.split()), Operator(formula, **facts))


def _full(name: str) -> str:
    return name if name.count(".") == 2 else f"aten.{name}"
