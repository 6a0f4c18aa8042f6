"""Motion across pointwise ops: the pieces of op(x, y) are op of the pieces of x and y, and sizes are queried from operands."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.utils.exceptions import VerifyException

from fxc.dialects.attributes.types import IntType, dims_of, is_tensor, sizes, tensor_of
from fxc.dialects.attributes.values import int_attr
from fxc.dialects.context import FxcContext
from fxc.dialects.torch_ops import torch_op
from fxc.dialects.torch_ops.base import TorchOp
from fxc.dialects.torch_ops.constant import ConstantOp
from fxc.dialects.torch_ops.effects import is_size_query
from fxc.passes.analysis.matching import integer
from fxc.passes.analysis.shape_queries import answer
from fxc.passes.analysis.statistics import count
from fxc.passes.fusion.fuse.candidates import Groups, is_chunk, is_pointwise
from fxc.passes.rewriting.functions import copy_op


class ChunkMotion:
    """Moves chunks up as far as possible.

    A chunk moves where a single slice of ``groups`` reads all pieces, and only it and size queries read the chunked tensor.
    Each operand is chunked, or passed whole where it is broadcast along the chunked dimension, because it broadcasts to each
    piece in the same way. PyTorch infers the types of the new ops. Nothing moves where a user of the pieces would have another
    result type, strides included.
    """

    def __init__(self, context: FxcContext, groups: Groups) -> None:
        self.context, self.groups = context, groups

    def run(self) -> bool:
        """Move chunks. Returns whether one moved, which makes ``groups`` out of date."""
        pending = [op for op in self.groups.ops if is_chunk(op) and self.groups.reader(op) is not None]
        moved = False
        while pending:
            chunk = pending.pop()
            assert isinstance(chunk, TorchOp)
            if (producer := self.producer(chunk)) is None or (above := self.moved(chunk, producer)) is None:
                continue
            moved = True
            pending += above
        return moved

    def producer(self, chunk: TorchOp) -> TorchOp | None:
        """The pointwise op of ``groups`` whose result only ``chunk`` and size queries read, else None."""
        owner = chunk.operands[0].owner
        if not isinstance(owner, TorchOp) or owner not in self.groups.index or not is_pointwise(owner):
            return None
        readers = {chunk, *size_queries(owner.results[0])}
        return owner if all(use.operation in readers for use in owner.results[0].uses) else None

    def moved(self, chunk: TorchOp, producer: TorchOp) -> list[TorchOp] | None:
        """The chunks of the operands of ``producer``, which replace ``chunk`` and ``producer``; None where nothing moves."""
        cut = _cut_operands(chunk, producer)
        if not cut:
            return None
        try:
            chunks = {value: self.chunk_of(value, chunk, producer) for value in cut}
            clones = [
                copy_op(producer, {value: op.results[i] for value, op in chunks.items()}) for i in range(len(chunk.results))
            ]
            self.set_type(clones)
            fits = self.preserves_types(chunk, clones)
        except VerifyException:
            fits, chunks, clones = False, {}, []
        if not fits or (size_queries(producer.results[0]) and not answer_queries(producer)):
            for op in [*clones, *chunks.values()]:
                op.erase()
            return None
        Rewriter.insert_op(list(chunks.values()), InsertPoint.before(chunk))
        for old, clone in zip(chunk.results, clones, strict=True):
            if old.first_use is None:
                clone.erase()
                continue
            Rewriter.insert_op(clone, InsertPoint.before(chunk))
            clone.results[0]._name = old._name
            old.replace_all_uses_with(clone.results[0])
        Rewriter.erase_op(chunk)
        Rewriter.erase_op(producer)
        count("chunks moved")
        return list(chunks.values())

    def chunk_of(self, value: SSAValue, chunk: TorchOp, producer: TorchOp) -> TorchOp:
        dim = _dim(chunk) - len(dims_of(producer.results[0]))
        bound = {**chunk.bound(), "self": value, "dim": int_attr(dim % len(dims_of(value)))}
        new = chunk.rebuilt(bound)
        types = self.context.semantics.infer(new)
        if len(types) != len(new.results):
            raise VerifyException("another number of pieces")
        for result, type in zip(new.results, types, strict=True):
            result._type = type
            result._name = None
        return new

    def set_type(self, clones: Sequence[Operation]) -> None:
        [type] = self.context.semantics.infer(clones[0])
        for clone in clones:
            clone.results[0]._type = type

    def preserves_types(self, chunk: TorchOp, clones: Sequence[Operation]) -> bool:
        """Whether the pieces have their former types except for strides, and all their users have their former result types."""
        pieces: dict[SSAValue, SSAValue] = {old: clone.results[0] for old, clone in zip(chunk.results, clones, strict=True)}
        if any(_facts(old.type) != _facts(new.type) for old, new in pieces.items()):
            return False
        for user in {use.operation for result in chunk.results for use in result.uses}:
            copy = copy_op(user, {**pieces})
            types = self.context.semantics.infer(copy)
            copy.erase()
            if tuple(types) != tuple(user.result_types):
                return False
        return True


def _cut_operands(chunk: TorchOp, producer: TorchOp) -> list[SSAValue]:
    """The operands that vary along the chunked dimension; none where that is unknown for one."""
    dim, cut = _dim(chunk) - len(dims_of(producer.results[0])), list[SSAValue]()
    whole = dims_of(producer.results[0])[dim]
    for value in dict.fromkeys(producer.operands):
        if len(dims_of(value)) < -dim or dims_of(value)[dim] == 1:
            continue
        if dims_of(value)[dim] != whole or whole == "":
            return []
        cut.append(value)
    return cut


def _dim(chunk: TorchOp) -> int:
    dim = chunk.argument("dim")
    known = 0 if dim is None else integer(dim)
    return (known or 0) % max(len(dims_of(chunk.operands[0])), 1)


def _facts(type: Attribute) -> tuple[object, ...]:
    assert is_tensor(type)
    return type.element_type, sizes(type)


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
    type = tensor_of(op.results[0])
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
    place = dim % len(known) - len(known) + len(tensor_of(source).get_shape())
    return torch_op("aten.sym_size.int").build_call([source, int_attr(place)], {}, [type])


def _source(op: Operation, dim: int) -> SSAValue | None:
    """The first operand that certainly has the size of the result along ``dim``, which is negative."""
    return next((value for value in op.operands if _has_size(op, value, dim)), None)


def _has_size(op: Operation, value: SSAValue, dim: int) -> bool:
    """Whether ``value`` certainly has the size of the result along ``dim``, by its type or because all others have size 1."""
    result = tensor_of(op.results[0])
    if not is_tensor(value.type) or len(value.type.get_shape()) < -dim:
        return False
    if (size := sizes(value.type)[dim]) != "" and size == sizes(result)[dim]:
        return True
    others = {other for other in op.operands if other is not value and is_tensor(other.type)}
    shapes = [sizes(other.type) for other in others if is_tensor(other.type)]
    return size == "" and all(len(shape) < -dim or shape[dim] == 1 for shape in shapes)
