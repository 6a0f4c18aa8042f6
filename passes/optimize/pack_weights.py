"""pack-weights: convolutions and products with own weights by oneDNN and MKL, where these are measured to be faster.

Assumes:    ``freeze-parameters`` afterwards, which packs once: without it weights are packed in every call. For inference.
Guarantees: a convolution or product of a weight that is the model's own is computed with a packed one, an activation behind
            it included where that changes no bit, an image that is added to a convolution too (in bfloat16 rounded once), if
            a trial of it at these sizes takes less than ``gain`` of the time. Equal calls are tried once. A packed
            convolution takes and gives images in channels_last; copies around it keep the types of what is around, and
            ``propagate-layouts`` takes those away.
Keeps:      weights that are inputs or change; dtypes other than float32 and bfloat16; sizes that are not known; devices
            other than the CPU. All where times cannot be measured.
Cost:       a trial of a few milliseconds to a tenth of a second for each different call, kept on disk.

Before: pack-weights{gain=1.0e30}
    func.func @main(%x: tensor<1x2x4x4xf32>, %w: tensor<3x2x1x1xf32> {fx.kind = "parameter", fx.name = "w"}) {
      %y = torch.aten.conv2d.default(%x, %w) : (tensor<1x2x4x4xf32>, tensor<3x2x1x1xf32>) -> tensor<1x3x4x4xf32>
      %r = torch.aten.relu.default(%y) : (tensor<1x3x4x4xf32>) -> tensor<1x3x4x4xf32>
      fx.output(%r) : (tensor<1x3x4x4xf32>) -> ()
    }
After:
    func.func @main(%x: tensor<1x2x4x4xf32>, %w: tensor<3x2x1x1xf32> {fx.kind = "parameter", fx.name = "w"}) {
      %p = torch.mkldnn._reorder_convolution_weight.default(%w, [0, 0], [1, 1], [1, 1], 1, [1, 2, 4, 4])
        : (tensor<3x2x1x1xf32>) -> !fx.value
      %l = torch.aten.clone.default(%x, memory_format = torch.channels_last)
        : (tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32, #torch.meta<strides = [32, 1, 8, 2]>>
      %c = torch.mkldnn._convolution_pointwise.default(%l, %p, none, [0, 0], [1, 1], [1, 1], 1, "relu", [], "")
        : (tensor<1x2x4x4xf32, #torch.meta<strides = [32, 1, 8, 2]>>, !fx.value)
        -> tensor<1x3x4x4xf32, #torch.meta<strides = [48, 1, 12, 3]>>
      %r = torch.aten.clone.default(%c, memory_format = torch.contiguous_format)
        : (tensor<1x3x4x4xf32, #torch.meta<strides = [48, 1, 12, 3]>>) -> tensor<1x3x4x4xf32>
      fx.output(%r) : (tensor<1x3x4x4xf32>) -> ()
    }
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, FunctionType, ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, BlockArgument, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter
from xdsl.utils.exceptions import VerifyException

from fxc.dialects.context import FxcContext
from fxc.dialects.entry import find_entry
from fxc.dialects.torch_ops.base import TorchOp
from fxc.dialects.values import enum_attr, str_attr
from fxc.passes._insertion import insert_call
from fxc.passes._memory import writes_anything
from fxc.passes._own_values import own_ops
from fxc.passes._packings import Packed, Way, computed_behind, ways, weight_of
from fxc.passes._statistics import count
from fxc.passes._structure import Structures
from fxc.passes.autodiff._functions import copy_op
from fxc.passes.optimize.freeze_parameters import FreezeParametersPass


@dataclass(frozen=True)
class PackWeightsPass(ModulePass):
    name = "pack-weights"

    gain: float = 0.9

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        assert isinstance(ctx, FxcContext)
        entry = find_entry(op)
        if entry is None or len(entry.body.blocks) != 1 or writes_anything(entry):
            return
        own, best, structures = own_ops(entry)[1], dict[Hashable, Way | None](), Structures()
        for call in list(entry.body.block.ops):
            if isinstance(call, TorchOp) and ways(call) and weight_of(call) in own:
                key = tuple(structures.key(op) for op in (call, *computed_behind(call)))
                if key not in best:
                    best[key] = _fastest(ctx, call, own, self.gain)
                if (way := best[key]) is not None and (packed := way(ctx, call)) is not None:
                    _replace(ctx, call, packed)
                    count("weights packed")


def _replace(ctx: FxcContext, call: TorchOp, packed: Packed) -> None:
    """Let what is packed stand for the call, in the layout of the call's result."""
    old, value = packed.replaced.results[0], packed.value
    if value.type != old.type:
        formats = {"memory_format": enum_attr("contiguous_format")}
        value = insert_call(ctx, "aten.clone.default", [value], packed.replaced, formats)
    value._name = old._name
    old.replace_all_uses_with(value)
    _erase(call, packed)


