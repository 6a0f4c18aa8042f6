"""Classify the values of a host program: tensor or address, and whether the type is guaranteed."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from xdsl.dialects.builtin import TensorType
from xdsl.dialects.func import CallOp, FuncOp
from xdsl.ir import Block, SSAValue

from fxc.bridge.values import torch_dtype
from fxc.dialects.attributes import types
from fxc.dialects.attributes.types import is_tensor
from fxc.dialects.base.effects import aliases
from fxc.dialects.fx import GetAttrOp
from fxc.dialects.plan import AllocOp, FreeOp, LaunchOp, ViewOp
from fxc.dialects.tile.kernel import INIT
from fxc.dialects.torch_ops import TorchOp
from fxc.export.plan_time_values import is_once
from fxc.passes.analysis.memory import may_be_lazy
from fxc.runtime.arena import ArenaPart, Place
from fxc.runtime.native_kernel import TensorSpec

IsNative = Callable[[LaunchOp], bool]
"""Whether the kernel of a launch is native and takes addresses."""


def alloc_in_arena(value: SSAValue) -> AllocOp | None:
    """The allocation in an arena that ``value`` is, or is a ``plan.view`` of; None if its memory is not in an arena."""
    while isinstance(value.owner, ViewOp):
        value = value.owner.source
    return value.owner if isinstance(value.owner, AllocOp) and value.owner.arena is not None else None


def is_address(value: SSAValue, is_native: IsNative) -> bool:
    """Whether ``value`` is an address: it lies in an arena, and only native kernels use its buffer, so it needs no tensor."""
    alloc = alloc_in_arena(value)
    return alloc is not None and is_tensor(value.type) and _takes_address(alloc.buffer, is_native)


def _takes_address(name: SSAValue, is_native: IsNative) -> bool:
    for op in (use.operation for use in name.uses):
        if isinstance(op, LaunchOp):
            by_address = is_native(op) and name not in initialised(op)
        else:
            by_address = isinstance(op, FreeOp) or (isinstance(op, ViewOp) and _takes_address(op.result, is_native))
        if not by_address:
            return False
    return True


def contents(arena: SSAValue, functions: Mapping[str, FuncOp], is_native: IsNative) -> dict[SSAValue, Place | ArenaPart]:
    """The locations in an arena of its buffers and their views, including the parts that called functions receive."""
    block = arena.owner if isinstance(arena.owner, Block) else arena.owner.parent
    assert block is not None
    found = dict[SSAValue, Place | ArenaPart]()
    for op in block.ops:
        if isinstance(op, (AllocOp, ViewOp)):
            [value] = op.results
            alloc = alloc_in_arena(value)
            if alloc is not None and alloc.arena is arena:
                found[value] = _place(value, alloc, functions, is_native)
    return found


def _place(value: SSAValue, alloc: AllocOp, functions: Mapping[str, FuncOp], is_native: IsNative) -> Place | ArenaPart:
    if is_tensor(value.type):
        spec = spec_of(value.type, "")
        assert spec is not None  # by the op's verifier
        return Place(alloc.start(), spec.dtype, spec.known_sizes(), spec.known_strides(), is_address(value, is_native))
    inside = dict[SSAValue, Place | ArenaPart]()
    for use in value.uses:
        if isinstance(use.operation, CallOp):
            callee = functions[use.operation.callee.string_value()]
            inside = contents(callee.args[use.index], functions, is_native)
    return ArenaPart(alloc.start(), alloc.needed(), tuple(dict.fromkeys(inside.values())))


def initialised(op: LaunchOp) -> dict[SSAValue, float]:
    """The buffers that must be filled with a number before the kernel of ``op`` runs, and the numbers."""
    kernel = op.kernel()
    assert kernel is not None
    marks = [kernel.argument_attributes(argument).get(INIT) for argument in kernel.outputs()]
    return {out: mark.value.data for out, mark in zip(op.outs, marks, strict=True) if mark is not None}  # type: ignore[attr-defined]


def is_certain(value: SSAValue) -> bool:
    """Whether ``value`` is guaranteed to match its type: it was allocated or checked before, or is a view of such a value.

    The result of a PyTorch operator is not guaranteed: its type comes from the fake implementation.
    """
    owner = value.owner
    if isinstance(owner, ViewOp):
        return is_certain(owner.source)
    if isinstance(owner, (Block, AllocOp, GetAttrOp)) or (isinstance(owner, CallOp) and is_once(owner)):
        return True
    if not isinstance(owner, TorchOp) or not is_tensor(value.type) or may_be_lazy(value, given=False):
        return False
    sources = [source for index, source in aliases(owner) if owner.results[index] is value]
    declared = [returned.alias for returned in owner.SCHEMA.returns]
    return len(sources) == 1 and len(declared) == 1 and bool(declared[0]) and is_certain(sources[0])


def spec_of(type: TensorType, name: str) -> TensorSpec | None:
    """The specification of a static tensor of ``type``; None if a size or stride is dynamic."""
    dims = types.sizes(type)
    steps = types.strides(type)
    if not all(isinstance(dim, int) for dim in (*dims, *(steps or ()))) or types.layout(type) != "strided":
        return None
    sizes = tuple(int(dim) for dim in dims)
    strides = tuple(int(step) for step in steps) if steps is not None else types.contiguous_strides(sizes)
    return TensorSpec(name, torch_dtype(type.element_type), sizes, strides, device=torch.device(types.device(type)))


def tensor_text(type: TensorType) -> str:
    """``type`` as text for comments: ``float32 (64, 128)``."""
    steps = types.strides(type)
    text = f"{types.dtype_name(type.element_type)} {tuple(types.sizes(type))}"
    return text if steps is None else f"{text} of strides {tuple(steps)}"
