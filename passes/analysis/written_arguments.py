"""Which arguments of a function its ops may write, and which values share memory with them.

A function that returns new values of its arguments becomes one that writes its arguments, by write-backs.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, FunctionType, IntegerAttr, ModuleOp
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import Block, BlockArgument, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.traits import IsTerminator

from fxc.dialects.attributes.types import device, dtype_name, sizes, strides, tensor_of, tensor_type
from fxc.dialects.attributes.values import Tree, int_attr, isa, leaves, map_tree
from fxc.dialects.base.effects import aliases, is_view, writes
from fxc.dialects.fx import OutputOp
from fxc.dialects.plan.types import is_dense
from fxc.dialects.torch_ops import TorchOp, torch_op
from fxc.dialects.torch_ops.base import counts_in_storage
from fxc.dialects.torch_ops.effects import COPIES_AT_OFFSET, VIEWS_FROM_START
from fxc.passes.analysis.statistics import count


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


COPY = "aten.copy_.default"

MUTATES = "fx.mutates"


def new_values(function: FuncOp) -> dict[SSAValue, BlockArgument]:
    """Value -> the argument whose new value it is."""
    marks, values = _marks(function), _returned(function)
    return {value: function.args[mark] for value, mark in zip(values, marks, strict=True) if mark is not None}


def insert_write_backs(function: FuncOp) -> None:
    """Write the new values of arguments back at the end of ``function``, and remove them from its results.

    A result that is a new value is replaced by the argument, and no write is inserted where the value is already in the
    argument. A result or another new value that may share memory with a written argument is copied before the writes.
    """
    marks = _marks(function)
    if all(mark is None for mark in marks):
        return
    last = function.body.block.last_op
    assert last is not None
    values = _returned(function)
    pairs = [(function.args[mark], value) for value, mark in zip(values, marks, strict=True) if mark is not None]
    arguments = {value: argument for argument, value in reversed(pairs)}
    pairs = [(argument, value) for argument, value in pairs if not is_written_back(argument, value)]
    written = {argument for argument, _ in pairs}
    copies, known = {value: value for value in values}, dict[SSAValue, SSAValue]()
    for value in dict.fromkeys(values):
        kept = value not in arguments
        if (kept or len(written) > 1) and is_view_of(value, written - ({arguments[value]} if not kept else set())):
            copies[value] = _copied(value, known, InsertPoint.before(last))
    for argument, value in pairs:
        if value is not argument:
            call = torch_op(COPY).build_call([argument, copies[value]], {}, [argument.type])
            Rewriter.insert_op(call, InsertPoint.before(last))
            count("arguments written back")
    _drop(function, last, marks, {value: arguments.get(value, copy) for value, copy in copies.items()})


def _copied(value: SSAValue, known: dict[SSAValue, SSAValue], before: InsertPoint) -> SSAValue:
    """A copy of ``value``; a view of another operation's result is a view of its copy, as others may be. ``known``: copies."""
    if value not in known:
        op = value.owner
        if isinstance(op, TorchOp) and is_view(op) and isinstance(op.operands[0].owner, TorchOp):
            view = op.clone({op.operands[0]: _copied(op.operands[0], known, before)})
            Rewriter.insert_op(view, before)
            known.update(zip(op.results, view.results, strict=True))
        else:
            Rewriter.insert_op(ops := copy_of(value), before)
            known[value] = ops[-1].results[0]
    return known[value]


def is_written_back(argument: SSAValue, value: SSAValue) -> bool:
    """Whether ``value`` is the result of a copy into ``argument``."""
    return isinstance(value.owner, TorchOp) and value.owner.operator == COPY and value.owner.operands[0] is argument


def _marks(function: FuncOp) -> list[int | None]:
    """For each result the index of the argument whose new value it is, or None."""
    attributes = function.res_attrs
    if attributes is None:
        return [None] * len(_returned(function))
    found = [each.data.get(MUTATES) for each in attributes.data]
    return [mark.value.data if isinstance(mark, IntegerAttr) else None for mark in found]


def _returned(function: FuncOp) -> list[SSAValue]:
    """The values that ``function`` returns, one for each result."""
    last = function.body.block.last_op
    if isinstance(last, OutputOp):
        return [leaf for leaf in leaves(last.trees()[0][0]) if isinstance(leaf, SSAValue)]
    return list(last.operands) if last is not None else []


def copy_of(value: SSAValue) -> list[TorchOp]:
    """Operations, not yet in a block, the last of which returns a copy of ``value`` with the same strides.

    ``clone`` preserves the strides of dense tensors only. Other tensors may have gaps or overlapping elements: all memory from
    their first element to their last is copied.
    """
    type = tensor_of(value)
    lies = [*sizes(type), *(strides(type) or ())]
    if strides(type) is None or is_dense(type) or not all(isinstance(number, int) for number in lies):
        ops: list[TorchOp] = [torch_op("aten.clone.default").build_call([value], {}, [type])]
    else:
        numbers, rank = [int(number) for number in lies], len(sizes(type))
        shape, steps = numbers[:rank], numbers[rank:]
        length = 0 if 0 in shape else 1 + sum((size - 1) * step for size, step in zip(shape, steps, strict=True))
        flat = tensor_type(dtype_name(type.element_type), (length,), device=device(type))
        as_strided = torch_op("aten.as_strided.default")
        memory = as_strided.build_call([value, [int_attr(length)], [int_attr(1)]], {}, [flat])
        copy = torch_op("aten.clone.default").build_call([memory.results[0]], {}, [flat])
        places = [list(map(int_attr, each)) for each in (shape, steps)]
        ops = [memory, copy, as_strided.build_call([copy.results[0], *places], {}, [type])]
    ops[-1].results[0]._name = value._name
    return ops


def _drop(function: FuncOp, last: Operation, marks: list[int | None], values: Mapping[SSAValue, SSAValue]) -> None:
    """Return only the results without a mark, each replaced after ``values``."""
    if isinstance(last, OutputOp):
        kept, position = list[Tree](), 0
        for element in last.trees()[0][0]:
            mark = marks[position] if isa(element, SSAValue) else None
            position += sum(isinstance(leaf, SSAValue) for leaf in leaves(element))
            if mark is None:
                kept.append(map_tree(element, lambda leaf: values[leaf] if isinstance(leaf, SSAValue) else leaf))
        new: Operation = OutputOp.build_call([tuple(kept)], {}, [], attributes=last.attributes, location=last.location)
    else:
        kept_values = [values[value] for value, mark in zip(last.operands, marks, strict=True) if mark is None]
        new = ReturnOp(*kept_values)
    Rewriter.insert_op(new, InsertPoint.before(last))
    Rewriter.erase_op(last)
    types = [value.type for value in _returned(function)]
    if function.function_type.outputs.data:
        function.properties["function_type"] = FunctionType.from_lists(function.function_type.inputs.data, types)
    attributes = [each for each, mark in zip(function.res_attrs or (), marks, strict=True) if mark is None]
    if any(each.data for each in attributes):
        function.properties["res_attrs"] = ArrayAttr[DictionaryAttr](attributes)
    else:
        function.properties.pop("res_attrs", None)
