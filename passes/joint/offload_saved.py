"""Mark saved tensors on accelerators that wait for the backward in memory of the host.

Assumes  a joint graph at the torch level, in which a partition pass marked what is saved.
Ensures  saved tensors of at most ``bytes`` in all are marked ``autodiff.offloaded``, the largest first, and of equal
         ones the earliest, which waits longest. ``split-joint`` copies them to the host and back.
Leaves   marks that are there, which count; tensors on the host, results of the forward, which the caller holds, tensors
         with gaps between elements; modules without a joint graph; arguments.
Cost     one walk, and n log n for n saved tensors.

Before: offload-saved{bytes=16}
    func.func @main(%x: tensor<4xf32, #torch.meta<device = "cuda:0">>, %d: tensor<4xf32, #torch.meta<device = "cuda:0">>
    {autodiff.tangent}) attributes {autodiff.forward_results = 1 : i64} {
      %t = torch.aten.tanh.default(%x) {autodiff.saved = array<i64: 0>}
         : (tensor<4xf32, #torch.meta<device = "cuda:0">>) -> tensor<4xf32, #torch.meta<device = "cuda:0">>
      %y = torch.aten.exp.default(%t)
         : (tensor<4xf32, #torch.meta<device = "cuda:0">>) -> tensor<4xf32, #torch.meta<device = "cuda:0">>
      %g = torch.aten.tanh_backward.default(%d, %t) : (tensor<4xf32, #torch.meta<device = "cuda:0">>,
         tensor<4xf32, #torch.meta<device = "cuda:0">>) -> tensor<4xf32, #torch.meta<device = "cuda:0">>
      fx.output([%y, %g]) : (tensor<4xf32, #torch.meta<device = "cuda:0">>, tensor<4xf32, #torch.meta<device = "cuda:0">>) -> ()
    }
After:
    func.func @main(%x: tensor<4xf32, #torch.meta<device = "cuda:0">>, %d: tensor<4xf32, #torch.meta<device = "cuda:0">>
    {autodiff.tangent}) attributes {autodiff.forward_results = 1 : i64} {
      %t = torch.aten.tanh.default(%x) {autodiff.saved = array<i64: 0>, autodiff.offloaded = array<i64: 0>}
         : (tensor<4xf32, #torch.meta<device = "cuda:0">>) -> tensor<4xf32, #torch.meta<device = "cuda:0">>
      %y = torch.aten.exp.default(%t)
         : (tensor<4xf32, #torch.meta<device = "cuda:0">>) -> tensor<4xf32, #torch.meta<device = "cuda:0">>
      %g = torch.aten.tanh_backward.default(%d, %t) : (tensor<4xf32, #torch.meta<device = "cuda:0">>,
         tensor<4xf32, #torch.meta<device = "cuda:0">>) -> tensor<4xf32, #torch.meta<device = "cuda:0">>
      fx.output([%y, %g]) : (tensor<4xf32, #torch.meta<device = "cuda:0">>, tensor<4xf32, #torch.meta<device = "cuda:0">>) -> ()
    }
"""

from __future__ import annotations

from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from fxc.dialects.attributes.types import device, is_tensor
from fxc.dialects.autodiff import OFFLOADED
from fxc.passes.analysis.joint_graph import JointGraph, can_be_offloaded, is_joint, joint_graph, mark_results, marked_results
from fxc.passes.analysis.size_values import HintedSizes
from fxc.passes.analysis.statistics import count
from fxc.passes.joint.partition_min_cut.budgets import Budget


@dataclass(frozen=True)
class OffloadSavedPass(ModulePass):
    """``bytes``: a number, as 1.5e9 or 64MiB; or a fraction from 0 to 1 of the bytes that can be moved."""

    name = "offload-saved"

    bytes: float | str = field(default=0.0, metadata={"minimum": 0})

    def __post_init__(self) -> None:
        Budget.of(self.bytes)  # reject an invalid one when the pipeline is created

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        most = Budget.of(self.bytes)
        if not is_joint(op) or most == Budget(fraction=0.0):
            return
        graph = joint_graph(op)
        sizes, values = HintedSizes(graph.function), _movable(graph)
        rest = most.bytes if most.bytes is not None else int(most.fraction * sum(sizes.bytes(each.type) for each in values))
        rest -= sum(sizes.bytes(each.type) for op in graph.block.ops for each in marked_results(op, OFFLOADED))
        for value in sorted(values, key=lambda each: -sizes.bytes(each.type)):
            if (bytes := sizes.bytes(value.type)) <= rest and isinstance(value.owner, Operation):
                rest -= bytes
                mark_results(value.owner, [value.owner.results.index(value)], OFFLOADED)
                count("bytes offloaded", bytes)


def _movable(graph: JointGraph) -> list[SSAValue]:
    """The saved tensors that take memory of an accelerator until the backward, and are not marked yet."""
    return [
        value
        for value in graph.demand().saved
        if is_tensor(value.type)
        and device(value.type) != "cpu"
        and can_be_offloaded(value)
        and value not in graph.results
        and value not in marked_results(value.owner, OFFLOADED)
    ]
