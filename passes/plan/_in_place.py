"""Whether a kernel may write one tensor over another that it reads."""

from __future__ import annotations

from collections.abc import Hashable

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, UnitAttr
from xdsl.ir import Block, BlockArgument, Operation, Use

from fxc.dialects.plan import IN_PLACE
from fxc.dialects.tile import KernelOp, LoadOp, ScheduleAttr, StoreOp

SCHEDULE = "schedule"


def writes_over(kernel: KernelOp, read: BlockArgument, written: BlockArgument) -> bool:
    """Whether ``kernel`` computes the same where ``read`` and ``written`` point to one tensor.

    An elementwise kernel stores each element once. Where each load of ``read`` stands before a store to ``written`` at the same
    address, in the same block, no element is loaded after it was stored, by this program or another.
    """
    schedule = kernel.attributes.get(SCHEDULE)
    if not isinstance(schedule, ScheduleAttr) or schedule.kind.data != "elementwise" or kernel.access(written) != "write":
        return False
    loads, stores = [use.operation for use in read.uses], [use.operation for use in written.uses]
    if not all(isinstance(op, LoadOp) for op in loads) or not all(map(_is_store, written.uses)):
        return False
    places = {_address(store): store for store in stores}
    if len(places) != len(stores):
        return False
    return all((store := places.get(_address(load))) is not None and load.is_before_in_block(store) for load in loads)


def _is_store(use: Use) -> bool:
    return isinstance(use.operation, StoreOp) and use.operation.pointer is use.operation.operands[use.index]


def _address(op: Operation) -> tuple[Block | None, Hashable]:
    """Where ``op`` loads or stores, in its block: two with one address touch the same elements each time they run."""
    assert isinstance(op, (LoadOp, StoreOp))
    block = op.result.type if isinstance(op, LoadOp) else op.value.type
    return op.parent, (op.base, tuple(op.strides()), op.mask, block)


def allow(kernel: KernelOp, *arguments: BlockArgument) -> None:
    """Let ``kernel`` say that these pointers may be one."""
    attributes = [dict(kernel.argument_attributes(argument)) for argument in kernel.body.block.args]
    for argument in arguments:
        attributes[argument.index][IN_PLACE] = UnitAttr()
    kernel.properties["arg_attrs"] = ArrayAttr([DictionaryAttr(each) for each in attributes])