def _erase(call: TorchOp, packed: Packed) -> None:
    """Take away what ``packed`` stands for: ``call`` and what is behind it."""
    replaced = [call, *computed_behind(call)]
    for op in reversed(replaced[: replaced.index(packed.replaced) + 1]):
        Rewriter.erase_op(op)


def _fastest(ctx: FxcContext, call: TorchOp, own: set[SSAValue], gain: float) -> Way | None:
    """The way that takes less than ``gain`` of the time that the call itself takes, and least; None where none does."""
    trials = {way: trial for way in ways(call) if (trial := _packed_trial(ctx, call, own, way)) is not None}
    times = ctx.semantics.times([_trial(call, own), *trials.values()]) if trials else None
    if times is None:
        return None
    time, best = min(zip(times[1:], trials, strict=True), key=lambda pair: pair[0])
    return best if time < gain * times[0] else None


def _trial(call: TorchOp, own: set[SSAValue]) -> ModuleOp:
    """A program of nothing but ``call`` and what may be computed with it."""
    alone = [call, *computed_behind(call)]
    inside = {op.results[0] for op in alone}
    operands = [value for value in dict.fromkeys(value for op in alone for value in op.operands) if value not in inside]
    block = Block(arg_types=[value.type for value in operands])
    copies: dict[SSAValue, SSAValue] = dict(zip(operands, block.args, strict=True))
    block.add_ops([copy_op(op, copies) for op in alone])
    result = copies[alone[-1].results[0]]
    block.add_op(ReturnOp(result))
    kinds = ["parameter" if value in own else "input" for value in operands]
    marks = [DictionaryAttr({"fx.kind": str_attr(kind), "fx.name": str_attr(f"x{i}")}) for i, kind in enumerate(kinds)]
    types = [value.type for value in operands], [result.type]
    return ModuleOp([FuncOp("main", types, Region(block), arg_attrs=ArrayAttr(marks))])


def _packed_trial(ctx: FxcContext, call: TorchOp, own: set[SSAValue], way: Way) -> ModuleOp | None:
    """The same in a way of packed weights, of inputs and with results that lie as the way wants them."""
    module = _trial(call, own)
    [main] = module.ops
    assert isinstance(main, FuncOp)
    copy = main.body.block.first_op
    assert isinstance(copy, TorchOp)
    try:
        packed = way(ctx, copy)
    except VerifyException:  # PyTorch refuses it
        return None
    if packed is None:
        return None
    packed.replaced.results[0].replace_all_uses_with(packed.value)
    _erase(copy, packed)
    for op in list(main.body.block.ops):
        if op.name == "torch.aten.clone.default" and isinstance(argument := op.operands[0], BlockArgument):
            argument = Rewriter.replace_value_with_new_type(argument, op.results[0].type)
            op.results[0].replace_all_uses_with(argument)
            Rewriter.erase_op(op)
    block = main.body.block
    assert isinstance(block.last_op, ReturnOp)
    main.function_type = FunctionType.from_lists(block.arg_types, block.last_op.operand_types)
    FreezeParametersPass().apply(ctx, module)
    return module
