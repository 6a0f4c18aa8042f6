"""The record of an operator: all facts about it, except its schema and its effects, in one entry."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, TypeAlias

from xdsl.ir import SSAValue

from fxc.dialects.context import FxcContext
from fxc.dialects.torch_ops.base import TorchOp
from fxc.passes.analysis.size_values import HintedSizes
from fxc.passes.operators.rules import Rule
from fxc.passes.operators.sampling import Samples


class Role(Enum):
    """A class of operators that passes treat alike."""

    CONCATENATION = auto()
    """Concatenates tensors along a dimension."""
    STACK = auto()
    """Stacks tensors along a new dimension."""
    SPLIT = auto()
    """Splits ``self`` along ``dim``; each piece is a result."""
    CONTRACTION = auto()
    """Multiplies two tensors and sums along common dimensions."""
    CONVOLUTION = auto()
    """Contracts ``input`` with ``weight`` and adds ``bias``. If it has an argument ``transposed``, that must be false."""
    CONVOLUTION_BACKWARD = auto()
    """The gradients of ``input``, ``weight`` and bias for that of the result of a convolution, ``grad_output``."""
    BATCH_NORM = auto()
    """May use ``running_mean`` and ``running_var``. If it has an argument ``training``, that must be false."""
    GROUP_NORM = auto()
    """Normalizes images by groups of channels."""


@dataclass(frozen=True)
class Factors:
    """The arguments of a matrix product: the names of its factors, and of the addend if there is one.

    ``is_turned``: the right factor is transposed. ``is_stacked``: both factors may be batches of matrices.
    """

    left: str
    right: str
    added: str = ""
    is_turned: bool = False
    is_stacked: bool = False


@dataclass(frozen=True)
class Activation:
    """An activation that oneDNN fuses into a product: its name, its numbers with defaults, and its approximation.

    ``is_exact``: the result is equal to PyTorch's to the last bit. Otherwise, the result in bfloat16 is closer to the exact
    value than PyTorch's, which rounds the product first.
    """

    word: str
    numbers: Sequence[tuple[str, float]] = ()
    approximation: str = ""
    is_exact: bool = False


class When(Enum):
    """When ``decompose-ops`` decomposes an operator."""

    ALWAYS = auto()
    KERNELS = auto()
    """If kernels are generated."""
    NO_FAST_CALL = auto()
    """If kernels are generated and the device is not a CPU, for which PyTorch has a fast implementation."""
    READ = auto()
    """If a kernel reads a result."""
    BESIDE = auto()
    """If a kernel reads a result or computes an operand."""


Split: TypeAlias = Callable[[FxcContext, TorchOp], Sequence[TorchOp]]
"""Replaces an op by its parts. Returns the parts that may be decomposed again; none if it does not apply to these operands."""


@dataclass(frozen=True)
class Parts:
    """The decomposition of an operator: ``split``, else PyTorch's decomposition.

    ``if_read``: one that comes before it, if a kernel reads the result.
    """

    when: When
    split: Split | None = None
    if_read: Split | None = None


FOR_KERNELS = Parts(When.KERNELS)
NO_FAST_CALL = Parts(When.NO_FAST_CALL)
"""PyTorch's decomposition into reductions and pointwise operators."""


SizesOf: TypeAlias = Callable[[SSAValue], Sequence[int]]
"""The sizes of a tensor, as numbers."""

Flops: TypeAlias = Callable[[TorchOp, SizesOf], int]
"""The floating-point operations of a call."""

Memory: TypeAlias = Callable[[TorchOp, HintedSizes], int]
"""The bytes that a call allocates beside its results, and releases."""

Positions: TypeAlias = Callable[[TorchOp], int | None]
"""The number of different positions that a call can find; None if it is not known."""


@dataclass(frozen=True)
class Operator:
    """Facts about an operator overload. An operator without a record runs as a library call."""

    formula: Rule | None = None
    """The rule by which kernels compute it."""
    cost: int = 1
    """The approximate cost of the formula for one element, in additions."""
    flops: Flops | None = None
    """Its floating-point operations, if these are not a constant number for each element."""
    memory: Memory | None = None
    """What a call takes beside its results, if that is known."""
    parts: Parts | None = None
    """How ``decompose-ops`` decomposes it."""
    role: Role | None = None
    gathered: str = ""
    """The argument from which it gathers, at positions given by another argument."""
    positions: Positions | None = None
    """The last result has positions, from 0 to this number less 1."""
    is_lone: bool = False
    """Whether a CPU kernel with only this operator is faster than PyTorch's.

    Measured: 0.2 to 1.0 times PyTorch's time for 1,000 to 10,000,000 elements on one thread. For maximum and minimum, ``cat``,
    ``embedding`` and single pointwise operators, a kernel takes up to 1.6 times.
    """
    scan: str = ""
    """The kind of ``tile.scan`` that computes it, for cumulative operators."""
    sampled: Samples | None = None
    """Its decomposition into uniform numbers for ``lower-random``."""
    reads_type: bool = False
    """Whether it reads only the type of its first tensor."""
    factors: Factors | None = None
    """The factors, for a matrix product."""
    onednn: Activation | None = None
    """The oneDNN activation that computes it after a product."""
    other_derivative: bool = False
    """Whether PyTorch has a second backward formula for double differentiation.

    The usual one reads factors without gradients. The second one has the same first derivatives and costs a factorization;
    it is always used.
    """
    commutes: bool = False
    """Whether exchanging ``self`` and ``other``, two tensors, changes no bit of the result."""
    states_backward: bool = False
    """Whether a region of it is its backward, in derivatives of each order."""


def each(names: str, formula: Rule | None = None, **facts: Any) -> dict[str, Operator]:
    """One record for each of ``names``; a name without a namespace is an overload of ``aten``. ``facts``: other fields."""
    return dict.fromkeys(map(_full, names.split()), Operator(formula, **facts))


def _full(name: str) -> str:
    return name if name.count(".") == 2 else f"aten.{name}"
