"""Which arguments of a function its ops may write, and which values share memory with them."""

from __future__ import annotations

from collections.abc import Container, Iterator

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import CallOp, FuncOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.traits import IsTerminator

from fxc.dialects.base.effects import aliases, writes
from fxc.dialects.torch_ops.base import TorchOp, counts_in_storage
from fxc.dialects.torch_ops.effects import COPIES_AT_OFFSET, VIEWS_FROM_START


def written_arguments(function: FuncOp, *, or_returned: bool = True) -> set[SSAValue]:
    """The arguments whose memory an op of ``function`` may write, also through views.

    An op with unknown effects may write all its operands, or those that its regions write, where these are their arguments.
    ``or_returned``: also the arguments that ``function`` returns, which its caller may write.
    """
    return _written(function.body.block, or_returned) & set(function.args)


def _written(block: Block, or_returned: bool) -> set[SSAValue]:
    sources, found = dict[SSAValue, set[SSAValue]](), set[SSAValue]()
    for op in block.ops:
        changed = [] if op.has_trait(IsTerminator) and not or_returned else writes(op)
        if changed is None and op.regions and all(len(region.block.args) == len(op.operands) for region in op.regions):
            operands = dict[SSAValue, SSAValue]()
            for region in op.regions:
                operands.update(zip(region.block.args, op.operands, strict=True))
            changed = [operands.get(value, value) for region in op.regions for value in _written(region.block, False)]
        for value in op.operands if changed is None else changed:
            found |= sources.get(value, {value})
        for index, value in aliases(op):
            sources.setdefault(op.results[index], set()).update(sources.get(value, {value}))
    return found


def placed_arguments(module: ModuleOp, function: FuncOp) -> set[SSAValue]:
    """The values that must begin at the start of their storage: an op reads the storage offset of a view of them, or may.

    Among arguments only those that are written, since the offset of others is that of the caller's tensor; and all values of
    which an op reads it in a copy with the same offset (``COPIES_AT_OFFSET``). The second may be views that ``function`` makes.
    """
    if not any(map(_counts, module.walk())):
        return set()
    sources, copied = dict[SSAValue, set[SSAValue]](), dict[SSAValue, set[SSAValue]]()
    read, retained = set[SSAValue](), set[SSAValue]()
    for op in function.body.block.ops:
        if isinstance(op, CallOp) or any(map(_counts, op.walk())):
            for value in op.operands:
                read |= sources.get(value, {value})
                retained |= copied.get(value, set())
        for index, value in aliases(op):
            sources.setdefault(op.results[index], set()).update(sources.get(value, {value}))
            copied.setdefault(op.results[index], set()).update(copied.get(value, set()))
        if isinstance(op, TorchOp) and op.operator in COPIES_AT_OFFSET:
            copied[op.results[0]] = copied.get(op.operands[0], set()) | _starts(op.operands[0])
    return (read & written_arguments(function, or_returned=False)) | retained


def _starts(value: SSAValue) -> set[SSAValue]:
    """The argument that begins where ``value`` does, or the view that may begin later than its base; none for new memory."""
    while isinstance(op := value.owner, Operation):
        bases = {base for index, base in aliases(op) if op.results[index] is value}
        if not bases:
            return set()
        if len(bases) > 1 or not (isinstance(op, TorchOp) and op.operator in VIEWS_FROM_START):
            break
        [value] = bases
    return {value}


def _counts(op: Operation) -> bool:
    return isinstance(op, TorchOp) and counts_in_storage(op)


def bases_of(*values: SSAValue) -> Iterator[SSAValue]:
    """``values``, and those that they may be views of."""
    pending, seen = [*values], set[SSAValue]()
    while pending:
        if (value := pending.pop()) in seen:
            continue
        seen.add(value)
        yield value
        if isinstance(op := value.owner, Operation):
            pending += [source for index, source in aliases(op) if op.results[index] is value]


def is_view_of(value: SSAValue, bases: Container[SSAValue]) -> bool:
    """Whether ``value`` may be one of ``bases`` or a view of one."""
    return any(base in bases for base in bases_of(value))
