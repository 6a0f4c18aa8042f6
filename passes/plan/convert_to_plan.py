"""Make memory explicit: allocations, destinations of results, write-backs and releases.

Assumes  the torch level with kernels (``lower-kernels``), functionalized, in functions of one block.
Ensures  each ``tile.launch`` is a ``plan.launch`` into a ``plan.alloc`` per result; operators with an out variant write
         into one, too. New values of arguments are written back by ``aten.copy_`` at the end. ``plan.free`` follows the
         last use of each name. With ``static``, only if the entry reads only tensors of static sizes and strides.
Leaves   calls that allocate their results: views, random and higher-order operators, data-dependent sizes, groups
         without a kernel; operators that may update their operand. With a remark, functions that autograd sees or
         differentiates.
Cost     two walks, and one lookup in PyTorch for each kind of call that is not a kernel.

Before:
    func.func @main(%x: tensor<4x8xf32>, %y: tensor<8x8xf32>) -> (tensor<4x8xf32> {fx.mutates = 0 : i64}, tensor<4xf32>) {
      %m = torch.aten.mm.default(%x, %y) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
      %s = torch.aten.sum.dim_IntList(%m, [1]) : (tensor<4x8xf32>) -> tensor<4xf32>
      fx.output((%m, %s)) : (tensor<4x8xf32>, tensor<4xf32>) -> ()
    }
After:
    func.func @main(%x: tensor<4x8xf32>, %y: tensor<8x8xf32>) -> tensor<4xf32> {
      %m = plan.alloc : tensor<4x8xf32>
      %0 = torch.aten.mm.out(%x, %y, out = %m) : (tensor<4x8xf32>, tensor<8x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
      %s = plan.alloc : tensor<4xf32>
      %1 = torch.aten.sum.IntList_out(%m, [1], out = %s) : (tensor<4x8xf32>, tensor<4xf32>) -> tensor<4xf32>
      %2 = torch.aten.copy_.default(%x, %m) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
      plan.free %m : tensor<4x8xf32>
      fx.output((%s,)) : (tensor<4xf32>) -> ()
    }
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.traits import IsTerminator

from fxc.dialects import plan
from fxc.dialects.attributes.types import is_mutable
from fxc.dialects.autodiff import SubgraphOp
from fxc.dialects.base.effects import aliases
from fxc.dialects.context import FxcContext
from fxc.dialects.entry import find_entry
from fxc.dialects.plan import FreeOp, is_boxed
from fxc.dialects.plan.lifetimes import reads
from fxc.dialects.semantics import Semantics
from fxc.dialects.text.syntax import copy_names
from fxc.dialects.tile import LaunchOp
from fxc.dialects.torch_ops import TorchOp, op_class
from fxc.dialects.torch_ops.constant import ConstantOp
from fxc.passes.analysis.memory import Memory
from fxc.passes.analysis.requires_grad import needs_gradient
from fxc.passes.analysis.statistics import count
from fxc.passes.analysis.written_arguments import insert_write_backs, new_values
from fxc.passes.plan.buffers import update_of
from fxc.passes.rewriting.outlining import is_static
from fxc.passes.rewriting.remarks import remark


@dataclass(frozen=True)
class ConvertToPlanPass(ModulePass):
    """The order of other operations is unchanged. A value that a write-back would change is copied before it. Arguments
    of functions marked ``plan.boxed`` are released after their last use, too. Sizes may be dynamic, except with
    ``static``, which is for functions that autograd runs. An operator with an in-place variant whose result leaves the
    function still allocates its result, so that a later pass can let it update an operand.
    """

    name = "convert-to-plan"

    static: bool = False

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        assert isinstance(ctx, FxcContext)
        if self.static and (entry := find_entry(op)) is not None and not is_static(entry):
            remark(self.name, "it reads what is no tensor of known sizes", entry)
            count("functions left")
            return
        differentiated = _differentiated(op)
        for function in [inner for inner in op.ops if isinstance(inner, FuncOp)]:
            if function.is_declaration or any(inner.name.startswith("plan.") for inner in function.walk()):
                continue
            reason = why_not(function, differentiated)
            if reason is None:
                _convert(function, ctx.semantics)
                count("functions converted")
            else:
                remark(self.name, reason, function)
                count("functions left")


def _differentiated(module: ModuleOp) -> set[str]:
    """The functions that autograd runs, forward or backward."""
    found = set[str]()
    for op in module.walk():
        if isinstance(op, SubgraphOp):
            found.add(op.callee.root_reference.data)
            found.update(attribute.df.root_reference.data for attribute in [op.gradient] if attribute is not None)
    return found


def why_not(function: FuncOp, differentiated: set[str]) -> str | None:
    """The reason why ``function`` is not converted; None if it is."""
    if function.sym_name.data in differentiated:
        return "autograd runs it"
    if function.body.first_block is not function.body.last_block:
        return "it has several blocks"
    if any(op.name.startswith("autodiff.") or needs_gradient(op) for op in function.walk()):
        return "it needs gradients"
    if any(op.name.startswith("dist.") for op in function.walk()):
        return "it has operations of dist, which convert-dist-to-torch converts"
    return None


def _convert(function: FuncOp, semantics: Semantics) -> None:
    memory, written = Memory(function), set(new_values(function))
    for op in list(function.body.block.ops):
        if isinstance(op, LaunchOp):
            outs = _allocate(op)
            launch = plan.LaunchOp.of(op.callee.root_reference.data, op.operands, outs)
            launch.attributes |= op.attributes
            launch.location = op.location
            Rewriter.replace_op(op, launch, outs, safe_erase=False)
            count("kernel launches")
        elif isinstance(op, TorchOp) and not _may_update(op, memory, written):
            _into_buffers(op, semantics)
    insert_write_backs(function)
    # Insert a plan.free after the last use of each value that block creates or owns and does not return.
    for op, values in last_uses(function.body.block).items():
        Rewriter.insert_op(FreeOp.of(values), InsertPoint.after(op))


def _may_update(op: TorchOp, memory: Memory, written: set[SSAValue]) -> bool:
    """Whether a later pass may let ``op`` update an operand, because the memory of its result outlives the call.

    That of a new value of an argument does not, since it is copied to the argument.
    """
    leaves = (memory.outlives(value) or (memory.reaches_output(value) and value not in written) for value in op.results)
    return update_of(op) is not None and any(leaves)


def _allocate(op: Operation) -> list[SSAValue]:
    """Allocate a buffer for each result of ``op``, before ``op``."""
    allocations = [plan.AllocOp.of(result.type, op.operands) for result in op.results]
    for allocation in allocations:
        allocation.location = op.location
    buffers: list[SSAValue] = [allocation.buffer for allocation in allocations]
    copy_names(op.results, buffers)
    Rewriter.insert_op(allocations, InsertPoint.before(op))
    return buffers


def _into_buffers(op: TorchOp, semantics: Semantics) -> None:
    """Let ``op`` write into buffers if it has an ``out`` overload."""
    variant = semantics.out_variant(op) if op.results else None
    if variant is None:
        count("calls that allocate")
        return
    cls = op_class(f"torch.{variant.operator}")
    assert cls is not None and issubclass(cls, TorchOp)
    outs = _allocate(op)
    arguments = cls.divide({**op.bound(), **dict(zip(variant.outs, outs, strict=True))})
    call = cls.build_call(*arguments, op.result_types, attributes=op.attributes, location=op.location)
    Rewriter.replace_op(op, call, outs, safe_erase=False)
    for result in call.results:
        result._name = None  # the buffers have the names
    count("calls into buffers")


# releases after the last uses


def last_uses(block: Block) -> dict[Operation, list[SSAValue]]:
    """Op -> the values of ``block`` that are dead after it: those with their last use there, and its unused results."""
    found, seen = dict[Operation, list[SSAValue]](), set[SSAValue]()
    for op in reversed(block.ops):
        ends = op.has_trait(IsTerminator)
        for value in (*reads(op), *_unused(op)):
            if value in seen:
                continue
            seen.add(value)
            if not ends and (
                _is_made_in(block, value) or (value.owner is block and is_boxed(block) and is_mutable(value.type))
            ):
                found.setdefault(op, []).append(value)
    return found


def _unused(op: Operation) -> Iterator[SSAValue]:
    """The unused results of an op with several results, since each is bound to a name; not those that alias operands."""
    if len(op.results) > 1:
        shared = {index for index, _ in aliases(op)}
        yield from (result for result in op.results if result.first_use is None and result.index not in shared)


def _is_made_in(block: Block, value: SSAValue) -> bool:
    owner = value.owner
    return (
        isinstance(owner, Operation) and owner.parent is block and not isinstance(owner, ConstantOp) and is_mutable(value.type)
    )
