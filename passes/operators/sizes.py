"""The values of dynamic sizes for the ops of a group: each is computed once, in front of the ops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import IndexType, IntegerAttr, TensorType, UnrealizedConversionCastOp
from xdsl.ir import Block, Operation, SSAValue

from fxc.dialects.attributes.size_polynomials import Polynomial, Steps, names_in, sizes_of
from fxc.dialects.attributes.types import Dim, IntType, dims_of, is_tensor, sizes
from fxc.passes.analysis.size_values import value_of_size
from fxc.passes.operators.scalars import Uncovered


class Sizes:
    """Computes dynamic sizes.

    ``read``: the values that the ops read. ``around``: further values from which sizes can be read. ``least``: minimum sizes.
    """

    def __init__(self, read: Sequence[SSAValue], around: Sequence[SSAValue], least: Mapping[str, int]) -> None:
        self.read, self.around, self.least = read, around, least
        self.ops = list[Operation]()
        """The ops that compute sizes."""
        self._values = dict[str, SSAValue]()
        types = [value.type for value in read if is_tensor(value.type)]
        self._texts = {size: text for type in types for size, text in zip(sizes_of(type), sizes(type), strict=True)}

    def value(self, name: str) -> SSAValue:
        """The size ``name`` as an ``index``. Uncovered if no value determines it."""
        if name not in self._values:
            self._values[name] = self._index(self._source(name), name)
        return self._values[name]

    def check(self, type: TensorType) -> None:
        """Uncovered if no value determines one of the sizes or strides of ``type``."""
        for name in names_in(type):
            self._source(name)

    def dim(self, size: Steps) -> Dim:
        """``size`` in the form that types use."""
        return size if isinstance(size, int) else self._texts.get(size, str(size))

    def dynamic(self, type: TensorType) -> list[SSAValue]:
        """The dynamic sizes of ``type``, as operands of ``tensor.empty``."""
        return [self._steps(size) for size in sizes_of(type) if isinstance(size, Polynomial)]

    def put_first(self, block: Block) -> None:
        """Insert the ops that compute sizes at the start of ``block``."""
        if self.ops:
            assert block.first_op is not None
            block.insert_ops_before(self.ops, block.first_op)

    def _source(self, name: str) -> SSAValue:
        source = (value_of_size(self.read, name) or value_of_size(self.around, name)) if name else None
        if source is None:
            raise Uncovered(f"a size {name or 'without a name'} that is the value of no operand")
        return source

    def _index(self, value: SSAValue, name: str) -> SSAValue:
        if isinstance(value.type, IntType):
            return self._add(UnrealizedConversionCastOp.create(operands=[value], result_types=[IndexType()]))
        dim = self._add(arith.ConstantOp(IntegerAttr(dims_of(value).index(name), IndexType())))
        return self._add(tensor.DimOp(value, dim))

    def _steps(self, size: Steps) -> SSAValue:
        if isinstance(size, int):
            return self._add(arith.ConstantOp(IntegerAttr(size, IndexType())))
        terms = list[SSAValue]()
        for names, factor in size.terms:
            parts = [self.value(name) for name in names]
            parts += [self._steps(factor)] if factor != 1 or not names else []
            terms.append(reduce(lambda a, b: self._add(arith.MuliOp(a, b)), parts))
        return reduce(lambda a, b: self._add(arith.AddiOp(a, b)), terms)

    def _add(self, op: Operation) -> SSAValue:
        self.ops.append(op)
        return op.results[0]
