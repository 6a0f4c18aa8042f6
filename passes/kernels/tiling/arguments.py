"""The arguments of a kernel: a pointer for each tensor that it reads or writes."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IntegerAttr, StringAttr, TensorType, i64
from xdsl.ir import Attribute, Block, Region, SSAValue

from fxc.dialects.attributes.size_polynomials import names_in
from fxc.dialects.attributes.types import tensor_of
from fxc.dialects.tile import KernelOp, PtrType, ReturnOp
from fxc.dialects.tile.kernel import ACCESS, ELEMENTS
from fxc.passes.kernels.tiling.dynamic import extent


def element_of(value: SSAValue) -> Attribute:
    """The type of the elements of a tensor."""
    return tensor_of(value).element_type


def access(type: TensorType, kind: str) -> dict[str, Attribute]:
    """The attributes of an argument that is read or written, with its number of elements where that is known."""
    if names_in(type):
        return {ACCESS: StringAttr(kind)}
    return {ACCESS: StringAttr(kind), ELEMENTS: IntegerAttr(extent(type), i64)}


def kernel_block(values: Sequence[SSAValue]) -> tuple[Block, dict[SSAValue, SSAValue]]:
    """The empty block of a kernel, and the pointer of each of ``values``."""
    block = Block(arg_types=[PtrType(element_of(value)) for value in values])
    for argument, value in zip(block.args, values, strict=True):
        argument.name_hint = value.name_hint
    return block, dict(zip(values, block.args, strict=True))


def finished_kernel(
    name: str, grid: Sequence[int], block: Block, inputs: Sequence[SSAValue], outputs: Sequence[SSAValue]
) -> KernelOp:
    """The kernel with the body ``block``, made by ``kernel_block`` of ``inputs`` and then ``outputs``."""
    block.add_op(ReturnOp.create())
    accesses = [access(tensor_of(value), "read") for value in inputs] + [access(tensor_of(value), "write") for value in outputs]
    return KernelOp.of(name, grid, Region(block), accesses)
