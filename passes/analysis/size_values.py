"""Symbolic sizes: as values, for the operands of launches, and as numbers, by their hints, for estimates."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import cast

from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr, TensorType, TupleType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from fxc.dialects.attributes.size_polynomials import NO_VALUE, evaluated
from fxc.dialects.attributes.types import (
    SYMBOLS,
    Dim,
    IntType,
    contiguous_strides,
    dims_of,
    element_bytes,
    is_tensor,
    sizes,
    strides,
)
from fxc.dialects.attributes.values import int_attr, str_attr
from fxc.dialects.autodiff import UNDEFINED
from fxc.dialects.entry import argument_attributes
from fxc.dialects.fusion import GroupOp
from fxc.dialects.target import toplevel
from fxc.dialects.torch_ops import torch_op


class SizeQueries:
    """Inserts the queries of symbolic sizes.

    A size that an argument of the block has is queried once, at the start of the block; any other before the group that needs
    it.
    """

    def __init__(self) -> None:
        self._known = dict[tuple[Block, str], SSAValue]()

    def value(self, name: str, group: GroupOp) -> SSAValue:
        """The size ``name`` as a ``!torch.int`` that is available before ``group``.

        An argument of the block or an input of ``group`` has this size.
        """
        block = group.parent_block()
        assert block is not None
        if (block, name) in self._known:
            return self._known[block, name]
        source, place = value_of_size(block.args, name), InsertPoint.at_start(block)
        if source is None:
            source, place = value_of_size(group.inputs(), name), InsertPoint.before(group)
        assert source is not None
        if source.type == IntType(str_attr(name)):
            return source
        query = _query(source, name, place)
        if place.insert_before is not group:
            self._known[block, name] = query
        return query


def facts_of(module: Operation, fact: str) -> dict[str, int]:
    """Symbol -> its ``hint`` or ``min``, as recorded on ``module``."""
    known = module.attributes.get(SYMBOLS)
    if not isinstance(known, DictionaryAttr):
        return {}
    found = {name: each.data.get(fact) for name, each in known.data.items() if isinstance(each, DictionaryAttr)}
    return {name: number.value.data for name, number in found.items() if isinstance(number, IntegerAttr)}


def value_of_size(values: Iterable[SSAValue], name: str) -> SSAValue | None:
    """The first of ``values`` that is the number ``name``, else the first tensor with that size; no undefined gradient."""
    listed = list(values)
    numbers = (value for value in listed if value.type == IntType(str_attr(name)))
    tensors = (value for value in listed if name in dims_of(value) and not _is_undefined(value))
    return next(numbers, None) or next(tensors, None)


def _is_undefined(value: SSAValue) -> bool:
    if not isinstance(value, BlockArgument):
        return False
    function = value.owner.parent_op()
    return isinstance(function, FuncOp) and UNDEFINED in argument_attributes(function)[value.index].data


def _query(source: SSAValue, name: str, place: InsertPoint) -> SSAValue:
    dim = int_attr(dims_of(source).index(name))
    query = torch_op("aten.sym_size.int").build_call([source, dim], {}, [IntType(str_attr(name))])
    query.results[0].name_hint = name if name.isidentifier() else None
    Rewriter.insert_op(query, place)
    return query.results[0]


ANY_SIZE = 1021
"""The assumed value of an unknown size in cost comparisons; a static size is unlikely to be equal to it."""


class HintedSizes:
    """Sizes and bytes of tensors in the module around ``op``. A size without hints is ``ANY_SIZE``."""

    def __init__(self, op: Operation) -> None:
        self._hints = facts_of(toplevel(op), "hint")
        self._known = dict[str, int]()
        self._bytes = dict[Attribute, int]()

    def shape(self, type: Attribute) -> tuple[int, ...]:
        """The sizes of a tensor; empty for another type."""
        return self._numbers(sizes(type)) if is_tensor(type) else ()

    def elements(self, type: Attribute) -> int:
        """The number of elements of a tensor, or of those of a tuple; 0 for another type."""
        if isinstance(type, TupleType):
            return sum(map(self.elements, type.types))
        return prod(self.shape(type)) if is_tensor(type) else 0

    def bytes(self, type: Attribute) -> int:
        """The bytes of a tensor from its first to its last element, or of those of a tuple; 0 for another type."""
        if isinstance(type, TupleType):
            return sum(map(self.bytes, type.types))
        if not is_tensor(type):
            return 0
        found = self._bytes.get(type)
        if found is None:
            found = self._bytes[type] = self._extent(type)
        return found

    def _extent(self, type: TensorType) -> int:
        shape, given = self.shape(type), strides(type)
        steps = contiguous_strides(shape) if given is None else self._numbers(given)
        width = element_bytes(type.element_type) or 1
        return 0 if 0 in shape else width * (1 + sum((size - 1) * step for size, step in zip(shape, steps, strict=True)))

    def distinct_bytes(self, type: Attribute) -> int:
        """The bytes that the elements of a tensor occupy, or those of a tuple; an expanded tensor has fewer than elements."""
        if isinstance(type, TupleType):
            return sum(map(self.distinct_bytes, type.types))
        width = (element_bytes(type.element_type) or 1) if is_tensor(type) else 0
        return min(self.bytes(type), width * self.elements(type))

    def _numbers(self, dims: Sequence[Dim]) -> tuple[int, ...]:
        return tuple(dim if isinstance(dim, int) else self._number(dim) for dim in dims)

    def _number(self, text: str) -> int:
        if text not in self._known:
            try:
                self._known[text] = max(cast(int, evaluated(text, self._hints.__getitem__)), 0)  # of numbers
            except NO_VALUE:
                self._known[text] = ANY_SIZE
        return self._known[text]
