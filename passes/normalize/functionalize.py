"""Replace mutation by values, using PyTorch's functionalization.

Assumes  the torch level: every operand and result is typed, no ``fx`` call is left.
Ensures  no operation reads memory that another one wrote: in-place operators are functional ones, also through views
         and in branches, and the statistics that batch norm updates are a result. A written argument is an extra result
         in front, marked ``fx.mutates = <index of the argument>``, which the exporter copies back.
Leaves   functions without mutation; the order of random operators; which outputs share memory. Fails on host programs.
Cost     a PyTorch trace of each function that mutates, with its calls inlined; none where all writes are of memory that
         nothing shares, or copies into arguments at the end.

Before:
  func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    %y = torch.aten.view.default(%x, [2, 2]) : (tensor<4xf32>) -> tensor<2x2xf32>
    %z = torch.aten.add_.Tensor(%y, 1) : (tensor<2x2xf32>) -> tensor<2x2xf32>
    %w = torch.aten.neg.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
    func.return %w : tensor<4xf32>
  }

After:
  func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32> {fx.mutates = 0 : i64}, tensor<4xf32>) {
    %view = torch.aten.view.default(%x, [2, 2]) : (tensor<4xf32>) -> tensor<2x2xf32>
    %add = torch.aten.add.Tensor(%view, 1) : (tensor<2x2xf32>) -> tensor<2x2xf32>
    %view_1 = torch.aten.view.default(%add, [4]) : (tensor<2x2xf32>) -> tensor<4xf32>
    %neg = torch.aten.neg.default(%view_1) : (tensor<4xf32>) -> tensor<4xf32>
    func.return %view_1, %neg : tensor<4xf32>, tensor<4xf32>
  }
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, FunctionType, ModuleOp
from xdsl.dialects.func import CallOp, FuncOp
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.traits import IsTerminator
from xdsl.utils.exceptions import VerifyException

from fxc.dialects.attributes.values import Tree, int_attr, leaves
from fxc.dialects.autodiff import FORWARD_RESULTS
from fxc.dialects.base.effects import aliases, is_random, may_retain, reshapes, writes
from fxc.dialects.context import FxcContext
from fxc.dialects.fx import OutputOp
from fxc.dialects.text.diagnostics import OpPassFailedException
from fxc.dialects.torch_ops import HigherOrderOp, TorchOp, torch_op
from fxc.dialects.torch_ops.base import leaves_memory_alone
from fxc.dialects.torch_ops.effects import WITHOUT_DERIVATIVE
from fxc.passes.analysis.call_graph import is_private
from fxc.passes.analysis.matching import same_type
from fxc.passes.analysis.written_arguments import COPY, MUTATES, is_view_of


@dataclass(frozen=True)
class FunctionalizePass(ModulePass):
    """Replace mutation by values, using PyTorch's functionalization.

    Where an output is a view of a written argument, the argument is written here, at the end, and the output is a view of it.
    """

    name = "functionalize"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        assert isinstance(ctx, FxcContext)
        if not any(isinstance(inner, TorchOp) and writes(inner) for inner in op.walk()):
            return
        for function in [f for f in op.ops if isinstance(f, FuncOp) and not f.is_declaration]:
            if is_private(function):
                continue
            if any(inner.name.startswith("plan.") for inner in function.walk()):
                message = f"@{function.sym_name.data} is a host program; run {self.name} before convert-to-plan"
                raise OpPassFailedException(message, function)
            replace_local_writes(ctx, function)
            if not return_last_writes(function):
                if FORWARD_RESULTS in function.attributes:
                    message = "a joint graph writes only whole arguments, once each, at its end"
                    raise OpPassFailedException(f"{message}; tracing it again would lose the marks of its operations", function)
                ctx.semantics.functionalize(op, function)


def replace_local_writes(ctx: FxcContext, function: FuncOp) -> None:
    """Replace ``aten.relu_`` and similar operators in ``function`` by ``aten.relu``, where nothing shares the written memory.

    The written value must be computed by an op of the same block. Later readers read the new value.
    """
    place = {op: number for number, op in enumerate(function.body.block.ops)}
    for op, number in list(place.items()):
        if isinstance(op, TorchOp) and (functional := _functional(ctx, op)) is not None:
            place[functional] = number
            Rewriter.insert_op(functional, InsertPoint.before(op))
            [old], [new] = op.results, functional.results
            new._name = old._name
            later = [use for use in op.operands[0].uses if place[use.operation] > number]
            for use in later:
                use.operation.operands[use.index] = new
            old.replace_all_uses_with(new)
            Rewriter.erase_op(op)


def _functional(ctx: FxcContext, op: TorchOp) -> TorchOp | None:
    """The functional form of ``op``; None where there is no equivalent one, or where the write is visible elsewhere."""
    namespace, name, overload = op.operator.split(".")
    if namespace != "aten" or not name.endswith("_") or name.endswith("__") or len(op.results) != 1:
        return None
    if is_random(op) or reshapes(op) or writes(op) != [op.operands[0]] or not _is_local(op.operands[0], op):
        return None
    functional = f"{namespace}.{name.removesuffix('_')}.{overload}"
    if functional in WITHOUT_DERIVATIVE:
        return None
    try:
        twin = torch_op(functional)
        if not leaves_memory_alone(twin) or twin.SCHEMA.positional != op.SCHEMA.positional:
            return None
        new = twin.build_call(*twin.divide(op.bound()), op.result_types, location=op.location)
        same = list(ctx.semantics.infer(new)) == [op.operands[0].type]
    except (ValueError, VerifyException):
        return None
    if not same:  # the in-place operator casts back, or preserves another layout
        new.erase()
        return None
    return new


def _is_local(value: SSAValue, writer: TorchOp) -> bool:
    """Whether an op before ``writer`` allocated the memory of ``value``, and only ``writer`` may share or retain it."""
    owner = value.owner
    if isinstance(owner, Block) or owner.parent is not writer.parent or may_retain(owner):
        return False
    if any(owner.results[index] is value for index, _ in aliases(owner)):
        return False
    users = {use.operation for use in value.uses} - {writer}
    return all(user.parent is writer.parent and not _shares(user, value) for user in users)


def _shares(op: Operation, value: SSAValue) -> bool:
    """Whether ``op`` may retain ``value``, or returns a value that may share its memory without writing it."""
    if op.has_trait(IsTerminator):
        return False
    return may_retain(op) or (any(source is value for _, source in aliases(op)) and writes(op) != [value])


def return_last_writes(function: FuncOp) -> bool:
    """Replace the final copies into arguments by results in front, marked ``fx.mutates``.

    A copy of a value that ``function`` also returns stays, because the result must not be the argument. A written argument that
    is a result becomes its new value, of which there is then no other argument. Attributes of the other copies become those of
    the results. Returns whether these copies were all writes of ``function``; otherwise nothing is changed.
    """
    last = function.body.block.last_op
    copies = _last_copies(function.body.block)
    if not copies or not isinstance(last, OutputOp) or not _are_all_writes(function, copies):
        return False
    targets: list[SSAValue] = [copy.operands[0] for copy in copies]
    sources: list[SSAValue] = [copy.operands[1] for copy in copies]
    others = [value for value in last.operands if value not in targets]
    if any(is_view_of(value, set(targets)) for value in (*sources, *others)):
        return False
    results = last.trees()[0][0]
    if type(results) not in (tuple, list) or any(not _is_leaf(tree) for tree in results):
        return False
    stay = [
        source in last.operands or (target in last.operands and sources.count(source) > 1)
        for target, source in zip(targets, sources, strict=True)
    ]
    values = [copy.results[0] if stays else source for copy, source, stays in zip(copies, sources, stay, strict=True)]
    attributes = [{} if stays else dict(copy.attributes) for copy, stays in zip(copies, stay, strict=True)]
    for copy, stays in zip(copies, stay, strict=True):
        if not stays:
            Rewriter.erase_op(copy)
    new = dict[Tree, SSAValue](zip(targets, values, strict=True))
    _return(function, last, values, [new.get(result, result) for result in results], targets, attributes)
    return True


def _last_copies(block: Block) -> list[Operation]:
    """The copies of whole tensors into arguments that no later op but the terminator reads, in order; none if one does."""
    found = dict[SSAValue, Operation]()
    for op in block.ops:
        read = (value for inner in op.walk() for value in inner.operands)
        if found and not op.has_trait(IsTerminator) and any(is_view_of(value, found) for value in read):
            return []
        if isinstance(op, TorchOp) and op.operator == COPY and len(op.operands) == 2 and not op.results[0].uses:
            target, source = op.operands
            if isinstance(target, BlockArgument) and same_type(target, source):
                found[target] = op
    return list(found.values())


def _are_all_writes(function: FuncOp, copies: list[Operation]) -> bool:
    known = set(copies)
    others = (op for op in function.walk() if op not in known)
    return not any(isinstance(op, CallOp) or (isinstance(op, (TorchOp, HigherOrderOp)) and writes(op) != []) for op in others)


def _is_leaf(tree: Tree) -> bool:
    return not isinstance(tree, (tuple, list, dict, slice))


def _return(
    function: FuncOp,
    last: OutputOp,
    new: list[SSAValue],
    results: tuple[Tree, ...] | list[Tree],
    targets: list[SSAValue],
    attributes: list[dict[str, Attribute]],
) -> None:
    """Return ``new``, the new values of ``targets`` with more ``attributes`` of these results, in front of ``results``."""
    listed = (*new, *results)
    Rewriter.insert_op(
        OutputOp.build_call([listed], {}, [], attributes=last.attributes, location=last.location), InsertPoint.before(last)
    )
    Rewriter.erase_op(last)
    values = [leaf for leaf in leaves(listed) if isinstance(leaf, SSAValue)]
    indices = [int_attr(target.index) for target in targets if isinstance(target, BlockArgument)]
    marks = [DictionaryAttr({MUTATES: index, **kept}) for index, kept in zip(indices, attributes, strict=True)]
    rest = list(function.res_attrs) if function.res_attrs is not None else [DictionaryAttr({})] * (len(values) - len(marks))
    function.properties["function_type"] = FunctionType.from_lists(function.function_type.inputs.data, [v.type for v in values])
    function.properties["res_attrs"] = ArrayAttr([*marks, *rest])
