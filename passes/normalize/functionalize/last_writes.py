"""Functions that only write by copies into their arguments at the end: they return the new values instead."""

from __future__ import annotations

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, FunctionType
from xdsl.dialects.func import CallOp, FuncOp
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from fxc.dialects.attributes.values import Tree, int_attr, leaves
from fxc.dialects.base.effects import writes
from fxc.dialects.fx import OutputOp
from fxc.dialects.torch_ops import HigherOrderOp, TorchOp
from fxc.passes.analysis.matching import same_type
from fxc.passes.analysis.write_backs import COPY, MUTATES
from fxc.passes.analysis.written_arguments import is_view_of


def return_last_writes(function: FuncOp) -> bool:
    """Replace the final copies into arguments by results in front, marked ``fx.mutates``.

    A copy of a value that ``function`` also returns stays, because the result must not be the argument. Returns whether these
    copies were all writes of ``function``; otherwise nothing is changed.
    """
    last = function.body.block.last_op
    copies = _last_copies(last)
    if not copies or not isinstance(last, OutputOp) or not _are_all_writes(function, copies):
        return False
    targets: list[SSAValue] = [copy.operands[0] for copy in copies]
    sources: list[SSAValue] = [copy.operands[1] for copy in copies]
    if len(set(targets)) != len(targets) or any(is_view_of(value, set(targets)) for value in (*sources, *last.operands)):
        return False
    results = last.trees()[0][0]
    if type(results) not in (tuple, list) or any(not _is_leaf(tree) for tree in results):
        return False
    stay = [source in last.operands for source in sources]
    values = [copy.results[0] if stays else source for copy, source, stays in zip(copies, sources, stay, strict=True)]
    for copy, stays in zip(copies, stay, strict=True):
        if not stays:
            Rewriter.erase_op(copy)
    _return(function, last, values, results, targets)
    return True


def _last_copies(last: Operation | None) -> list[Operation]:
    """The copies of whole tensors into arguments directly before the terminator, in order."""
    found, op = list[Operation](), last.prev_op if last is not None else None
    while isinstance(op, TorchOp) and op.operator == COPY and len(op.operands) == 2:
        if not isinstance(op.operands[0], BlockArgument) or op.results[0].uses or not same_type(op.operands[0], op.operands[1]):
            break
        found.insert(0, op)
        op = op.prev_op
    return found


def _are_all_writes(function: FuncOp, copies: list[Operation]) -> bool:
    known = set(copies)
    others = (op for op in function.walk() if op not in known)
    return not any(isinstance(op, CallOp) or (isinstance(op, (TorchOp, HigherOrderOp)) and writes(op) != []) for op in others)


def _is_leaf(tree: Tree) -> bool:
    return not isinstance(tree, (tuple, list, dict, slice))


def _return(
    function: FuncOp, last: OutputOp, new: list[SSAValue], results: tuple[Tree, ...] | list[Tree], targets: list[SSAValue]
) -> None:
    listed = (*new, *results)
    Rewriter.insert_op(
        OutputOp.build_call([listed], {}, [], attributes=last.attributes, location=last.location), InsertPoint.before(last)
    )
    Rewriter.erase_op(last)
    values = [leaf for leaf in leaves(listed) if isinstance(leaf, SSAValue)]
    marks = [DictionaryAttr({MUTATES: int_attr(target.index)}) for target in targets if isinstance(target, BlockArgument)]
    rest = list(function.res_attrs) if function.res_attrs is not None else [DictionaryAttr({})] * (len(values) - len(marks))
    function.properties["function_type"] = FunctionType.from_lists(function.function_type.inputs.data, [v.type for v in values])
    function.properties["res_attrs"] = ArrayAttr([*marks, *rest])
