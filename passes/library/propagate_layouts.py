"""Propagate channels_last from operations that need it, and remove the copies between layouts.

Assumes  copies to channels_last and back around the operations that need it, as ``pack-weights`` makes them. With
         ``convolutions``, the target in ``fxc.target``.
Ensures  an operation on images that exist in channels_last computes in channels_last, if PyTorch's result has that
         layout; copies of images that are in channels_last already, and unused copies, are gone. A function whose
         number of copies would grow is unchanged, but for one copy by convolution that begins with ``convolutions``.
Leaves   types of arguments and results of the entry; what the caller could tell from the image; free sizes of images;
         operations that read an argument in another layout, views, regions, convolutions that oneDNN computes wrongly
         in channels_last, and what PyTorch rejects in it: they read the contiguous copy.
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

from collections.abc import Sequence, Set
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.utils.exceptions import VerifyException

from fxc.dialects.attributes import types
from fxc.dialects.attributes.types import dims_of, is_tensor
from fxc.dialects.base.effects import aliases, is_pure
from fxc.dialects.context import FxcContext
from fxc.dialects.target import target_of
from fxc.dialects.text.syntax import copy_names
from fxc.dialects.torch_ops.base import TorchOp
from fxc.passes.analysis.joint_graph import mark_recomputed
from fxc.passes.analysis.memory import Memory, writes_anything
from fxc.passes.analysis.statistics import count
from fxc.passes.library.channels_last import CONVOLUTIONS, gain_in_channels_last, images_of, is_able
from fxc.passes.library.layouts import is_image, is_only_channels_last, laid_out
from fxc.passes.operators.record import Role
from fxc.passes.operators.table import role_of

CLONE, VIEW = "torch.aten.clone.default", "torch.aten.as_strided.default"


@dataclass(frozen=True)
class PropagateLayoutsPass(ModulePass):
    """``convolutions``: also begin at each convolution that gains on ``fxc.target``, and at its gradients."""

    name = "propagate-layouts"

    convolutions: bool = False

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        assert isinstance(ctx, FxcContext)
        target = target_of(op) if self.convolutions else None
        for function in [inner for inner in op.walk() if isinstance(inner, FuncOp)]:
            if len(function.body.blocks) != 1 or writes_anything(function):
                continue
            before, gains = _copies(function.body.block), gain_in_channels_last(function, target)
            if not (gains if self.convolutions else before):
                continue
            changed = function.clone()
            pairs = zip(function.walk(), changed.walk(), strict=True)
            _Propagation(ctx, changed, {new for old, new in pairs if old in gains}).run()
            after = _copies(changed.body.block)
            if after <= before + len(gains):
                _Propagation(ctx, function, gains).run()
                count("layout copies removed", max(before - after, 0))
                count("layout copies left", after)
                count("convolutions in channels_last", len(gains))


def _copies(block: Block) -> int:
    """The number of copies between layouts."""
    return sum(_is_copy(op) for op in block.ops)


def _is_copy(op: Operation) -> bool:
    return op.name == CLONE and op.operands[0].type != op.results[0].type


class _Propagation:
    """Propagates channels_last through a block. ``last``: a value -> the same image so laid out; ``gains``: where to begin."""

    def __init__(self, context: FxcContext, function: FuncOp, gains: Set[Operation]) -> None:
        self.context, self.block, self.memory = context, function.body.block, Memory(function)
        self.last, self.gains = dict[SSAValue, SSAValue](), gains

    def run(self) -> None:
        for op in list(self.block.ops):
            if isinstance(op, TorchOp):
                self.visit(op)
        for op in reversed(list(self.block.ops)):
            if op.name in (CLONE, VIEW) and not op.results[0].uses:
                Rewriter.erase_op(op)

    def visit(self, op: TorchOp) -> None:
        if _is_copy(op):
            self.copy(op)
        elif op.results and not op.regions and is_pure(op) and not any(aliases(op)) and (images := self.images(op)):
            self.change(op, images)

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

    def images(self, op: TorchOp) -> Sequence[SSAValue]:
        """The images that ``op`` is to read in channels_last, though it does not; none if it stays as it is.

        Those that an operation computed are copied where ``op`` reads another of their sizes that exists in channels_last.
        """
        images = [value for value in op.operands if is_image(value.type)]
        others = [value for value in images if not is_only_channels_last(value.type)]
        if op in self.gains:
            return [value for value in images_of(op) if value in others]
        found = [value for value in others if value in self.last]
        if not found or (role_of(op) in CONVOLUTIONS and not is_able(op)):
            return ()
        sizes = [dims_of(value) for value in images if value in self.last or value not in others]
        rest = [value for value in others if value not in found and not _is_small(value, images)]
        fits = all(isinstance(value.owner, Operation) and dims_of(value) in sizes for value in rest)
        return [*found, *rest] if fits else ()

    def change(self, op: TorchOp, images: Sequence[SSAValue]) -> None:
        """Let ``op`` read ``images`` in channels_last, if its result types stay or change to channels_last."""
        for value in images:
            if value not in self.last:
                made = self.laid_out(value, op, last=True)
                self.last[value] = made.results[0]
                if isinstance(value, BlockArgument) and op in self.gains and role_of(op) is Role.CONVOLUTION:
                    mark_recomputed(made)  # the caller holds the image: saving the copy would add to the peak
        new = op.rebuilt(op.bound())
        for index, value in enumerate(new.operands):
            new.operands[index] = self.last[value] if value in images else value
        found = self.types(new)
        gains = op not in self.gains or found != list(op.result_types)
        if found is not None and gains and all(map(_is_same_or_last, op.result_types, found)):
            self.replace(op, new, found)
        else:
            new.erase()  # otherwise it remains a user of its operands

    def types(self, op: TorchOp) -> list[Attribute] | None:
        """The result types that PyTorch infers for ``op``; None if PyTorch rejects it."""
        try:
            return list(self.context.semantics.infer(op))
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
            [back] = self.laid_out(result, op, last=False).results
            old.replace_all_uses_with(back)
            self.memory.replaced(old, back)
            self.last[back] = result
        Rewriter.erase_op(op)

    def laid_out(self, image: SSAValue, before: Operation, *, last: bool) -> Operation:
        made = laid_out(self.context, image, before, last=last)
        self.memory.add(made)
        return made


def _is_small(value: SSAValue, images: Sequence[SSAValue]) -> bool:
    """Whether ``value`` is broadcast to the size of another image, like a bias."""
    return all(size == 1 for size in dims_of(value)[2:]) and any(dims_of(image) != dims_of(value) for image in images)


def _is_same_or_last(old: Attribute, new: Attribute) -> bool:
    """Whether ``new`` equals ``old``, or is the channels_last variant of a contiguous ``old``."""
    if old == new:
        return True
    if not is_tensor(old) or not is_tensor(new) or not is_only_channels_last(new):
        return False
    same = old.get_shape() == new.get_shape() and old.element_type == new.element_type
    return same and types.strides(old) is None
