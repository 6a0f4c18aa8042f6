"""Let kernels write the new value of an argument directly to the argument.

Assumes  the plan level (``convert-to-plan``), before ``plan-memory``.
Ensures  a kernel that computes into a buffer that is then copied to an argument writes the argument; neither buffer nor
         copy is left, and other readers of the buffer read the argument.
Leaves   copies if an operation reads the former value after the kernel, as a collective may that started before it, if
         the kernel reads it where it does not write, or if the buffer or a view of it is returned or saved; operators;
         other layouts and dtypes. Arguments share no memory if one is written (``functionalize``).
Cost     one walk over the operations, and over the uses of the buffers that are copied back.

Before:
    tile.kernel @k(%x: !tile.ptr<f32> {tile.access = "read"}, %y: !tile.ptr<f32> {tile.access = "write"}) attributes {
      grid = array<i64: 1>,
      schedule = #tile.schedule<"elementwise", stages = [0], lanes = 32, unroll = 1, block = 32>
    } {
      %zero = arith.constant 0 : index
      %a = tile.load %x[%zero] strides [1] : !tile.ptr<f32> -> vector<32xf32>
      %n = arith.negf %a : vector<32xf32>
      tile.store %n, %y[%zero] strides [1] : vector<32xf32>, !tile.ptr<f32>
      tile.return
    }
    func.func @main(%x: tensor<32xf32>) {
      %b = plan.alloc : tensor<32xf32>
      plan.launch @k(%x) outs(%b) : (tensor<32xf32>) outs(tensor<32xf32>)
      %0 = torch.aten.copy_.default(%x, %b) : (tensor<32xf32>, tensor<32xf32>) -> tensor<32xf32>
      plan.free %b : tensor<32xf32>
      fx.output(()) : () -> ()
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
    func.func @main(%x: tensor<32xf32>) {
      plan.launch @k(%x) outs(%x) : (tensor<32xf32>) outs(tensor<32xf32>)
      fx.output(()) : () -> ()
    }
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, BlockArgument, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter
from xdsl.traits import IsTerminator

from fxc.dialects.base.effects import aliases, may_retain, writes
from fxc.dialects.plan import AllocOp, FreeOp, LaunchOp
from fxc.dialects.tile.kernel import INIT
from fxc.dialects.torch_ops import TorchOp
from fxc.passes.analysis.matching import same_type
from fxc.passes.analysis.statistics import count
from fxc.passes.analysis.written_arguments import COPY
from fxc.passes.plan.buffers import unrelease
from fxc.passes.plan.in_place import allow, writes_over


@dataclass(frozen=True)
class WriteArgumentsPass(ModulePass):
    name = "write-arguments"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in [inner for inner in op.ops if isinstance(inner, FuncOp)]:
            block = function.body.first_block
            if block is not None and block is function.body.last_block:
                _shorten(block)


def _shorten(block: Block) -> None:
    copies = [op for op in block.ops if isinstance(op, TorchOp) and op.operator == COPY and not op.results[0].uses]
    places = {op: place for place, op in enumerate(block.ops)} if copies else {}
    for copy in copies:
        argument, buffer = copy.operands[0], copy.operands[1]
        launch = _maker(buffer)
        if launch is None or not isinstance(argument, BlockArgument) or not same_type(argument, buffer):
            continue
        if (
            _is_inside(buffer, launch, places)
            and _is_read_before(argument, launch, copy, places)
            and _writes(launch, buffer, argument)
        ):
            Rewriter.erase_op(copy)
            _replace(buffer, argument)
            count("arguments written by kernels")


def _maker(buffer: SSAValue) -> LaunchOp | None:
    """The launch that is the only writer of ``buffer``, if that is not in an arena; else None."""
    if not isinstance(buffer.owner, AllocOp) or buffer.owner.arena is not None:
        return None
    launches = [use.operation for use in buffer.uses if isinstance(use.operation, LaunchOp) and buffer in use.operation.outs]
    return launches[0] if len(launches) == 1 and buffer not in launches[0].inputs else None


def _names(value: SSAValue) -> list[SSAValue]:
    """``value`` and its views."""
    names = [value]
    for name in names:
        for use in name.uses:
            views = [use.operation.results[index] for index, source in aliases(use.operation) if source is name]
            names += [view for view in views if view not in names]
    return names


def _is_inside(buffer: SSAValue, launch: LaunchOp, places: Mapping[Operation, int]) -> bool:
    """Whether all users of ``buffer`` and its views come after ``launch`` and only read: they do not return, write or save."""
    names = _names(buffer)
    for op in {use.operation for name in names for use in name.uses} - {launch}:
        written = [] if isinstance(op, FreeOp) else writes(op)
        if op.has_trait(IsTerminator) or may_retain(op) or written is None or any(value in names for value in written):
            return False
        if places.get(op, -1) < places[launch]:
            return False
    return True


def _is_read_before(argument: SSAValue, launch: LaunchOp, copy: Operation, places: Mapping[Operation, int]) -> bool:
    """Whether no op after ``launch`` reads the former value of ``argument``, nor one before it that goes on: a collective."""
    users = {use.operation for name in _names(argument) for use in name.uses} - {launch, copy}
    others = [op for op in users if not op.has_trait(IsTerminator)]
    return all(places.get(op, len(places)) < places[launch] and not may_retain(op) for op in others)


def _writes(launch: LaunchOp, buffer: SSAValue, argument: SSAValue) -> bool:
    """Whether ``launch`` may write to ``argument`` instead of ``buffer``. If it also reads ``argument``, marks its kernel."""
    kernel = launch.kernel()
    if kernel is None or argument in launch.outs:
        return False
    written, names = kernel.outputs()[[*launch.outs].index(buffer)], _names(argument)
    read = [(value, pointer) for value, pointer in zip(launch.inputs, kernel.inputs(), strict=False) if value in names]
    if INIT in kernel.argument_attributes(written) or len(read) > 1:
        return False
    if any(value is not argument or not writes_over(kernel, pointer, written) for value, pointer in read):
        return False
    if read:
        allow(kernel, read[0][1], written)
    return True


def _replace(buffer: SSAValue, argument: SSAValue) -> None:
    """Replace ``buffer`` by ``argument`` and erase its allocation and releases."""
    unrelease(buffer)
    name = argument._name
    buffer.replace_all_uses_with(argument)
    argument._name = name
    assert isinstance(buffer.owner, AllocOp)
    Rewriter.erase_op(buffer.owner)
