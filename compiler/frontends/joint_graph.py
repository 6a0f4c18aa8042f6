"""Joint graphs of AOTAutograd, forward and backward in one: import with the attributes of ``passes/analysis/joint_graph``."""

from __future__ import annotations

import operator
import re
from collections.abc import Collection, Mapping
from typing import Any

import torch
from torch._functorch._aot_autograd.descriptors import InputMutationAOTOutput, PlainAOTInput
from torch.fx import GraphModule, Node
from torch.utils._pytree import tree_leaves
from torch.utils.checkpoint import CheckpointPolicy
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, StringAttr, UnitAttr
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import Rewriter

from fxc.bridge.location import node_name
from fxc.bridge.nesting import INPUTS, NAMES, OUTPUTS
from fxc.bridge.values import is_sequence
from fxc.dialects.attributes.values import int_attr, leaves, str_attr
from fxc.dialects.autodiff import FORWARD_RESULTS, HELD, PART, TANGENT, WRITTEN
from fxc.dialects.base.effects import aliases, has_side_effect
from fxc.dialects.entry import argument_attributes
from fxc.dialects.fx import OutputOp
from fxc.dialects.text.syntax import copy_names
from fxc.dialects.torch_ops.operators import torch_op
from fxc.errors import CaptureError
from fxc.frontends.dynamo_graphs import bases_of
from fxc.frontends.import_fx import import_fx
from fxc.passes.analysis.joint_graph import mark_recomputed, mark_results
from fxc.program.program import Program

_RECOMPUTE = (CheckpointPolicy.MUST_RECOMPUTE, CheckpointPolicy.PREFER_RECOMPUTE)
_ITEM = re.compile(r"(?<=\[')[^']+(?='\])|(?<=\[)\d+(?=\])|(?<=\.)\w+")


def import_joint(joint: GraphModule, forward_results: int, held: Collection[int] = ()) -> Program:
    """The joint program of the graph that AOTAutograd partitions, of which the first results are those of the forward.

    Activation checkpointing becomes marks of operations. ``held``: indices of primals whose memory the caller holds.
    CaptureError for graphs that only PyTorch can partition.
    """
    _refuse(joint, forward_results)
    program = import_fx(joint)
    function = program.main
    for name in (INPUTS, OUTPUTS, NAMES):  # (primals, tangents), which the parts do not have
        function.attributes.pop(name, None)
    last = function.body.block.last_op
    assert isinstance(last, OutputOp)
    function.attributes[FORWARD_RESULTS] = int_attr(forward_results)
    flat = OutputOp.build_call([list(leaves(last.trees()[0][0]))], {}, [], location=last.location)
    function.body.block.insert_op_before(flat, last)
    last.detach()
    last.erase()
    written = _overwritten(joint, forward_results)
    marks = [
        {
            name: UnitAttr()
            for name, is_set in {TANGENT: "tangents" in str(node.target), WRITTEN: node in written, HELD: i in held}.items()
            if is_set
        }
        for i, node in enumerate(joint.graph.find_nodes(op="placeholder"))
    ]
    given = zip(argument_attributes(function), marks, strict=True)
    if marks:
        function.properties["arg_attrs"] = ArrayAttr([DictionaryAttr({**each.data, **more}) for each, more in given])
    ops = {node_name(op.location): op for op in function.body.block.ops}
    policies = _policies(joint)
    for node in joint.graph.nodes:
        if node.op not in ("placeholder", "output", "get_attr"):
            _mark(node, ops, policies)
    # Replace detach: autograd does not see a joint graph, so it is an alias, which more equations know. It sees the results.
    for op in [op for op in function.walk() if op.name == "torch.aten.detach.default" and not _is_returned(op.results[0])]:
        alias = torch_op("aten.alias.default").build_call([op.operands[0]], {}, op.result_types, location=op.location)
        alias.attributes.update(op.attributes)
        copy_names(op.results, alias.results)
        Rewriter.replace_op(op, alias)
    return program


def _is_returned(value: SSAValue) -> bool:
    """Whether ``value``, or a view of it, is a result of the graph."""
    users = {use.operation for use in value.uses}
    views = (op.results[index] for op in users for index, source in aliases(op) if source is value)
    return any(isinstance(op, OutputOp) for op in users) or any(map(_is_returned, views))


