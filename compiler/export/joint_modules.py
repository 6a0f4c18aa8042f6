"""The partition of joint graphs for AOTAutograd: modules for forward and backward, each of which calls a program."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, cast

import torch
from torch._guards import detect_fake_mode
from torch.fx import Graph, GraphModule, Node
from torch.fx.graph_module import _copy_attr, reduce_graph_module
from torch.utils._pytree import tree_leaves
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Attribute, SSAValue

from fxc.bridge.expressions import parse_expression, symbol_name, sympy_symbol
from fxc.bridge.tensors import type_of
from fxc.bridge.values import torch_dtype, value_of
from fxc.dialects.attributes import types
from fxc.dialects.attributes.types import is_tensor
from fxc.dialects.entry import ArgumentFacts, argument_attributes
from fxc.errors import CaptureError
from fxc.export.graph_module import to_fx
from fxc.frontends.layouts import is_object
from fxc.passes.analysis.joint_graph import is_number, returned
from fxc.passes.analysis.written_arguments import MUTATES
from fxc.program.program import Program


class JointPart(torch.nn.Module):
    """The forward or the backward of a joint graph, as a program. It runs as a graph, for tracing and debugging."""

    def __init__(self, program: Program | Callable[[], Program]) -> None:
        super().__init__()
        self._program = program

    @property
    def program(self) -> Program:
        if callable(self._program):
            self._program = self._program()
        return self._program

    def __deepcopy__(self, memo: Any) -> JointPart:
        return self

    def __reduce__(self) -> Any:
        """As text, which is parsed on first use: what AOTAutograd's cache stores for compiled autograd."""
        return JointPart, (partial(Program.parse, self.program.text(debuginfo=True), self.program.state),)

    @cached_property
    def graph_module(self) -> GraphModule:
        return to_fx(self.program)

    def forward(self, *args: Any) -> Any:
        return self.graph_module(*args)


def program_of(graph: GraphModule, imported: Callable[[GraphModule], Program]) -> Program:
    """The program of a graph that AOTAutograd compiles: of a part, or else ``imported``. The caller may change it."""
    calls = graph.graph.find_nodes(op="call_module")
    part = graph.get_submodule(str(calls[0].target)) if calls else None
    return part.program.copy() if isinstance(part, JointPart) else imported(graph)


def modules_of(joint: GraphModule, program: Program, forward_results: int) -> tuple[GraphModule, GraphModule]:
    """Forward and backward of ``joint``, whose ``program`` the pipeline ``joint`` split."""
    return _Modules(joint, program, forward_results).made()


class _Backward(GraphModule):
    """A module that calls a program. While compiled autograd is on, it has the operators of the program, which that copies."""

    @property
    def graph(self) -> Graph:
        from torch._dynamo import compiled_autograd

        return _inlined(self)._graph if compiled_autograd.compiled_autograd_enabled else self._graph

    @graph.setter
    def graph(self, g: Graph) -> None:
        cast(Any, GraphModule.graph).fset(self, g)

    def __reduce__(self) -> Any:
        """As operators: AOTAutograd's cache stores it for compiled autograd only."""
        return _loaded, super().__reduce__()[1]


def _loaded(*args: Any) -> GraphModule:
    return _inlined(cast(GraphModule, reduce_graph_module(*args)))


def _inlined(module: GraphModule) -> GraphModule:
    """``module``, in which the operators of a program replace the call of it."""
    graph: Graph = module._graph
    for call in graph.find_nodes(op="call_module"):
        inner = cast(JointPart, module.get_submodule(str(call.target))).graph_module
        for node in inner.graph.find_nodes(op="get_attr"):
            _copy_attr(inner, module, str(node.target))
        with graph.inserting_before(call):
            found: Any = graph.graph_copy(
                inner.graph, dict(zip(inner.graph.find_nodes(op="placeholder"), call.args, strict=True))
            )
        for item in list(call.users):
            result: Node = found[item.args[1]]
            result.meta = item.meta
            item.replace_all_uses_with(result)
            graph.erase_node(item)
        graph.erase_node(call)
        module.recompile()
    return module


