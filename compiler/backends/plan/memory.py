"""What a host program must know of each value: whether it is a tensor or an address, and whether its type is certain."""

from __future__ import annotations

from collections.abc import Callable

import torch
from xdsl.dialects.builtin import TensorType
from xdsl.dialects.func import CallOp
from xdsl.ir import Block, Operation, SSAValue

from fxc.backends.frozen import is_once
from fxc.dialects import types
from fxc.dialects.effects import aliases
from fxc.dialects.fx import GetAttrOp
from fxc.dialects.plan import AllocOp, FreeOp, LaunchOp
from fxc.dialects.tile.kernel import INIT
from fxc.dialects.torch_ops import TorchOp
from fxc.runtime.arena import Place
from fxc.runtime.native_kernel import TensorSpec
from fxc.semantics.values import torch_dtype


def is_address(buffer: SSAValue, is_native: Callable[[LaunchOp], bool]) -> bool:
    """Whether ``buffer`` lies in an arena and nothing but kernels of machine code use it: no tensor is made for it."""
    alloc = buffer.owner
    if not isinstance(alloc, AllocOp) or alloc.arena is None:
        return False
    return all(_takes_address(use.operation, buffer, is_native) for use in buffer.uses)


def _takes_address(op: Operation, buffer: SSAValue, is_native: Callable[[LaunchOp], bool]) -> bool:
    if isinstance(op, LaunchOp):
        return is_native(op) and buffer not in initialised(op)
    return isinstance(op, FreeOp)


def initialised(op: LaunchOp) -> dict[SSAValue, float]:
    """The buffers that are filled with a number before the kernel of ``op`` runs."""
    kernel = op.kernel()
    assert kernel is not None
    marks = [kernel.argument_attributes(argument).get(INIT) for argument in kernel.outputs()]
    return {out: mark.value.data for out, mark in zip(op.outs, marks, strict=True) if mark is not None}  # type: ignore[attr-defined]


def is_certain(value: SSAValue) -> bool:
    """Whether ``value`` surely is as its type says: what was allocated, what was checked before, and views of these.

    Of what an operator of PyTorch returns, the type is what its fake implementation promised.
    """
    owner = value.owner
    if isinstance(owner, (Block, AllocOp, GetAttrOp)) or (isinstance(owner, CallOp) and is_once(owner)):
        return True
    if not isinstance(owner, TorchOp) or not isinstance(value.type, TensorType):
        return False
    sources = [source for index, source in aliases(owner) if owner.results[index] is value]
    declared = [returned.alias for returned in owner.SCHEMA.returns]
    return len(sources) == 1 and len(declared) == 1 and bool(declared[0]) and is_certain(sources[0])


def spec_of(type: TensorType, name: str) -> TensorSpec | None:
    """A static tensor of ``type``; None where a size or stride is not known."""
    dims = types.sizes(type)
    steps = types.strides(type)
    if not all(isinstance(dim, int) for dim in (*dims, *(steps or ()))) or types.layout(type) != "strided":
        return None
    sizes = tuple(int(dim) for dim in dims)
    strides = tuple(int(step) for step in steps) if steps is not None else types.contiguous_strides(sizes)
    return TensorSpec(name, torch_dtype(type.element_type), sizes, strides, device=torch.device(types.device(type)))


def place_of(alloc: AllocOp, *, is_address: bool) -> Place:
    """Where a buffer lies in its arena."""
    assert isinstance(alloc.buffer.type, TensorType)
    spec = spec_of(alloc.buffer.type, "")
    assert spec is not None  # the op says so
    return Place(alloc.start(), spec.dtype, spec.known_sizes(), spec.known_strides(), is_address)


def tensor_text(type: TensorType) -> str:
    """``float32 (64, 128)``, as comments say it."""
    steps = types.strides(type)
    text = f"{types.dtype_name(type.element_type)} {tuple(types.sizes(type))}"
    return text if steps is None else f"{text} of strides {tuple(steps)}"