def name_as_written(program: Program, joint: GraphModule, graph: GraphModule) -> None:
    """Name the arguments as the user's code does, by Dynamo's ``graph``: ``primals_1`` becomes ``a_weight``."""
    function, given = program.main, graph.graph.find_nodes(op="placeholder")
    attributes = [dict(each.data) for each in argument_attributes(function)]
    taken = {node.name for node in joint.graph.nodes}
    for value, each, node in zip(function.args, attributes, joint.graph.find_nodes(op="placeholder"), strict=True):
        described = node.meta.get("desc")
        if isinstance(described, PlainAOTInput) and described.idx < len(given):
            path = _ITEM.findall(given[described.idx].meta["grapharg"].source.name)
            name = "_".join(word for word in path if word not in ("self", "_modules", "_parameters", "_buffers"))
            if name.isidentifier() and name not in taken:
                taken.add(name)
                value._name, each["fx.name"] = name, StringAttr(name)
    function.properties["arg_attrs"] = ArrayAttr([DictionaryAttr(each) for each in attributes])


def name_modules(joint: GraphModule) -> None:
    """Identify the modules of nodes by their paths: Dynamo has addresses, which differ in each process."""
    for node in joint.graph.nodes:
        for stack in ("nn_module_stack", "fwd_nn_module_stack"):
            if node.meta.get(stack):
                node.meta[stack] = {path: (path, module) for path, module in node.meta[stack].values()}


def _refuse(joint: GraphModule, forward_results: int) -> None:
    """CaptureError for what the runtime of AOTAutograd passes in another way than tensors, and for views that it makes again.

    A result that is a view of a written input is made from that input, by metadata that is not in the joint graph.
    """
    for node in joint.graph.nodes:
        if node.op == "placeholder" and not str(node.target).startswith(("primals", "tangents")):
            raise CaptureError(f"the joint graph has the argument {node.target}, which is neither a primal nor a tangent")
        if node.meta.get("saved_tensor_with_no_vc_check"):
            raise CaptureError(f"the joint graph saves {node.name} without a check of its version")
        if getattr(node.target, "__name__", "") == "with_effects":
            raise CaptureError("the joint graph orders effects by tokens")
    results = tree_leaves(joint.graph.output_node().args)[:forward_results]
    returned = dict(zip(results, _overwritten(joint, forward_results)))
    copies = [node.args for node in joint.graph.nodes if node.target is torch.ops.aten.copy_.default]
    if len({argument for argument, *_ in copies}) < len(copies):
        raise CaptureError("the forward and the backward write the same input")
    new = {value for _, value, *_ in copies} | {result for result, argument in returned.items() if argument is not None}
    for result in results:
        if isinstance(result, Node) and returned.get(result) is None and any(base in new for base in bases_of(result)):
            raise CaptureError(f"the forward returns {result.name}, a view of an input that it writes")


def _overwritten(joint: GraphModule, forward_results: int) -> list[Node | None]:
    """For each result of the forward the placeholder that its caller overwrites with it, if there is one."""
    arguments = {node.meta.get("desc"): node for node in joint.graph.find_nodes(op="placeholder")}
    described = tree_leaves(joint.graph.output_node().meta.get("desc", []))[:forward_results]
    return [arguments[each.mutated_input] if isinstance(each, InputMutationAOTOutput) else None for each in described]


def _policies(joint: GraphModule) -> Mapping[Node, Any]:
    """The checkpoint policy of each node.

    A value between two checkpointed regions is saved, and so is the result of a region that a backward hook reads.
    """
    found = {node: node.meta["recompute"] for node in joint.graph.nodes if node.meta.get("recompute") is not None}
    for node in joint.graph.nodes:
        if found.get(node) in _RECOMPUTE:
            region = node.meta.get("ac_graph_id", -1)
            later = [user for user in node.users if found.get(user) in _RECOMPUTE]
            is_boundary = any(user.meta.get("ac_graph_id", -1) > region >= 0 for user in later)
            if is_boundary or (node.meta.get("has_backward_hook") and not later):
                found[node] = CheckpointPolicy.MUST_SAVE
    return found


def _mark(node: Node, ops: Mapping[str | None, Operation], policies: Mapping[Node, Any]) -> None:
    tag, policy, op = node.meta.get("partitioner_tag"), policies.get(node), ops.get(node.name)
    if op is None:
        return
    if tag in ("must_be_in_forward", "must_be_in_backward") or (tag == "is_backward" and has_side_effect(op)):
        op.attributes[PART] = str_attr("forward" if tag == "must_be_in_forward" else "backward")
    if tag == "is_backward" or policy is None:
        return
    source = node.args[0] if node.target is operator.getitem else None
    if isinstance(source, Node) and is_sequence(source.meta.get("val")):
        if policy is CheckpointPolicy.MUST_SAVE and isinstance(index := node.args[1], int):
            mark_results(ops[source.name], [index])
    elif policy is CheckpointPolicy.MUST_SAVE:
        value = node.meta.get("val")
        mark_results(op, range(len(value)) if is_sequence(value) else [0])
    elif policy in _RECOMPUTE:
        mark_recomputed(op)
