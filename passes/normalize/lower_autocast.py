"""Insert the casts that autocast makes.

Assumes  the torch level: every operand and result is typed, as captured under autocast.
Ensures  no ``wrap_with_autocast`` is left: its region is inlined, nested branches too, with ``_to_copy`` before the
         operators whose operands PyTorch's autocast casts. The result does not depend on the autocast state, and must
         run with autocast off.
Leaves   result types. Each operator has separate casts, where eager reuses the cast of a parameter (``cse`` merges
         them). It is an error where autocast changes a result other than by casts of operands.
Cost     two or three runs on fake tensors for each different operator in a region.

Before:
  func.func @main(%x: tensor<2x3xf32>, %w: tensor<3x3xf32>) -> tensor<2x3xbf16> {
    %t = torch.higher_order.wrap_with_autocast("cpu", torch.bfloat16, true, false, @submod, %x, %w) ({
    ^bb0(%a: tensor<2x3xf32>, %b: tensor<3x3xf32>):
      %m = torch.aten.mm.default(%a, %b) : (tensor<2x3xf32>, tensor<3x3xf32>) -> tensor<2x3xbf16>
      %r = torch.aten.relu.default(%m) : (tensor<2x3xbf16>) -> tensor<2x3xbf16>
      fx.output((%r,)) : (tensor<2x3xbf16>) -> ()
    }) : (tensor<2x3xf32>, tensor<3x3xf32>) -> tuple<tensor<2x3xbf16>>
    %y = fx.call_function @operator.getitem(%t, 0) : (tuple<tensor<2x3xbf16>>) -> tensor<2x3xbf16>
    fx.output(%y) : (tensor<2x3xbf16>) -> ()
  }

After:
  func.func @main(%x: tensor<2x3xf32>, %w: tensor<3x3xf32>) -> tensor<2x3xbf16> {
    %0 = torch.aten._to_copy.default(%x, dtype = torch.bfloat16) : (tensor<2x3xf32>) -> tensor<2x3xbf16>
    %1 = torch.aten._to_copy.default(%w, dtype = torch.bfloat16) : (tensor<3x3xf32>) -> tensor<3x3xbf16>
    %m = torch.aten.mm.default(%0, %1) : (tensor<2x3xbf16>, tensor<3x3xbf16>) -> tensor<2x3xbf16>
    %r = torch.aten.relu.default(%m) : (tensor<2x3xbf16>) -> tensor<2x3xbf16>
    fx.output(%r) : (tensor<2x3xbf16>) -> ()
  }
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter
from xdsl.utils.exceptions import VerifyException

from fxc.dialects.attributes.types import device, layout, sizes, strides, tensor_of, tensor_type
from fxc.dialects.attributes.values import DTypeAttr, dtype_attr
from fxc.dialects.context import FxcContext
from fxc.dialects.semantics import Semantics
from fxc.dialects.torch_ops import HigherOrderOp, TorchOp
from fxc.dialects.torch_ops.operators import torch_op
from fxc.passes.analysis.statistics import count
from fxc.passes.analysis.tuples import selections

_AUTOCAST = "higher_order.wrap_with_autocast"
State = Mapping[str, str | None]
"""Device kind -> dtype where autocast is on; None is PyTorch's default dtype."""


@dataclass(frozen=True)
class LowerAutocastPass(ModulePass):
    name = "lower-autocast"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        assert isinstance(ctx, FxcContext)
        for function in [inner for inner in op.walk() if isinstance(inner, FuncOp)]:
            for block in function.body.blocks:
                _lower(ctx.semantics, block, {})


def _lower(semantics: Semantics, block: Block, state: State) -> None:
    """Lower the regions in ``block``, which is executed under the autocast state ``state``."""
    for op in list(block.ops):
        if isinstance(op, HigherOrderOp) and op.operator == _AUTOCAST:
            _lower(semantics, op.regions[0].block, _entered(op, state))
            _splice(op)
        elif isinstance(op, TorchOp):
            if state and op.operands:
                _cast(semantics, op, state)
        else:
            for region in op.regions:
                for inner in region.blocks:
                    _lower(semantics, inner, state)


def _entered(op: HigherOrderOp, state: State) -> State:
    """The autocast state in the region of ``wrap_with_autocast(device, dtype, enabled, cache_enabled, region, ...)``."""
    (kind, dtype, enabled, *_), _ = op.trees()
    if not isinstance(kind, StringAttr) or not isinstance(enabled, IntegerAttr):
        raise VerifyException(f"{op.name} takes a kind of device and whether autocast is on there, as constants")
    rest = {name: known for name, known in state.items() if name != kind.data}
    return rest if not enabled.value.data else {**rest, kind.data: dtype.value.data if isinstance(dtype, DTypeAttr) else None}


def _cast(semantics: Semantics, op: TorchOp, state: State) -> None:
    """Insert casts before ``op`` as autocast does. An operand that is passed twice is cast once."""
    made = dict[tuple[SSAValue, str], SSAValue]()
    for index, dtype in semantics.autocast(op, state).items():
        value = op.operands[index]
        if (value, dtype) not in made:
            type = tensor_of(value)
            result = tensor_type(dtype, sizes(type), strides(type), device(type), layout(type))
            cast = torch_op("aten._to_copy.default").build_call([value], {"dtype": dtype_attr(dtype)}, [result])
            cast.location = op.location
            made[value, dtype] = cast.results[0]
            block = op.parent
            assert block is not None
            block.insert_op_before(cast, op)
            count("casts")
        op.operands[index] = made[value, dtype]


def _splice(op: HigherOrderOp) -> None:
    """Replace ``op`` by its region."""
    body, block = op.regions[0].block, op.parent
    last = body.last_op
    assert block is not None and last is not None
    returned = list(last.operands)
    if len(body.args) != len(op.operands):
        raise VerifyException(f"{op.name} passes {len(op.operands)} operands to a region that takes {len(body.args)}")
    for argument, operand in zip(body.args, op.operands, strict=True):
        argument.replace_all_uses_with(operand)
        returned = [operand if value is argument else value for value in returned]
    for old, new in _read(op, returned):
        old.replace_all_uses_with(new)
        if isinstance(old.owner, Operation) and old.owner is not op:
            Rewriter.erase_op(old.owner)
    for inner in list(body.ops):
        if inner is not last:
            inner.detach()
            block.insert_op_before(inner, op)
    Rewriter.erase_op(op)
    count("regions")


def _read(op: HigherOrderOp, returned: list[SSAValue]) -> list[tuple[SSAValue, SSAValue]]:
    """Pairs of the results that represent the outputs of the region outside of it, and the values that the region returns."""
    if [result.type for result in op.results] == [value.type for value in returned]:
        return list(zip(op.results, returned, strict=True))
    taken = selections(op.results[0]) if len(op.results) == 1 else None
    if taken is None or any(index >= len(returned) or one.operands[0] is not op.results[0] for one, index in taken):
        raise VerifyException(f"the results of {op.name} do not correspond to those of its region")
    return [(selection.results[0], returned[index]) for selection, index in taken]
