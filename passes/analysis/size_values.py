"""Symbolic sizes as values, for the operands of launches."""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, BlockArgument, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from fxc.dialects.attributes.types import SYMBOLS, IntType, is_tensor, sizes
from fxc.dialects.attributes.values import int_attr, str_attr
from fxc.dialects.autodiff import UNDEFINED
from fxc.dialects.entry import argument_attributes
from fxc.dialects.fusion import GroupOp
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
    tensors = (value for value in listed if name in _sizes(value) and not _is_undefined(value))
    return next(numbers, None) or next(tensors, None)


def _is_undefined(value: SSAValue) -> bool:
    if not isinstance(value, BlockArgument):
        return False
    function = value.owner.parent_op()
    return isinstance(function, FuncOp) and UNDEFINED in argument_attributes(function)[value.index].data


def _sizes(value: SSAValue) -> tuple[object, ...]:
    return sizes(value.type) if is_tensor(value.type) else ()


def _query(source: SSAValue, name: str, place: InsertPoint) -> SSAValue:
    assert is_tensor(source.type)
    dim = int_attr(sizes(source.type).index(name))
    query = torch_op("aten.sym_size.int").build_call([source, dim], {}, [IntType(str_attr(name))])
    query.results[0].name_hint = name if name.isidentifier() else None
    Rewriter.insert_op(query, place)
    return query.results[0]
