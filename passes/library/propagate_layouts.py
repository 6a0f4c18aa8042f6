"""Propagate channels_last from operations that need it, and remove the copies between layouts.

Assumes  copies to channels_last and back around the operations that need it, as ``pack-weights`` makes them.
Ensures  an operation on images that exist in channels_last computes in channels_last, if PyTorch's result has that
         layout; copies of images that are in channels_last already, and unused copies, are gone. A function whose
         number of copies would grow is unchanged.
Leaves   types of arguments and of results of the entry; copies that the caller could tell from the image; operations
         that read images of both layouts, views, operations with regions, and those that PyTorch rejects in the other
         layout: they read the contiguous copy.
Cost     two walks; PyTorch infers the type of each operation that reads such an image.

Before:
    func.func @main(%x: tensor<1x2x3x3xf32, #torch.meta<strides = [18, 1, 6, 2]>>) {
      %c = torch.aten.clone.default(%x, memory_format = torch.contiguous_format)
        : (tensor<1x2x3x3xf32, #torch.meta<strides = [18, 1, 6, 2]>>) -> tensor<1x2x3x3xf32>
      %r = torch.aten.relu.default(%c) : (tensor<1x2x3x3xf32>) -> tensor<1x2x3x3xf32>
      %l = torch.aten.clone.default(%r, memory_format = torch.channels_last)
        : (tensor<1x2x3x3xf32>) -> tensor<1x2x3x3xf32, #torch.meta<strides = [18, 1, 6, 2]>>
      fx.output(%l) : (tensor<1x2x3x3xf32, #torch.meta<strides = [18, 1, 6, 2]>>) -> ()
    }
After:
    func.func @main(%x: tensor<1x2x3x3xf32, #torch.meta<strides = [18, 1, 6, 2]>>) {
      %r = torch.aten.relu.default(%x)
        : (tensor<1x2x3x3xf32, #torch.meta<strides = [18, 1, 6, 2]>>)
          -> tensor<1x2x3x3xf32, #torch.meta<strides = [18, 1, 6, 2]>>
      fx.output(%r) : (tensor<1x2x3x3xf32, #torch.meta<strides = [18, 1, 6, 2]>>) -> ()
    }
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.utils.exceptions import VerifyException

from fxc.dialects.attributes import types
from fxc.dialects.attributes.types import is_tensor
from fxc.dialects.attributes.values import enum_attr
from fxc.dialects.base.effects import aliases, is_pure
from fxc.dialects.context import FxcContext
from fxc.dialects.text.syntax import copy_names
from fxc.dialects.torch_ops.base import TorchOp
from fxc.passes.analysis.memory import Memory, writes_anything
from fxc.passes.analysis.statistics import count
from fxc.passes.library.layouts import is_image, is_only_channels_last
from fxc.passes.rewriting.insertion import insert_call

CLONE = "torch.aten.clone.default"


@dataclass(frozen=True)
class PropagateLayoutsPass(ModulePass):
    name = "propagate-layouts"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        assert isinstance(ctx, FxcContext)
        for function in [inner for inner in op.walk() if isinstance(inner, FuncOp)]:
            if len(function.body.blocks) != 1 or writes_anything(function):
                continue
            before = _copies(function.body.block)
            if not before:
                continue
            changed = function.clone()
            _Propagation(ctx, changed).run()
            after = _copies(changed.body.block)
            if after <= before:
                _Propagation(ctx, function).run()
                count("layout copies removed", before - after)
                count("layout copies left", after)


def _copies(block: Block) -> int:
    """The number of copies between layouts."""
    return sum(_is_copy(op) for op in block.ops)


def _is_copy(op: Operation) -> bool:
    return op.name == CLONE and op.operands[0].type != op.results[0].type


class _Propagation:
    """Propagates channels_last through a block. ``last``: a value -> the same image in channels_last."""

    def __init__(self, context: FxcContext, function: FuncOp) -> None:
        self.context, self.block, self.memory = context, function.body.block, Memory(function)
        self.last = dict[SSAValue, SSAValue]()

    def run(self) -> None:
        for op in list(self.block.ops):
            if isinstance(op, TorchOp):
                self.visit(op)
        for op in reversed(list(self.block.ops)):
            if op.name == CLONE and not op.results[0].uses:
                Rewriter.erase_op(op)

    def visit(self, op: TorchOp) -> None:
        if _is_copy(op):
            self.copy(op)
        elif op.results and not op.regions and is_pure(op) and not any(aliases(op)) and self.may_change(op):
            self.change(op)

    def copy(self, op: TorchOp) -> None:
        """Visit a copy of an image from or to channels_last."""
        [source], [result] = op.operands, op.results
        if is_only_channels_last(source.type):
            self.last[result] = source
        elif is_only_channels_last(result.type):
            there = self.last.setdefault(source, result)
            if there is not result and self.memory.can_replace(result, there, same_memory=False):
                result.replace_all_uses_with(there)
                self.memory.replaced(result, there)

    def may_change(self, op: TorchOp) -> bool:
        """Whether all images that ``op`` reads exist in channels_last, and ``op`` reads at least one in another layout."""
        images = [value for value in op.operands if is_image(value.type)]
        return any(value in self.last for value in images) and all(
            value in self.last or is_only_channels_last(value.type) or _is_small(value, images) for value in images
        )

    def change(self, op: TorchOp) -> None:
        """Let ``op`` read images in channels_last, if its result types stay or change to channels_last."""
        new = op.rebuilt(op.bound())
        for index, value in enumerate(new.operands):
            new.operands[index] = self.last.get(value, value)
        found = self.types(new)
        if found is not None and all(map(_is_same_or_last, op.result_types, found)):
            self.replace(op, new, found)
        else:
            new.erase()  # otherwise it remains a user of its operands

    def types(self, op: TorchOp) -> Sequence[Attribute] | None:
        """The result types that PyTorch infers for ``op``; None if PyTorch rejects it."""
        try:
            return self.context.semantics.infer(op)
        except VerifyException:
            return None

    def replace(self, op: TorchOp, new: TorchOp, found: Sequence[Attribute]) -> None:
        Rewriter.insert_op(new, InsertPoint.before(op))
        copy_names(op.results, new.results)
        for old, result, type in zip(op.results, new.results, found, strict=True):
            result = Rewriter.replace_value_with_new_type(result, type)
            if type == old.type:
                old.replace_all_uses_with(result)
                self.memory.replaced(old, result)
                continue
            back = insert_call(
                self.context, "aten.clone.default", [result], op, {"memory_format": enum_attr("contiguous_format")}
            )
            old.replace_all_uses_with(back)
            self.memory.replaced(old, back)
            self.last[back] = result
        Rewriter.erase_op(op)


def _is_small(value: SSAValue, images: Sequence[SSAValue]) -> bool:
    """Whether ``value`` is broadcast to the size of another image, like a bias."""
    assert is_tensor(value.type)
    return all(size == 1 for size in value.type.get_shape()[2:]) and any(
        is_tensor(image.type) and image.type.get_shape() != value.type.get_shape() for image in images
    )


def _is_same_or_last(old: Attribute, new: Attribute) -> bool:
    """Whether ``new`` equals ``old``, or is the channels_last variant of a contiguous ``old``."""
    if old == new:
        return True
    if not is_tensor(old) or not is_tensor(new) or not is_only_channels_last(new):
        return False
    same = old.get_shape() == new.get_shape() and old.element_type == new.element_type
    return same and types.strides(old) is None
