"""Redirecting size queries from the result of a pointwise op to its operands, so that the result is not needed for them."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from fxc.dialects.attributes.types import IntType, is_tensor, sizes
from fxc.dialects.attributes.values import int_attr
from fxc.dialects.torch_ops import torch_op
from fxc.dialects.torch_ops.base import TorchOp
from fxc.dialects.torch_ops.constant import ConstantOp
from fxc.dialects.torch_ops.effects import is_size_query
from fxc.passes.analysis.matching import integer
from fxc.passes.analysis.shape_queries import answer


def size_queries(value: SSAValue) -> list[TorchOp]:
    """The queries of sizes of ``value``."""
    users = dict.fromkeys(use.operation for use in value.uses)
    return [user for user in users if isinstance(user, TorchOp) and is_size_query(user)]


def answer_queries(op: Operation) -> bool:
    """Redirect all size queries of the result of the pointwise ``op`` to its operands, or replace them by constants.

    The new queries are inserted before ``op``. False, with nothing changed, where the types do not determine which operand has
    a queried size.
    """
    found = [(query, _answers(query, op)) for query in size_queries(op.results[0])]
    if any(answers is None for _, answers in found):
        return False
    for query, answers in found:
        for (asked, index), old in zip(answers or (), query.results, strict=True):
            if asked.parent is None:
                Rewriter.insert_op(asked, InsertPoint.before(op))
                asked.location = query.location
            asked.results[index]._name = old._name
            old.replace_all_uses_with(asked.results[index])
        Rewriter.erase_op(query)
    return bool(found)


def _answers(query: TorchOp, op: Operation) -> Sequence[tuple[Operation, int]] | None:
    """For each result of ``query`` a detached op and the index of its equal result; None where there is none."""
    if (known := answer(query)) is not None:
        return [(ConstantOp.of(known, query.results[0].type), 0)]
    type = op.results[0].type
    assert is_tensor(type)
    sources = [_source(op, dim - len(type.get_shape())) for dim in range(len(type.get_shape()))]
    dims = range(-len(sources), 0)
    same = next((value for value in op.operands if dims and all(_has_size(op, value, dim) for dim in dims)), None)
    if same is not None:
        asked = query.rebuilt({**query.bound(), "self": same})
        return [(asked, index) for index in range(len(query.results))]
    if "dim" in query.SCHEMA.by_name:
        dim = integer(query.argument("dim"))
        asked_dims = [dim if dim is not None and -len(sources) <= dim < len(sources) else None]
    else:
        asked_dims = [None] if query.is_packed or len(query.results) != len(sources) else list(range(len(sources)))
    answers = [_one_size(query.results[i].type, sizes(type), sources, dim) for i, dim in enumerate(asked_dims)]
    return None if None in answers else [(asked, 0) for asked in answers if asked is not None]


def _one_size(
    type: Attribute, known: Sequence[int | str], sources: Sequence[SSAValue | None], dim: int | None
) -> Operation | None:
    """A constant for the size along ``dim``, or a query of the operand that has it; None where neither is known."""
    if dim is None or not isinstance(type, IntType):
        return None
    if isinstance(size := known[dim], int):
        return ConstantOp.of(int_attr(size), type)
    if (source := sources[dim]) is None:
        return None
    assert is_tensor(source.type)
    place = dim % len(known) - len(known) + len(source.type.get_shape())
    return torch_op("aten.sym_size.int").build_call([source, int_attr(place)], {}, [type])


def _source(op: Operation, dim: int) -> SSAValue | None:
    """The first operand that certainly has the size of the result along ``dim``, which is negative."""
    return next((value for value in op.operands if _has_size(op, value, dim)), None)


def _has_size(op: Operation, value: SSAValue, dim: int) -> bool:
    """Whether ``value`` certainly has the size of the result along ``dim``, by its type or because all others have size 1."""
    result = op.results[0].type
    assert is_tensor(result)
    if not is_tensor(value.type) or len(value.type.get_shape()) < -dim:
        return False
    if (size := sizes(value.type)[dim]) != "" and size == sizes(result)[dim]:
        return True
    others = {other for other in op.operands if other is not value and is_tensor(other.type)}
    shapes = [sizes(other.type) for other in others if is_tensor(other.type)]
    return size == "" and all(len(shape) < -dim or shape[dim] == 1 for shape in shapes)
