"""Convert calls of PyTorch's functional collectives to the dialect ``dist``.

Assumes  the torch level; ``dist.group`` states the process groups that calls name.
Ensures  a call of ``all_reduce``, ``all_gather_into_tensor``, ``reduce_scatter_tensor``, their coalesced variants,
         ``all_to_all_single`` or ``broadcast`` in a stated group, and each wait for it, or for a wait, is an operation
         of ``dist``.
Leaves   groups that are not stated; results that something else than a wait reads; split sizes that are not constant;
         sends and receives; variants in place.
Cost     one walk.

Before:
    dist.group @dp "0" ranks [0, 1]
    func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
      %r = torch._c10d_functional.all_reduce.default(%x, "sum", "0") : (tensor<4xf32>) -> tensor<4xf32>
      %y = torch._c10d_functional.wait_tensor.default(%r) : (tensor<4xf32>) -> tensor<4xf32>
      fx.output(%y) : (tensor<4xf32>) -> ()
    }
After:
    dist.group @dp "0" ranks [0, 1]
    func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
      %r = dist.all_reduce "sum" over @dp (%x) : (tensor<4xf32>) -> tensor<4xf32>
      %y = dist.wait %r : tensor<4xf32>
      fx.output(%y) : (tensor<4xf32>) -> ()
    }
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, StringAttr, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from fxc.dialects.attributes.values import isa, leaves
from fxc.dialects.dist import (
    AllGatherOp,
    AllReduceOp,
    AllToAllOp,
    BroadcastOp,
    CollectiveOp,
    GroupOp,
    ReduceScatterOp,
    WaitOp,
)
from fxc.dialects.dist.mesh import integers_attr
from fxc.dialects.text.diagnostics import OpPassFailedException
from fxc.dialects.text.syntax import copy_names
from fxc.dialects.torch_ops.base import TorchOp
from fxc.passes.analysis.matching import integer, integers
from fxc.passes.analysis.statistics import count

_COLLECTIVES: Mapping[str, type[CollectiveOp]] = MappingProxyType({
    "all_reduce": AllReduceOp,
    "all_reduce_coalesced": AllReduceOp,
    "all_gather_into_tensor": AllGatherOp,
    "all_gather_into_tensor_coalesced": AllGatherOp,
    "reduce_scatter_tensor": ReduceScatterOp,
    "reduce_scatter_tensor_coalesced": ReduceScatterOp,
    "all_to_all_single": AllToAllOp,
    "broadcast": BroadcastOp,
})  # fmt: skip
_PREFIX, _WAIT = "torch._c10d_functional.", "torch._c10d_functional.wait_tensor.default"


@dataclass(frozen=True)
class ConvertTorchToDistPass(ModulePass):
    name = "convert-torch-to-dist"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        groups = {each.process_group.data: each for each in op.ops if isinstance(each, GroupOp)}
        if not groups:
            return
        for function in op.ops:
            for call in list(function.walk()) if isinstance(function, FuncOp) else ():
                if call.name == _WAIT and isinstance(call.operands[0].owner, WaitOp):
                    _replace(call, WaitOp.of(call.operands[0]))
                elif isinstance(call, TorchOp) and call.name.startswith(_PREFIX):
                    _convert(call, groups)


def _convert(op: TorchOp, groups: Mapping[str, GroupOp]) -> None:
    name = op.name.removeprefix(_PREFIX).removesuffix(".default")
    group = op.argument("group_name")
    found = groups.get(group.data) if isinstance(group, StringAttr) else None
    waits = [use.operation for result in op.results for use in result.uses]
    if (
        name not in _COLLECTIVES
        or found is None
        or op.is_packed
        or not op.operands
        or not all(wait.name == _WAIT for wait in waits)
    ):
        return
    inputs = [leaf for leaf in leaves(op.bound()[op.SCHEMA.arguments[0].name]) if isinstance(leaf, SSAValue)]
    properties = dict[str, Attribute]()
    if isinstance(reduction := op.argument("reduce_op"), StringAttr):
        properties["reduction"] = reduction
    if isa(source := op.argument("src"), IntegerAttr):
        properties["source"] = IntegerAttr(source.value.data, i64)
    for argument in ("input_split_sizes", "output_split_sizes") if name == "all_to_all_single" else ():
        sizes = integers(op.argument(argument))
        if sizes is None:
            return
        properties[argument.replace("_split", "")] = integers_attr(sizes)
    size = integer(op.argument("group_size"))
    if size is not None and size != found.size:
        stated = f"@{found.sym_name.data} has {found.size}"
        raise OpPassFailedException(f"the call is for {size} ranks, and its group {stated}", op)
    made = _COLLECTIVES[name].of(found.sym_name.data, inputs, op.result_types, **properties)
    _replace(op, made)
    for wait in waits:
        _replace(wait, WaitOp.of(wait.operands[0]))
    count("collectives converted")


def _replace(old: Operation, new: Operation) -> None:
    new.location = old.location
    new.attributes.update(old.attributes)
    copy_names(old.results, new.results)
    Rewriter.replace_op(old, new)
