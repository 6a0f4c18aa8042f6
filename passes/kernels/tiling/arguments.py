"""The arguments of a kernel: a pointer for each tensor that it reads or writes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IntegerAttr, ModuleOp, StringAttr, TensorType, i64
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from fxc.dialects.attributes.size_polynomials import names_in
from fxc.dialects.attributes.types import tensor_of
from fxc.dialects.target import GpuAttr, target_of
from fxc.dialects.tile import KernelOp, LaunchOp, PtrType, ReturnOp
from fxc.dialects.tile.kernel import ACCESS, DIVISIBLE, ELEMENTS, SIZE
from fxc.passes.kernels.tiling.dynamic import extent

ALIGNMENT = 16
"""The bytes of the widest load of a GPU thread, and the divisibility that Triton needs to see that rows are aligned."""


def element_of(value: SSAValue) -> Attribute:
    """The type of the elements of a tensor."""
    return tensor_of(value).element_type


def access(type: TensorType, kind: str) -> dict[str, Attribute]:
    """The attributes of an argument that is read or written, with its number of elements where that is known."""
    if names_in(type):
        return {ACCESS: StringAttr(kind)}
    return {ACCESS: StringAttr(kind), ELEMENTS: IntegerAttr(extent(type), i64)}


@dataclass(frozen=True)
class Made:
    """A kernel, the tensors that it reads and writes, and the types of scratch tensors that it also writes."""

    kernel: KernelOp
    inputs: list[SSAValue]
    outputs: list[SSAValue]
    scratch: Sequence[TensorType] = ()


def kernel_block(values: Sequence[SSAValue]) -> tuple[Block, dict[SSAValue, SSAValue]]:
    """The empty block of a kernel, and the pointer of each of ``values``."""
    block = Block(arg_types=[PtrType(element_of(value)) for value in values])
    for argument, value in zip(block.args, values, strict=True):
        argument.name_hint = value.name_hint
    return block, dict(zip(values, block.args, strict=True))


def finished_kernel(name: str, grid: Sequence[int], block: Block, inputs: list[SSAValue], outputs: list[SSAValue]) -> Made:
    """The kernel with the body ``block``, made by ``kernel_block`` of ``inputs`` and then ``outputs``."""
    block.add_op(ReturnOp.create())
    accesses = [access(tensor_of(value), "read") for value in inputs] + [access(tensor_of(value), "write") for value in outputs]
    return Made(KernelOp.of(name, grid, Region(block), accesses), inputs, outputs)


def align(kernel: KernelOp, likely: Mapping[str, int]) -> None:
    """Mark pointers as aligned to 16 bytes, as PyTorch allocates them, and sizes that are ``likely`` multiples of 16.

    A launch on other sizes uses another variant of the kernel.
    """
    hint, listed = {DIVISIBLE: IntegerAttr(ALIGNMENT, i64)}, list[DictionaryAttr]()
    for argument in kernel.body.block.args:
        known = dict(kernel.argument_attributes(argument))
        size = known.get(SIZE)
        even = isinstance(size, StringAttr) and (number := likely.get(size.data, 1)) and number % ALIGNMENT == 0
        listed.append(DictionaryAttr(known | hint if isinstance(argument.type, PtrType) or even else known))
    kernel.arg_attrs = ArrayAttr(listed)


def replace_by_launch(module: ModuleOp, made: Made, olds: Iterable[tuple[SSAValue, SSAValue]], before: Operation) -> None:
    """Launch the kernel ``before`` an op. The first value of each pair is replaced by the result for the second one."""
    kernel = made.kernel
    launch = LaunchOp.of(kernel.sym_name.data, made.inputs, [value.type for value in made.outputs])
    launch.location = kernel.location
    Rewriter.insert_op(launch, InsertPoint.before(before))
    results = dict(zip(made.outputs, launch.results, strict=True))
    for old, value in olds:
        results[value].name_hint = old.name_hint
        old.replace_all_uses_with(results[value])
    if isinstance(target_of(module), GpuAttr):
        align(kernel, {})
    module.body.block.add_op(kernel)
