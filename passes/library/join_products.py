"""Join products of the same rows with different weights if that is measured to be faster.

Assumes  ``pack-weights`` and ``freeze-parameters`` follow: without them the weights are concatenated in every call.
Ensures  products of the same rows, with no other product between them, are one product with concatenated weights, and
         their results are slices of its result, if that is measured to take less than ``gain`` of the time, with
         ``pack-weights`` applied to both and activations included.
Leaves   what ``pack-weights`` leaves; products of which only some have a bias; everything if no measurement is
         possible.
Cost     a measurement of a few milliseconds to a tenth of a second for each different group of products, cached on
         disk.

Before: join-products{gain=1.0e30}
    func.func @main(%x: tensor<2x4xf32>, %w: tensor<3x4xf32> {fx.kind = "parameter", fx.name = "w"},
                    %v: tensor<5x4xf32> {fx.kind = "parameter", fx.name = "v"}) {
      %p = torch.aten.linear.default(%x, %w) : (tensor<2x4xf32>, tensor<3x4xf32>) -> tensor<2x3xf32>
      %q = torch.aten.linear.default(%x, %v) : (tensor<2x4xf32>, tensor<5x4xf32>) -> tensor<2x5xf32>
      %r = torch.aten.relu.default(%p) : (tensor<2x3xf32>) -> tensor<2x3xf32>
      fx.output((%r, %q)) : (tensor<2x3xf32>, tensor<2x5xf32>) -> ()
    }
After:
    func.func @main(%x: tensor<2x4xf32>, %w: tensor<3x4xf32> {fx.kind = "parameter", fx.name = "w"},
                    %v: tensor<5x4xf32> {fx.kind = "parameter", fx.name = "v"}) {
      %0 = torch.aten.cat.default([%w, %v]) : (tensor<3x4xf32>, tensor<5x4xf32>) -> tensor<8x4xf32>
      %1 = torch.aten.linear.default(%x, %0) : (tensor<2x4xf32>, tensor<8x4xf32>) -> tensor<2x8xf32>
      %p = torch.aten.slice.Tensor(%1, 1, 0, 3) : (tensor<2x8xf32>) -> tensor<2x3xf32, #torch.meta<strides = [8, 1]>>
      %2 = torch.aten.slice.Tensor(%1, 1, 3, 8) : (tensor<2x8xf32>) -> tensor<2x5xf32, #torch.meta<strides = [8, 1]>>
      %q = torch.aten.clone.default(%2, memory_format = torch.contiguous_format)
         : (tensor<2x5xf32, #torch.meta<strides = [8, 1]>>) -> tensor<2x5xf32>
      %r = torch.aten.relu.default(%p) : (tensor<2x3xf32, #torch.meta<strides = [8, 1]>>) -> tensor<2x3xf32>
      fx.output((%r, %q)) : (tensor<2x3xf32>, tensor<2x5xf32>) -> ()
    }
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import accumulate, pairwise

from xdsl.context import Context
from xdsl.dialects.builtin import FunctionType, ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from fxc.dialects.attributes.types import tensor_of
from fxc.dialects.attributes.values import Tree, enum_attr, int_attr
from fxc.dialects.context import FxcContext
from fxc.dialects.torch_ops.base import TorchOp
from fxc.passes.analysis.constants import readable_entry
from fxc.passes.analysis.statistics import count
from fxc.passes.analysis.structural_key import Structures
from fxc.passes.library.autotuning import program_of
from fxc.passes.library.freeze_parameters import FreezeParametersPass
from fxc.passes.library.frozen_ops import frozen_ops
from fxc.passes.library.pack_weights import PackWeightsPass
from fxc.passes.library.packings import as_linear, computed_behind, is_product, product_of
from fxc.passes.library.strided_users import types_with_steps
from fxc.passes.operators.table import is_contraction
from fxc.passes.rewriting.insertion import insert_call, result_types
from fxc.passes.rewriting.matrix_products import dense_like


@dataclass(frozen=True)
class JoinProductsPass(ModulePass):
    """A user of a result reads the slice directly, if all types that PyTorch infers then are unchanged, except the strides
    of views; otherwise the slice is copied, in the measurement, too. Equal groups are measured once.
    """

    name = "join-products"

    gain: float = field(default=0.97, metadata={"minimum": 0})

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        assert isinstance(ctx, FxcContext)
        entry = readable_entry(op)
        if entry is None:
            return
        own_work, own = frozen_ops(entry)
        measurements = _Measurements(ctx, self.gain, own)
        for products in list(_groups(entry.body.block, own)):
            types = types_of_slices(ctx, products)
            if measurements.is_faster(products, types):
                _bring_forward(own_work)
                join(ctx, products, types)
                count("products joined", len(products))


def _groups(block: Block, own: Set[SSAValue]) -> Iterator[list[TorchOp]]:
    """Groups of products of the same rows with ``own`` weights, with no other product between them."""
    group, shared = list[TorchOp](), None
    for op in block.ops:
        if not isinstance(op, TorchOp) or not is_contraction(op):
            continue
        if (found := _shared(op, own)) is None or found != shared:
            if len(group) > 1:
                yield group
            group, shared = [], found
        if found is not None:
            group.append(op)
    if len(group) > 1:
        yield group


def _shared(op: TorchOp, own: Set[SSAValue]) -> Hashable | None:
    """A key that is equal for products that can be joined; None if ``op`` is not a product with weights of ``own``."""
    if not is_product(op) or (given := product_of(op)) is None:
        return None
    rows, weight, bias = given
    has_bias = isinstance(bias, SSAValue)
    return (rows, has_bias) if rows not in own and weight in own and (not has_bias or bias in own) else None


def _bring_forward(ops: Sequence[Operation]) -> None:
    """Move ``ops``, which depend on no other ops, to the start of their block, so that weights are available everywhere."""
    for op in reversed(ops):
        block = op.parent
        assert block is not None
        op.detach()
        Rewriter.insert_op(op, InsertPoint.at_start(block))


class _Measurements:
    """Measures whether products are faster when joined; each different group is measured once."""

    def __init__(self, ctx: FxcContext, gain: float, own: Set[SSAValue]) -> None:
        self._ctx, self._gain, self._own = ctx, gain, own
        self._known, self._structures = dict[Hashable, bool](), Structures()

    def is_faster(self, products: Sequence[TorchOp], types: SliceTypes) -> bool:
        ops = [op for product in products for op in (product, *computed_behind(product))]
        key = tuple(self._structures.key(op) for op in ops), tuple(op.results[0] in types for op in products)
        if key not in self._known:
            self._known[key] = self._measured(ops, products, types)
        return self._known[key]

    def _measured(self, ops: Sequence[TorchOp], products: Sequence[TorchOp], types: SliceTypes) -> bool:
        """Measure a program of ``ops`` only, and one in which ``products`` are joined, both after the later passes."""
        lasts = [[product, *computed_behind(product)][-1].results[0] for product in products]
        apart, joined = (program_of(ops, lasts, self._own) for _ in range(2))
        [main] = joined.ops
        assert isinstance(main, FuncOp)
        copies = [op for op in main.body.block.ops if isinstance(op, TorchOp) and is_product(op)]
        pairs = [(copy.results[0], op.results[0]) for copy, op in zip(copies, products, strict=True)]
        join(self._ctx, copies, {copy: types[result] for copy, result in pairs if result in types})
        end = main.body.block.last_op
        assert isinstance(end, ReturnOp)
        main.function_type = FunctionType.from_lists(main.body.block.arg_types, end.operand_types)
        for module in (apart, joined):
            PackWeightsPass().apply(self._ctx, module)
            FreezeParametersPass().apply(self._ctx, module)
        times = self._ctx.times([apart, joined])
        return times is not None and times[1] < self._gain * times[0]


CAT, SLICE = "aten.cat.default", "aten.slice.Tensor"

SliceTypes = Mapping[SSAValue, Attribute]
"""Results of products that may be slices, and their views -> the types of the slices."""


def types_of_slices(ctx: FxcContext, products: Sequence[TorchOp]) -> SliceTypes:
    """The results that may be slices of the result of one product, since all their users accept slices."""
    results = [op.results[0] for op in products]
    widths = [tensor_of(result).get_shape()[-1] for result in results]
    whole = Block(arg_types=[dense_like(results[0].type, (*tensor_of(results[0]).get_shape()[:-1], sum(widths)))]).args[0]
    chosen, found = dict[SSAValue, Attribute](), dict[SSAValue, Attribute]()
    for result, args in zip(results, _slices(whole, widths), strict=True):
        tried = {**chosen, result: result_types(ctx, SLICE, args)[0]}
        if (types := types_with_steps(ctx, tried)) is not None:
            chosen, found = tried, dict(types)
    return found


def _slices(whole: SSAValue, widths: Sequence[int]) -> Iterator[list[Tree]]:
    """The arguments of adjacent slices of ``whole`` along its last dimension."""
    for end, width in zip(accumulate(widths), widths, strict=True):
        yield [whole, *map(int_attr, (len(tensor_of(whole).get_shape()) - 1, end - width, end))]


def join(ctx: FxcContext, products: Sequence[TorchOp], types: SliceTypes) -> None:
    """Replace the results of ``products`` by slices of one product. Slices for results not in ``types`` are copied."""
    last = products[-1]
    for before, op in pairwise(products):
        op.detach()
        Rewriter.insert_op(op, InsertPoint.after(before))
    given = [found for op in products if (found := as_linear(ctx, op)) is not None]
    args: list[Tree] = [given[0][0], insert_call(ctx, CAT, [[weight for _, weight, _ in given]], last)]
    if isinstance(given[0][2], SSAValue):
        args.append(insert_call(ctx, CAT, [[bias for _, _, bias in given]], last))
    whole = insert_call(ctx, "aten.linear.default", args, last)
    results = [op.results[0] for op in products]
    for result, args in zip(results, _slices(whole, [tensor_of(result).get_shape()[-1] for result in results]), strict=True):
        part = insert_call(ctx, SLICE, args, last)
        if result not in types:
            part = insert_call(ctx, "aten.clone.default", [part], last, {"memory_format": enum_attr("contiguous_format")})
        part._name = result._name
        result.replace_all_uses_with(part)
    for view in [value for value in types if value not in results]:
        Rewriter.replace_value_with_new_type(view, types[view])
    for op in products:
        Rewriter.erase_op(op)
