"""The values of symbolic sizes, as launches take them."""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from fxc.dialects.fusion import GroupOp
from fxc.dialects.torch_ops import torch_op
from fxc.dialects.types import IntType, sizes
from fxc.dialects.values import int_attr, str_attr


class Numbers:
    """Asks for each symbolic size once a block, where an argument of the block has it, else before the group that needs it."""

    def __init__(self) -> None:
        self._known = dict[tuple[Block, str], SSAValue]()

    def value(self, name: str, group: GroupOp) -> SSAValue:
        """The size ``name``, which a tensor that ``group`` reads has, as a ``!torch.int`` before the group."""
        block = group.parent_block()
        assert block is not None
        if (found := self._known.get((block, name)) or _number(block.args, name)) is not None:
            return found
        if (source := _with_size(block.args, name)) is not None:
            assert block.first_op is not None
            self._known[block, name] = _asked(source, name, InsertPoint.before(block.first_op))
            return self._known[block, name]
        source = _with_size(group.inputs(), name)
        assert source is not None
        return _asked(source, name, InsertPoint.before(group))


def _number(values: Iterable[SSAValue], name: str) -> SSAValue | None:
    """The one of ``values`` that is the number ``name`` itself."""
    return next((value for value in values if value.type == IntType(str_attr(name))), None)


def _with_size(values: Iterable[SSAValue], name: str) -> SSAValue | None:
    return next((value for value in values if isinstance(value.type, TensorType) and name in sizes(value.type)), None)


def _asked(source: SSAValue, name: str, place: InsertPoint) -> SSAValue:
    assert isinstance(source.type, TensorType)
    dim = int_attr(sizes(source.type).index(name))
    query = torch_op("aten.sym_size.int").build_call([source, dim], {}, [IntType(str_attr(name))])
    query.results[0].name_hint = name if name.isidentifier() else None
    Rewriter.insert_op(query, place)
    return query.results[0]