class _Modules:
    """Makes the modules of ``program`` with the metadata of ``joint``."""

    def __init__(self, joint: GraphModule, program: Program, count: int) -> None:
        self.joint, self.count = joint, count
        self.nodes = {node.name: node for node in joint.graph.nodes}
        self.forward, self.backward = (_part(program, name) for name in ("forward", "backward"))
        self.mode = detect_fake_mode([node.meta.get("val") for node in joint.graph.find_nodes(op="placeholder")])

    def made(self) -> tuple[GraphModule, GraphModule]:
        placeholders = self.joint.graph.find_nodes(op="placeholder")
        tangents = [node for node in placeholders if "tangents" in str(node.target)]
        primals = [(node.name, node.meta) for node in placeholders if node not in tangents]
        found = zip(self.backward.main.args, argument_attributes(self.backward.main), strict=True)
        arguments = [value for value, attributes in found if not ArgumentFacts.of(attributes).is_state]
        arguments = arguments[: len(arguments) - sum(not is_object(node) for node in tangents)]
        saved = [(value._name or "saved", self.facts(value)) for value in arguments]
        first = sum(map(is_number, arguments))
        results = tree_leaves(self.joint.graph.output_node().args, is_leaf=lambda leaf: leaf is None)
        objects = dict.fromkeys(result for result in results[self.count :] if isinstance(result, Node) and is_object(result))
        held = [node for node in objects if node not in tangents]
        kept = [*(facts for _, facts in saved[first:]), *held, *(facts for _, facts in saved[:first])]
        given = [*saved, *((node.name, node.meta) for node in (*held, *tangents))]
        forward = _module(self.forward, primals, [*results[: self.count], *kept])
        return forward, _module(self.backward, given, results[self.count :], _Backward)

    def facts(self, value: SSAValue) -> dict[str, Any]:
        """The metadata of a value that the backward takes: that of the node that it was, else of a new tensor."""
        node = self.nodes.get(value._name or "")
        if node is not None and "val" in node.meta and type_of(node.meta["val"]) == value.type:
            return dict(node.meta)
        return {"val": self.fake(value.type)}

    def fake(self, type: Attribute) -> Any:
        assert self.mode is not None
        if is_tensor(type):
            sizes = [self.number(size) for size in types.sizes(type)]
            steps = types.strides(type)
            options: Any = {"dtype": torch_dtype(type.element_type), "device": types.device(type)}
            with self.mode:
                if steps is None:
                    return torch.empty(sizes, **options)
                return torch.empty_strided(sizes, [self.number(step) for step in steps], **options)
        if isinstance(type, types.IntType):
            return self.number(type.expression.data)
        raise CaptureError(f"the backward takes a value of type {type} from the forward")

    def number(self, size: int | str) -> Any:
        """A size in the symbols of the joint graph."""
        env = None if self.mode is None else self.mode.shape_env
        if isinstance(size, int):
            return size
        if env is None or not size:
            raise CaptureError("the backward takes a tensor of unknown size from the forward")
        expression: Any = parse_expression(size)
        names = {symbol_name(symbol): symbol for symbol in env.var_to_range}
        known = {sympy_symbol(name): symbol for name, symbol in names.items()}
        return env.create_symintnode(expression.xreplace(known), hint=None)


def _part(program: Program, name: str) -> Program:
    module = next(op for op in program.module.ops if isinstance(op, ModuleOp) and op.sym_name == StringAttr(name))
    module.detach()
    module.properties.pop("sym_name")
    return replace(program, module=module)


def _module(
    program: Program,
    inputs: Sequence[tuple[str, Mapping[str, Any]]],
    results: Sequence[Any],
    kind: type[GraphModule] = GraphModule,
) -> GraphModule:
    """A module with these placeholders that calls ``program``, which takes and returns all but objects.

    ``results``: for each a node or the metadata of a node, which is the metadata of the result.
    """
    graph = Graph()
    for name, facts in inputs:
        graph.placeholder(name).meta = dict(facts)
    placeholders = graph.find_nodes(op="placeholder")
    objects = {node.name: node for node in placeholders if is_object(node)}
    arguments = tuple(node for node in placeholders if node.name not in objects)
    root = torch.nn.Module()
    root.add_module("program", JointPart(program))
    found = graph.call_module("program", arguments)
    items = list[Any]()
    leaves = enumerate(leaf for leaf, marks in returned(program.main) if MUTATES not in marks)
    for facts in results:
        if isinstance(facts, Node) and facts.name in objects:
            items.append(objects[facts.name])
            continue
        i, leaf = next(leaves)
        if isinstance(leaf, Attribute):
            items.append(value_of(leaf))
        else:
            items.append(graph.call_function(operator.getitem, (found, i)))
            items[-1].meta = dict(facts.meta if isinstance(facts, Node) else facts)
    graph.output(tuple(items))
    return kind(root, graph)
