"""Fuse attention in a graph of Dynamo before AOTAutograd differentiates it, so that the backward is fused, too."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

import torch
from torch.fx import Graph, GraphModule, Node
from torch.multiprocessing.reductions import StorageWeakRef
from xdsl.dialects.builtin import (
    UNKNOWN_LOC,
    ArrayAttr,
    CallSiteLoc,
    DictionaryAttr,
    NameLoc,
    NoneAttr,
    StringAttr,
    UnitAttr,
)
from xdsl.dialects.func import CallOp
from xdsl.ir import Attribute, Operation, SSAValue

from fxc.bridge.callables import resolve_operator
from fxc.bridge.values import SYMBOLIC_NUMBERS, python_of, value_of
from fxc.dialects.entry import argument_attributes
from fxc.dialects.torch_ops import TorchOp
from fxc.errors import FxcError
from fxc.frontends.eager_graphs import memory
from fxc.frontends.import_fx import import_fx
from fxc.passes.analysis.call_graph import functions_of
from fxc.passes.analysis.requires_grad import ARGUMENT
from fxc.pipelines import LOWER_TO_TORCH
from fxc.program.program import Program
from fxc.semantics.windows import may_write, name_of

_FUSE = "fuse-attention"
"""Only the attentions that this pass fuses change the graph."""

_PREFIX, _RETURNED = "node.", "returned"

Run = Callable[[Program, str], None]
"""Runs a pipeline over a program in place."""


def fuse_attention(graph: GraphModule, run: Run) -> None:
    """Replace each attention of ``graph`` by PyTorch's fused operator, where a gradient is needed or sizes are symbolic.

    Other nodes are unchanged; elsewhere the graph of AOTAutograd, whose reshapes need known sizes, is as good.
    ``run`` runs a pipeline over a program. Only the nodes around a softmax are lowered; where they cannot be, the graph is
    unchanged. Raises the error of a pass that fails later.
    """
    nodes = list(graph.graph.nodes)
    given = [_example(node) for node in nodes if node.op == "placeholder"]
    learns = torch.is_grad_enabled() and any(getattr(value, "requires_grad", False) for value in given)
    is_symbolic = any(isinstance(value, torch.SymInt) for value in given)
    if not (learns or is_symbolic) or torch.is_autocast_enabled("cpu") or not any("softmax" in name_of(node) for node in nodes):
        return
    try:
        program = import_fx(part := _around_softmax(graph))
        # Name the arguments after the index of their node, and mark those that require a gradient.
        index = {node.name: i for i, node in enumerate(nodes)}
        inputs = [(index[node.name], node) for node in part.graph.find_nodes(op="placeholder")]
        facts = list[DictionaryAttr]()
        for argument, (i, node), known in zip(program.main.args, inputs, argument_attributes(program.main), strict=True):
            argument._name = f"{_PREFIX}{i}"
            marked = {ARGUMENT: UnitAttr()} if getattr(_example(node), "requires_grad", False) else {}
            facts.append(DictionaryAttr({**known.data, **marked}))
        program.main.properties["arg_attrs"] = ArrayAttr(facts)
        _lower(program, nodes, run)
    except FxcError:
        return
    known = set(program.main.walk())
    run(program, _FUSE if learns else f"{_FUSE}{{gradients=false}}")
    new = [op for op in program.main.walk() if op not in known]
    if new and _Edit(graph, nodes).run(new):
        graph.graph.lint()
        graph.recompile()


def _around_softmax(graph: GraphModule) -> GraphModule:
    """The nodes of ``graph`` that a softmax is computed from, or that are computed from it, up to layers with weights.

    Values of other nodes are arguments: layers, numbers, and new tensors that are written, as a mask that is filled by slices.
    Those with other users are results. Under autocast, which depends on the order of all nodes, it is ``graph``.
    """
    nodes = list(graph.graph.nodes)
    if any(name_of(node) == "_enter_autocast" for node in nodes):
        return graph
    writers = _writers(nodes)
    filled = {key for node in nodes if name_of(node).startswith(_NEW) for key in memory([node]) & writers.keys()}

    def is_inner(node: Node) -> bool:
        is_call = node.op in ("call_function", "call_method") and name_of(node) not in _LAYERS
        return is_call and not isinstance(_example(node), _NUMBERS) and filled.isdisjoint(memory([node]))

    def users(node: Node) -> Iterator[Node]:
        return filter(is_inner, node.users)

    def sources(node: Node) -> Iterator[Node]:
        yield from (each for each in node.all_input_nodes if each.op == "get_attr" or is_inner(each))
        for key in memory([node, *node.all_input_nodes]) - filled:
            yield from writers.get(key, ())

    inner = _reached(_reached([node for node in nodes if "softmax" in name_of(node)], users), sources)
    made, copied = Graph(), dict[Node, Node]()
    for node in nodes:
        if node not in inner and not inner.isdisjoint(node.users):
            copied[node] = made.placeholder(node.name)
            copied[node].meta["example_value"] = _example(node)
    for node in nodes:
        if node in inner:
            copied[node] = made.node_copy(node, copied.__getitem__)
    made.output(tuple(copied[node] for node in nodes if node in inner and not inner.issuperset(node.users)))
    return GraphModule(graph, made)


_LAYERS = frozenset({"linear", "addmm", "conv1d", "conv2d", "conv3d", "embedding", "layer_norm", "rms_norm"})
"""Functions behind which no operand of an attention is looked for."""

_NEW = ("new_", "zeros", "ones", "full", "empty")
_NUMBERS = (int, float, bool, *SYMBOLIC_NUMBERS)


def _reached(start: Iterable[Node], following: Callable[[Node], Iterable[Node]]) -> set[Node]:
    waiting, seen = list(start), set[Node]()
    while waiting:
        if (node := waiting.pop()) not in seen:
            seen.add(node)
            waiting += following(node)
    return seen


def _writers(nodes: Iterable[Node]) -> dict[StorageWeakRef, list[Node]]:
    """The nodes that write to memory."""
    found = dict[StorageWeakRef, list[Node]]()
    for node in filter(may_write, nodes):
        for key in memory([each for each in node.args[:1] if isinstance(each, Node)]):
            found.setdefault(key, []).append(node)
    return found


def _example(node: Node) -> Any:
    return node.meta.get("example_value")


def _lower(program: Program, nodes: Sequence[Node], run: Run) -> None:
    """Lower ``program`` to operators on values, and name those that are the values of nodes after the index of the node."""
    steps = list(map(str, LOWER_TO_TORCH.steps))
    after = steps.index("inline") + 1
    names = {node.name: i for i, node in enumerate(nodes)}
    for op in program.main.body.block.ops:
        index = names.get((op.results[0]._name or "") if len(op.results) == 1 else "")
        op.location = UNKNOWN_LOC if index is None else NameLoc(StringAttr(str(index)), NoneAttr())
    run(program, ",".join(steps[: after - 1]))
    for function in functions_of(program.module).values():
        is_main = function is program.main
        ops = list(function.body.block.ops) if len(function.body.blocks) == 1 and not is_main else []
        if ops and len(ops[-1].operands) == 1 and not any(isinstance(op, CallOp) for op in ops):
            ops[-1].operands[0]._name = _RETURNED
    run(program, "inline")
    for op in program.main.body.block.ops:
        caller = op.location.caller if isinstance(op.location, CallSiteLoc) else None
        if isinstance(caller, NameLoc) and len(op.results) == 1 and op.results[0]._name == _RETURNED:
            op.results[0]._name = _PREFIX + caller.desc.data
    run(program, ",".join([*steps[after:], "canonicalize"]))


class _Edit:
    """Copies new ops of the IR to the graph that it was imported from."""

    def __init__(self, graph: GraphModule, nodes: Sequence[Node]) -> None:
        self.graph, self.nodes = graph, nodes
        self.order = {node: i for i, node in enumerate(nodes)}
        self.written = _writers(nodes).keys()
        self.made = dict[SSAValue, Node]()

    def run(self, new: Sequence[Operation]) -> bool:
        """Replace the nodes whose values depend on ``new`` ops first. Returns whether any was replaced."""
        added, changed = set(new), False
        for value, node in list(self._targets(new)):
            if not self._is_available(value, node, added):
                continue
            with self.graph.graph.inserting_before(node):
                made = self._copy(value, is_top=True)
            made.meta.update({key: node.meta[key] for key in ("stack_trace", "nn_module_stack") if key in node.meta})
            node.replace_all_uses_with(made)
            self.graph.graph.erase_node(node)
            changed = True
        return changed

    def _targets(self, new: Sequence[Operation]) -> Iterator[tuple[SSAValue, Node]]:
        """Values of nodes that are computed from ``new`` ops without the value of another node between."""
        waiting, seen = [result for op in new for result in op.results], set[SSAValue]()
        while waiting:
            value = waiting.pop()
            if value in seen:
                continue
            seen.add(value)
            if (node := self._node(value)) is not None:
                yield value, node
            else:
                waiting += [result for use in value.uses for result in use.operation.results]

    def _node(self, value: SSAValue) -> Node | None:
        name = value._name or ""
        return self.nodes[int(name.removeprefix(_PREFIX))] if name.startswith(_PREFIX) else None

    def _is_available(self, value: SSAValue, node: Node, added: set[Operation]) -> bool:
        """Whether all that ``value`` is computed from can be read, or computed again, where ``node`` stands."""
        waiting, seen = [value], set[SSAValue]()
        while waiting:
            each = waiting.pop()
            if each in seen:
                continue
            seen.add(each)
            source = self._node(each)
            if source is not None and each is not value:
                if self.order[source] >= self.order[node] or self.written & memory([source]):
                    return False
                continue
            op = each.owner
            if not isinstance(op, TorchOp) or len(op.results) != 1 or op.regions or op.has_side_effect():
                return False
            waiting += op.operands
        return True

    def _copy(self, value: SSAValue, *, is_top: bool = False) -> Node:
        """The node of ``value``, made before the insertion point if there is none."""
        node = None if is_top else self._node(value)
        if node is not None:
            return node
        op = value.owner
        assert isinstance(op, TorchOp)
        args, kwargs = op.trees()
        given = cast(tuple[Any, ...], python_of(args, self._leaf))
        named: Mapping[str, Any] = {name: python_of(tree, self._leaf) for name, tree in kwargs.items()}
        return self.graph.graph.call_function(resolve_operator(op.operator), tuple(given), dict(named))

    def _leaf(self, leaf: SSAValue | Attribute) -> Any:
        return self._copy(leaf) if isinstance(leaf, SSAValue) else value_of(leaf)
