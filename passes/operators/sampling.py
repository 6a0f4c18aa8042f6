"""Decompose random operators into uniform numbers from a seed, ``fxc.uniform``, and pointwise operators."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

from xdsl.dialects.builtin import TensorType, i1
from xdsl.ir import SSAValue

from fxc.dialects.attributes.types import device, dtype_name, sizes, tensor_of, tensor_type
from fxc.dialects.attributes.values import Tree, dtype_attr, float_attr, int_attr, isa
from fxc.dialects.torch_ops.base import TorchOp
from fxc.dialects.torch_ops.operators import torch_op
from fxc.passes.analysis.matching import dtype, integer, number

WIDEST_RANGE = 1 << 31
"""The maximum range of random integers: for larger ranges, 53 bits are not uniform enough."""


class RandomNumbers:
    """Builds the ops that replace the random ``op``, in ``parts``. Each of ``streams`` is used once."""

    def __init__(self, op: TorchOp, seed: SSAValue, streams: Iterator[int]) -> None:
        self.op, self.seed, self.streams = op, seed, streams
        self.parts = list[TorchOp]()
        self.type = tensor_of(op.results[0])

    @property
    def dtype(self) -> str:
        """The dtype of the result."""
        found = dtype(self.type)
        assert found is not None
        return found

    @property
    def precision(self) -> str:
        """The dtype for sampling and computation, since half precision has too few values."""
        return "float64" if self.dtype == "float64" else "float32"

    def like_result(self, name: str) -> TensorType:
        """The type of the result in another dtype."""
        return tensor_type(name, sizes(self.type), None, device(self.type))

    def call(self, operator: str, arguments: Sequence[Tree], name: str) -> SSAValue:
        """Call ``operator``; its result has the sizes of the result of ``op`` and the dtype ``name``."""
        part = torch_op(operator).build_call(arguments, {}, [self.like_result(name)], location=self.op.location)
        self.parts.append(part)
        return part.results[0]

    def uniform(self, name: str) -> SSAValue:
        """Uniform random numbers in [0, 1)."""
        shape = [int_attr(size) for size in sizes(self.type) if isinstance(size, int)]
        return self.call("fxc.uniform.default", [self.seed, shape, int_attr(next(self.streams)), dtype_attr(name)], name)

    def scaled(self, x: SSAValue, factor: Tree, offset: Tree) -> SSAValue:
        """x * factor + offset, which may be numbers or tensors."""
        for operator, argument, neutral in (("mul", factor, 1), ("add", offset, 0)):
            if number(argument) != neutral:
                x = self.call(f"aten.{operator}.Tensor", [x, argument], self.precision)
        return x

    def logarithm(self) -> SSAValue:
        """log(1 - u) for uniform u, so that the argument is above 0."""
        u = self.uniform(self.precision)
        rest = self.call("aten.rsub.Scalar", [u, int_attr(1)], self.precision)
        return self.call("aten.log.default", [rest], self.precision)

    def normal(self) -> SSAValue:
        """Normal random numbers by the Box-Muller transform."""
        name = self.precision
        square = self.call("aten.mul.Tensor", [self.logarithm(), float_attr(-2.0)], name)
        length = self.call("aten.sqrt.default", [square], name)
        angle = self.call("aten.mul.Tensor", [self.uniform(name), float_attr(2 * math.pi)], name)
        return self.call("aten.mul.Tensor", [length, self.call("aten.cos.default", [angle], name)], name)

    def converted(self, x: SSAValue) -> SSAValue:
        """``x`` in the dtype of the result."""
        if dtype(x.type) == self.dtype:
            return x
        part = torch_op("aten._to_copy.default").build_call(
            [x], {"dtype": dtype_attr(self.dtype)}, [self.like_result(self.dtype)], location=self.op.location
        )
        self.parts.append(part)
        return part.results[0]

    def below(self, share: Tree) -> SSAValue:
        """Random booleans that are true with probability ``share``."""
        wide = isa(share, SSAValue) and dtype(share.type) == "float64"
        operator = "aten.lt.Tensor" if isinstance(share, SSAValue) else "aten.lt.Scalar"
        return self.call(operator, [self.uniform("float64" if wide else "float32"), share], dtype_name(i1))


Samples: TypeAlias = Callable[[RandomNumbers, Mapping[str, Tree]], list[SSAValue] | None]
"""Builds the results of an op from its arguments; None if it does not support these arguments."""


def rand(n: RandomNumbers, bound: Mapping[str, Tree]) -> list[SSAValue]:
    return [n.uniform(n.dtype)]


def uniform(n: RandomNumbers, bound: Mapping[str, Tree]) -> list[SSAValue] | None:
    low, high = number(bound.get("from", float_attr(0.0))), number(bound.get("to", float_attr(1.0)))
    if low is None or high is None:
        return None
    return [n.converted(n.scaled(n.uniform(n.precision), float_attr(high - low), float_attr(low)))]


def normal(n: RandomNumbers, bound: Mapping[str, Tree]) -> list[SSAValue]:
    mean, std = bound.get("mean", float_attr(0.0)), bound.get("std", float_attr(1.0))
    return [n.converted(n.scaled(n.normal(), std, mean))]


def exponential(n: RandomNumbers, bound: Mapping[str, Tree]) -> list[SSAValue] | None:
    rate = number(bound.get("lambd", float_attr(1.0)))
    return None if not rate else [n.converted(n.scaled(n.logarithm(), float_attr(-1 / rate), float_attr(0.0)))]


def bernoulli(n: RandomNumbers, bound: Mapping[str, Tree]) -> list[SSAValue]:
    return [n.converted(n.below(bound.get("p", bound["self"])))]


def randint(n: RandomNumbers, bound: Mapping[str, Tree]) -> list[SSAValue] | None:
    low, high = integer(bound.get("low", int_attr(0))), integer(bound["high"])
    if low is None or high is None or not 0 < high - low <= WIDEST_RANGE:
        return None
    scaled = n.call("aten.mul.Tensor", [n.uniform("float64"), float_attr(float(high - low))], "float64")
    whole = n.call("aten.floor.default", [scaled], "float64")
    return [n.converted(n.call("aten.add.Tensor", [whole, float_attr(float(low))], "float64") if low else whole)]


def dropout(n: RandomNumbers, bound: Mapping[str, Tree]) -> list[SSAValue] | None:
    """The elements that are not dropped, times 1 / (1 - p), and for ``native_dropout`` their mask."""
    x, share = bound["input"], number(bound["p"])
    if not isa(x, SSAValue) or share is None or not 0 < share < 1 or x.type != n.type:
        return None
    kept = n.below(float_attr(1 - share))
    masked = n.call("aten.mul.Tensor", [x, kept], n.dtype)
    return [n.call("aten.mul.Tensor", [masked, float_attr(1 / (1 - share))], n.dtype), kept][: len(n.op.results)]
