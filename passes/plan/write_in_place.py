"""Let kernels and operators overwrite operands that are dead.

Assumes  the plan level (``convert-to-plan``), after ``assign-streams`` and before ``plan-memory``.
Ensures  an elementwise kernel, or a kernel with one program per row, overwrites a dead input that fills the bytes of
         its output, if its loads and stores allow that. Operators use an in-place variant if PyTorch has one. Calls
         of a function whose result overwrites an argument pass one buffer for both.
Leaves   memory with a live view, that another stream may read, or that leaves the function.
Cost     two walks.

Before:
    tile.kernel @k(
      %x: !tile.ptr<f32> {tile.access = "read"}, %y: !tile.ptr<f32> {tile.access = "write"}
    ) attributes {
      grid = array<i64: 1>,
      schedule = #tile.schedule<"elementwise", stages = [0], lanes = 32, unroll = 1, block = 32>
    } {
      %zero = arith.constant 0 : index
      %a = tile.load %x[%zero] strides [1] : !tile.ptr<f32> -> vector<32xf32>
      %n = arith.negf %a : vector<32xf32>
      tile.store %n, %y[%zero] strides [1] : vector<32xf32>, !tile.ptr<f32>
      tile.return
    }
    func.func @main(%x: tensor<4x8xf32>, %y: tensor<8x8xf32>) -> tensor<4xf32> {
      %m = plan.alloc : tensor<4x8xf32>
      %0 = torch.aten.mm.out(%x, %y, out = %m) : (tensor<4x8xf32>, tensor<8x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
      %n = plan.alloc : tensor<4x8xf32>
      plan.launch @k(%m) outs(%n) : (tensor<4x8xf32>) outs(tensor<4x8xf32>)
      plan.free %m : tensor<4x8xf32>
      %s = torch.aten.sum.dim_IntList(%n, [1]) : (tensor<4x8xf32>) -> tensor<4xf32>
      plan.free %n : tensor<4x8xf32>
      fx.output((%s,)) : (tensor<4xf32>) -> ()
    }
After:
    tile.kernel @k(
      %x: !tile.ptr<f32> {tile.access = "read", tile.in_place}, %y: !tile.ptr<f32> {tile.access = "write", tile.in_place}
    ) attributes {
      grid = array<i64: 1>,
      schedule = #tile.schedule<"elementwise", stages = [0], lanes = 32, unroll = 1, block = 32>
    } {
      %zero = arith.constant 0 : index
      %a = tile.load %x[%zero] strides [1] : !tile.ptr<f32> -> vector<32xf32>
      %n = arith.negf %a : vector<32xf32>
      tile.store %n, %y[%zero] strides [1] : vector<32xf32>, !tile.ptr<f32>
      tile.return
    }
    func.func @main(%x: tensor<4x8xf32>, %y: tensor<8x8xf32>) -> tensor<4xf32> {
      %m = plan.alloc : tensor<4x8xf32>
      %0 = torch.aten.mm.out(%x, %y, out = %m) : (tensor<4x8xf32>, tensor<8x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
      plan.launch @k(%m) outs(%m) : (tensor<4x8xf32>) outs(tensor<4x8xf32>)
      %s = torch.aten.sum.dim_IntList(%m, [1]) : (tensor<4x8xf32>) -> tensor<4xf32>
      plan.free %m : tensor<4x8xf32>
      fx.output((%s,)) : (tensor<4xf32>) -> ()
    }
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, BlockArgument, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from fxc.dialects.plan import AllocOp, FreeOp, LaunchOp, ViewOp, fill_the_same, stream_of
from fxc.dialects.text.syntax import copy_names
from fxc.dialects.tile import KernelOp
from fxc.dialects.tile.kernel import INIT
from fxc.passes.analysis.statistics import count
from fxc.passes.plan.buffers import Buffers, ends_with, is_only_lent, is_spent, leaves, unrelease, update_dying_operands
from fxc.passes.plan.calls import Callee, callees
from fxc.passes.plan.in_place import allow, writes_over


@dataclass(frozen=True)
class WriteInPlacePass(ModulePass):
    """An input may be a buffer, a result that an operator allocated, or an argument of a private function that no caller
    uses later. If sizes differ, a ``plan.view`` is inserted. A function may overwrite an argument that it no longer reads
    when it first writes the result.
    """

    name = "write-in-place"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        known = {callee.function: callee for callee in callees(op)}
        rest = [function for function in op.ops if isinstance(function, FuncOp) and function not in known]
        for function in (*rest, *reversed(known)):  # callers first: then the dead operands of calls are known
            block = function.body.first_block
            if block is not None and block is function.body.last_block:
                overwrite_dying_inputs(block, known.get(function))
                update_dying_operands(block)


def overwrite_dying_inputs(block: Block, callee: Callee | None = None) -> None:
    """Let each launch of ``block`` overwrite an input of equal bytes that has its last use there, if the kernel allows it.

    ``callee``: the function of ``block``, if all its calls are known. An argument may be overwritten, too, if each call
    releases its operand immediately afterwards.
    """
    walk = _Walk(block, callee)
    for op in walk.buffers.walk(block):
        if isinstance(op, LaunchOp) and (kernel := op.kernel()) is not None:
            for place, out in enumerate(list(op.outs)):
                is_place = out in walk.blank or (isinstance(out.owner, AllocOp) and out.owner.arena is None)
                if (is_place and out not in walk.buffers.used) and out not in op.inputs:
                    walk.overwrite(op, kernel, place, out)
    walk.overwrite_arguments()


class _Walk:
    def __init__(self, block: Block, callee: Callee | None) -> None:
        self.buffers, self.callee = Buffers(), callee
        given = [] if callee is None else [(arg, call) for arg in block.args for call in callee.calls]
        lasting = {arg for arg, call in given if not ends_with(call.operands[arg.index], call)}
        self.lent = {arg for arg, _ in given} - lasting
        """The arguments that no caller uses after the call."""
        used = {arg for arg, call in given if not _is_first_use(call.operands[arg.index], call)}
        self.blank = {arg for arg, _ in given} - used
        """The arguments that are not written before the call."""
        self._known = dict[tuple[SSAValue, SSAValue], bool]()

    def overwrite(self, op: LaunchOp, kernel: KernelOp, place: int, out: SSAValue) -> None:
        """Let ``op`` overwrite one of its inputs by ``out``, if that is allowed."""
        for index, source in enumerate(op.inputs[: len(kernel.inputs())]):
            fits = source.type == out.type or fill_the_same(source.type, out.type)
            if fits and self._dies(source, op) and self._may(kernel, index, place) and self._merge(op, out, source):
                allow(kernel, kernel.inputs()[index], kernel.outputs()[place])
                count("launches in place")
                return

    def overwrite_arguments(self) -> None:
        """Let the callee write its results over arguments that it no longer uses, if no caller uses them later."""
        for out in sorted(self.blank, key=lambda argument: argument.index):
            users = [use.operation for use in out.uses]
            if not users or any(user.parent is not out.block for user in users):
                continue
            first = next(op for op in out.block.ops if op in users)
            spent = (arg for arg in self.lent - self.blank if arg.type == out.type and is_spent(arg, first))
            if (source := min(spent, key=lambda argument: argument.index, default=None)) and self._merge_arguments(out, source):
                count("arguments used again")

    def _may(self, kernel: KernelOp, read: int, written: int) -> bool:
        source, target = kernel.inputs()[read], kernel.outputs()[written]
        if (source, target) not in self._known:
            fresh = INIT not in kernel.argument_attributes(target)
            self._known[source, target] = fresh and writes_over(kernel, source, target)
        return self._known[source, target]

    def _dies(self, source: SSAValue, op: LaunchOp) -> bool:
        """Whether ``source`` covers its buffer, and no stream uses this buffer after ``op``."""
        if isinstance(source, BlockArgument):
            return source in self.lent and is_only_lent(source, op)
        found = self.buffers.of(source)
        if len(found) != 1:
            return not found and ends_with(source, op)
        [buffer], release = found, op.next_op
        is_whole = _base(source) is buffer.op.buffer and buffer.op.arena is None
        if not is_whole or buffer.is_seen or not self.buffers.is_over(buffer, stream_of(op)):
            return False
        released = isinstance(release, FreeOp) and source in release.values
        return released and self.buffers.is_only_name(source, buffer) and [*op.operands].count(source) == 1

    def _merge(self, op: LaunchOp, out: SSAValue, source: SSAValue) -> bool:
        """Merge both into one buffer; False if that is not possible."""
        if isinstance(out, BlockArgument) and isinstance(source, BlockArgument):
            return self._merge_arguments(out, source)
        if isinstance(out, BlockArgument) or (source.type != out.type and leaves(out)):
            return _put_before(out, source)
        if isinstance(source, BlockArgument) and leaves(out):
            return False
        made = out.owner
        assert isinstance(made, AllocOp)
        if source.type == out.type:
            unrelease(out if isinstance(source, BlockArgument) else source)
            out.replace_all_uses_with(source)
            Rewriter.erase_op(made)
            return True
        view = _view(source, out, InsertPoint.before(op))
        Rewriter.replace_op(made, [], [view], safe_erase=False)
        self.buffers.rename(source, view)
        return True

    def _merge_arguments(self, out: BlockArgument, source: BlockArgument) -> bool:
        """Let callers pass one buffer for both, if their types are equal."""
        if source.type != out.type or self.callee is None:
            return False
        for call in self.callee.calls:
            kept, made = call.operands[source.index], call.operands[out.index]
            unrelease(kept)
            made.replace_all_uses_with(kept)
            assert isinstance(made.owner, AllocOp)
            Rewriter.erase_op(made.owner)
        out.replace_all_uses_with(source)
        self.blank.discard(out)
        self.lent.discard(source)
        self.callee.drop_argument(out)
        return True


def _is_first_use(value: SSAValue, op: Operation) -> bool:
    """Whether ``value`` is a buffer whose first use is ``op``, which uses it once."""
    made = value.owner
    if not isinstance(made, AllocOp) or made.arena is not None or [*op.operands].count(value) != 1:
        return False
    users = {use.operation for use in value.uses} - {op}
    return all(each.parent is op.parent and op.is_before_in_block(each) for each in users)


def _base(value: SSAValue) -> SSAValue:
    """The value of which ``value`` is a ``plan.view``, else ``value``."""
    while isinstance(value.owner, ViewOp):
        value = value.owner.source
    return value


def _put_before(out: SSAValue, source: SSAValue) -> bool:
    """Replace the buffer of ``source`` by ``out``; False if an operator allocated it."""
    buffer = _base(source)
    made = buffer.owner
    if not isinstance(made, AllocOp):
        return False
    if isinstance(out.owner, AllocOp):
        out.owner.detach()
        Rewriter.insert_op(out.owner, InsertPoint.before(made))
    if buffer.type == out.type:
        unrelease(buffer)
        buffer.replace_all_uses_with(out)
        Rewriter.erase_op(made)
    else:
        Rewriter.replace_op(made, [], [_view(out, buffer, InsertPoint.before(made))], safe_erase=False)
    return True


def _view(source: SSAValue, other: SSAValue, at: InsertPoint) -> SSAValue:
    """A view of ``source`` with the type and the name of ``other``."""
    view = ViewOp.of(source, other.type)
    assert isinstance(other.owner, Operation)
    view.location = other.owner.location
    copy_names([other], [view.result])
    Rewriter.insert_op(view, at)
    return view.result
