"""Moving a chunk above a pointwise op: the pieces of op(x, y) are op of the pieces of x and y."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.utils.exceptions import VerifyException

from fxc.dialects.attributes.types import is_tensor, sizes
from fxc.dialects.attributes.values import int_attr
from fxc.dialects.context import FxcContext
from fxc.dialects.torch_ops.base import TorchOp
from fxc.passes.analysis.matching import integer
from fxc.passes.analysis.statistics import count
from fxc.passes.fusion.fuse.candidates import Groups, is_chunk, is_pointwise
from fxc.passes.fusion.fuse.size_queries import answer_queries, size_queries
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
        dim = _dim(chunk) - len(_sizes(producer.results[0]))
        bound = {**chunk.bound(), "self": value, "dim": int_attr(dim % len(_sizes(value)))}
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
    dim, cut = _dim(chunk) - len(_sizes(producer.results[0])), list[SSAValue]()
    whole = _sizes(producer.results[0])[dim]
    for value in dict.fromkeys(producer.operands):
        if not is_tensor(value.type) or len(_sizes(value)) < -dim or _sizes(value)[dim] == 1:
            continue
        if _sizes(value)[dim] != whole or whole == "":
            return []
        cut.append(value)
    return cut


def _dim(chunk: TorchOp) -> int:
    dim = chunk.argument("dim")
    known = 0 if dim is None else integer(dim)
    return (known or 0) % max(len(_sizes(chunk.operands[0])), 1)


def _sizes(value: SSAValue) -> Sequence[int | str]:
    assert is_tensor(value.type)
    return sizes(value.type)


def _facts(type: Attribute) -> tuple[object, ...]:
    assert is_tensor(type)
    return type.element_type, sizes(type)
