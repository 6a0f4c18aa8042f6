"""Convert fusion groups to loops over elements.

Assumes  the torch level, one result per value (``lower-simple-tuples``), with groups made by ``fuse`` or by hand.
Ensures  a group whose operators have rules (``passes/operators``), or decompose into such, is ``linalg.generic`` on
         tensors with ``arith`` and ``math``: one per result of the group and per reduction. Views are affine maps, half
         precision is computed in float32 and rounded where it is stored. Result types are unchanged.
Leaves   groups with operators, dtypes, layouts, devices or sizes without a rule (see the class): their operations run
         one by one. Such groups are counted, and remarked on.
Cost     one walk; an element that several tensors depend on is written once per tensor. A PyTorch trace for each
         operator without a rule. Groups equal but for names are converted once and copied.

Before:
    func.func @main(%x: tensor<4x3xf32>, %y: tensor<3xf32>) {
      %s = fusion.group ({
        %a = torch.aten.add.Tensor(%x, %y) : (tensor<4x3xf32>, tensor<3xf32>) -> tensor<4x3xf32>
        %r = torch.aten.relu.default(%a) : (tensor<4x3xf32>) -> tensor<4x3xf32>
        fusion.yield %r : tensor<4x3xf32>
      }) -> tensor<4x3xf32>
      fx.output(%s) : (tensor<4x3xf32>) -> ()
    }
After:
    func.func @main(%x: tensor<4x3xf32>, %y: tensor<3xf32>) {
      %s = fusion.group ({
        %e = tensor.empty() : tensor<4x3xf32>
        %r = linalg.generic {
          indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0, d1)>],
          iterator_types = ["parallel", "parallel"]
        } ins(%x, %y : tensor<4x3xf32>, tensor<3xf32>) outs(%e : tensor<4x3xf32>) {
        ^bb0(%p: f32, %q: f32, %o: f32):
          %a = arith.addf %p, %q : f32
          %z = arith.constant 0.0 : f32
          %b = arith.cmpf olt, %a, %z : f32
          %m = arith.select %b, %z, %a : f32
          linalg.yield %m : f32
        } -> tensor<4x3xf32>
        fusion.yield %r : tensor<4x3xf32>
      }) {tile.source = ["a = aten.add.Tensor", "r = aten.relu.default"]} -> tensor<4x3xf32>
      fx.output(%s) : (tensor<4x3xf32>) -> ()
    }
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, Region
from xdsl.passes import ModulePass

from fxc.dialects.attributes.attribute_numbers import AttributeNumbers
from fxc.dialects.attributes.size_polynomials import names_in
from fxc.dialects.attributes.types import SYMBOLS, device, is_tensor
from fxc.dialects.base.effects import aliases
from fxc.dialects.context import FxcContext
from fxc.dialects.fusion import GroupOp, groups_of
from fxc.dialects.target import GpuAttr, TargetAttr, target_of
from fxc.dialects.tile.kernel import SOURCE
from fxc.dialects.torch_ops.base import TorchOp
from fxc.passes.analysis.size_values import facts_of
from fxc.passes.analysis.statistics import count
from fxc.passes.kernels.kernel_keys import Copier, Outline
from fxc.passes.kernels.source_lines import notes
from fxc.passes.operators.generics import Generics, check_call
from fxc.passes.operators.scalars import Uncovered
from fxc.passes.operators.table import has_formula, operator_of, replace_by_parts
from fxc.passes.rewriting.one_group import one_group
from fxc.passes.rewriting.remarks import remark


@dataclass(frozen=True)
class ConvertFusionToLinalgPass(ModulePass):
    """The form of the loops, and the groups that stay.

    A loop with a data-dependent number of steps per element is a ``tile.iterate``. Pieces of a concatenation end in
    ``tensor.concat``; where other operations in the group read it, it is a selection. An element at computed indices is a
    ``tensor.extract`` after a ``cf.assert`` of their range, which is omitted where nothing depends on the element. An element
    that may be out of range (padding, parts of a selection) is read in an ``scf.if``.

    A scatter of few elements is a selection among the updates, in their order. A scatter of many updates that are added, or of
    extremes, has loops for updates and positions, for a ``tile.accumulate`` into the previous values: half precision is added
    in float32, floats are compared as integers in their order.

    Half precision is computed, combined and saved in float32, and rounded where a tensor is stored and by conversions; a result
    of the group that other operations in it read is read as stored. Dynamic sizes are polynomials of names, in index
    expressions and in computed numbers; a position that depends on a name is a ``tensor.extract``.

    These groups stay: with an operator without a rule; elements that must exist and may be out of range for some size; sizes
    that no number and no argument states, or that are not used in sums, products and floor divisions only; tensors that are not
    dense, of unsupported dtypes, of several devices, or of a GPU without such a target; results that share memory with
    operands; unknown numbers; integer divisions by a number that may be 0; masks as indices; indices of a tensor without
    elements; the maximum of a tensor that may be empty; more than 4 updates that replace an element or are multiplied; a
    selection of more than 8 tensors.
    """

    name = "convert-fusion-to-linalg"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        assert isinstance(ctx, FxcContext)
        conversions = Conversions(ctx, target_of(op))
        for group in groups_of(op):
            if not any(isinstance(inner, TorchOp) for inner in group.body.block.ops):
                continue
            with one_group(group):
                _convert(conversions, group)


def _convert(conversions: Conversions, group: GroupOp) -> None:
    """Replace the body of ``group`` by linalg, where it can be converted."""
    try:
        body = conversions.body(group)
    except Uncovered as reason:
        count("groups left to the library")
        count(f"because of {reason}")
        remark(ConvertFusionToLinalgPass.name, f"left to the library because of {reason}", group)
    else:
        _replace(group, body)
        count("groups converted")


@dataclass
class Known:
    """The result ``made`` of the conversion of a group with ``outline``."""

    outline: Outline
    made: Block | Uncovered


class Conversions:
    """Converts groups. Groups that differ only in names get copies of the same loops."""

    def __init__(self, ctx: FxcContext, target: TargetAttr | None) -> None:
        self.ctx, self.target, self.attributes = ctx, target, AttributeNumbers()
        self.known = dict[Hashable, Known]()

    def body(self, group: GroupOp) -> Block:
        """The body of ``group`` in linalg. Uncovered where it cannot be converted."""
        if _is_symbolic(group.body.block):  # values outside of the group may state its sizes
            return _converted(self.ctx, group, self.target)
        outline = Outline(group, self.attributes)
        known = self.known.get(outline.key)
        if known is None:
            known = self.known[outline.key] = Known(outline, self._attempt(group))
        if isinstance(known.made, Uncovered):
            raise Uncovered(*known.made.args)
        return known.made if known.outline is outline else Copier(known.outline, outline).block(known.made)

    def _attempt(self, group: GroupOp) -> Block | Uncovered:
        try:
            return _converted(self.ctx, group, self.target)
        except Uncovered as reason:
            return reason


def _is_symbolic(block: Block) -> bool:
    types = {value.type for op in block.ops for value in (*op.operands, *op.results)}
    return any(names_in(type) for type in types if is_tensor(type))


def _converted(ctx: FxcContext, group: GroupOp, target: TargetAttr | None) -> Block:
    """The body of ``group`` in linalg. Uncovered where it cannot be converted."""
    if any(aliases(group)):
        raise Uncovered("results that share memory with operands")
    if not isinstance(target, GpuAttr) and any(device(v.type) != "cpu" for v in group.results if is_tensor(v.type)):
        raise Uncovered("a device that is not the target")
    block, module = group.parent_block(), group.get_toplevel_object()
    assert block is not None and isinstance(module, Operation)
    copy, symbols = group.clone(), module.attributes.get(SYMBOLS)
    ModuleOp([copy], {} if symbols is None else {SYMBOLS: symbols})  # decompositions read the hints of sizes from it
    try:
        _decompose(ctx, copy.body.block)
        return Generics(copy.body.block, block.args, facts_of(module, "min")).convert()
    finally:
        copy.drop_all_references()


def _decompose(ctx: FxcContext, block: Block) -> None:
    """Decompose operators without a rule. Uncovered where one has no decomposition."""
    pending = [op for op in block.ops if isinstance(op, TorchOp) and not has_formula(op)]
    while pending:
        op = pending.pop()
        check_call(op)
        if operator_of(op).scan or not (parts := replace_by_parts(ctx, op)):  # the decomposition of a scan has n * n ops
            raise Uncovered(op.operator)
        pending += [part for part in parts if not has_formula(part)]


def _replace(group: GroupOp, body: Block) -> None:
    """Set the body of ``group``, and record the operators that it comes from."""
    group.attributes[SOURCE] = notes(op for op in group.body.block.ops if isinstance(op, TorchOp))
    old = group.detach_region(0)
    group.add_region(Region(body))
    old.erase()
