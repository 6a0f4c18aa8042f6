"""Export functions of the IR to FX graphs: the reference backend, and the inverse of ``compiler/frontends/import_fx.py``.

Each op becomes the node that it was imported from, or an equivalent call. Node names come from locations, else from values.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from contextlib import suppress
from keyword import iskeyword
from typing import Any, cast

import torch
from torch.fx import Graph, GraphModule, Node
from torch.fx.graph import _PyTreeCodeGen, _PyTreeInfo
from torch.utils._pytree import tree_unflatten
from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IntegerAttr, StringAttr, TupleType
from xdsl.ir import Attribute, Block, BlockArgument, Operation, OpResult, Region, SSAValue

from fxc.bridge.callables import (
    check_attribute,
    check_method,
    resolve_function,
    resolve_higher_order,
    resolve_operator,
)
from fxc.bridge.instances import annotation_of
from fxc.bridge.location import node_meta, node_name, note, region_location
from fxc.bridge.modules import build_module
from fxc.bridge.nesting import INPUTS, NAMES, OUTPUTS, spec_of
from fxc.bridge.values import constant_value, python_of, run_time_constant, value_of
from fxc.codegen.contract import KernelLaunch
from fxc.dialects.attributes.types import NoneValueType, ValueType, tuple_type
from fxc.dialects.attributes.values import FunctionAttr, RegionAttr, Tree, decode_constants
from fxc.dialects.autodiff import GradientAttr, SubgraphOp, ZeroOp
from fxc.dialects.base.effects import OperatorCall, aliases
from fxc.dialects.entry import ArgumentFacts
from fxc.dialects.fusion import GroupOp
from fxc.dialects.fusion import YieldOp as GroupYieldOp
from fxc.dialects.fx import CallFunctionOp, CallMethodOp, CallModuleOp, GetAttrOp, ModuleDeclOp, OutputOp, TensorDeclOp
from fxc.dialects.target import target_of
from fxc.dialects.text.syntax import op_text
from fxc.dialects.tile import LaunchOp
from fxc.dialects.torch_ops import HigherOrderOp, TorchOp
from fxc.dialects.torch_ops.constant import ConstantOp
from fxc.errors import FxcError, InputError, WeightsError
from fxc.export.module_tree import argument_names, copy_persistence, is_plain, set_module, set_tensor, training, world_of
from fxc.export.plan_nodes import PLAN_NODES
from fxc.export.plan_time_values import frozen_results, is_once, reads_once
from fxc.passes.analysis.requires_grad import requires_grad
from fxc.passes.analysis.written_arguments import copy_of
from fxc.program.program import Program


def region_module(program: Program, region: Region, name: str) -> GraphModule:
    """A region of a higher-order operator as a separate module called ``name``."""
    return _Body(Exporter(program), torch.nn.Module(), "").region(region.block, name)


def submodule(program: Program, path: str) -> torch.nn.Module:
    """The module that the program calls at ``path``. TargetError for a class that is not allowed in a file."""
    return Exporter(program).submodule(path)


Subgraphs = Callable[[func.FuncOp, func.FuncOp, GradientAttr, Callable[[], GraphModule]], torch.nn.Module]
"""Builds a module from a function, its derivative, and a callable that builds the graph of the function."""


class Exporter:
    """Exports functions of ``program`` to GraphModules.

    ``subgraphs`` builds the modules of differentiable subgraphs; None if the program has none. ``for_users``: nodes have fake
    values in ``meta["val"]``, and the signature is a plain one where inputs are not nested.
    """

    def __init__(self, program: Program, subgraphs: Subgraphs | None = None, *, for_users: bool = False) -> None:
        self.program, self.subgraphs = program, subgraphs
        self.world = world_of(program) if for_users else None
        self.modules = {op.path: op for op in program.module.ops if isinstance(op, ModuleDeclOp)}
        self.tensors = {op.sym.data: op for op in program.module.ops if isinstance(op, TensorDeclOp)}
        self.functions = {op.sym_name.data: op for op in program.module.ops if isinstance(op, func.FuncOp)}
        self.written = set[BlockArgument]()

    def module(self, function: func.FuncOp, lifted: bool) -> GraphModule:
        marks = [attributes.data.get("fx.mutates") for attributes in function.res_attrs or ()]
        self.written = {function.args[mark.value.data] for mark in marks if isinstance(mark, IntegerAttr)}
        root = torch.nn.Module()
        for name, declaration in self.tensors.items():
            if "." not in name or not any(
                isinstance(op, HigherOrderOp) and name.split(".")[0] in op.region_names() for op in self.program.module.walk()
            ):
                set_tensor(root, name, self.tensor(name), declaration.kind.data, declaration.non_persistent is None)
        body = _Body(self, root, "")
        arguments = list(
            zip(function.body.block.args, _dictionaries(function.arg_attrs, len(function.body.block.args)), strict=True)
        )
        if not lifted:  # placeholders are the first nodes of a graph
            arguments.sort(key=lambda each: ArgumentFacts.of(each[1]).is_state)
        for value, attributes in arguments:
            self._argument(body, value, attributes, lifted)
        body.ops(function.body.block)
        if not lifted:
            self._finish(body, function)
        module = GraphModule(root, body.graph, class_name="GraphModule")
        copy_persistence(root, module)
        module.training = training(root)  # train() would change the mode of the modules that the graph calls
        return module

    def _argument(self, body: _Body, value: BlockArgument, attributes: DictionaryAttr, lifted: bool) -> None:
        facts = ArgumentFacts.of(attributes)
        kind, name = facts.kind, facts.name or value._name or f"arg{value.index}"
        if facts.is_state and not lifted:
            path = set_tensor(body.root, name, self.tensor(name), kind, "fx.non_persistent" not in attributes.data)
            node = body.create("get_attr", path, (), {}, value._name, None)
        else:
            default = attributes.data.get("fx.default")
            args = () if default is None else (python_of(decode_constants(default), _constant),)
            target = name if kind == "input" else value._name or name
            node = body.create("placeholder", target, args, {}, value._name, value.location)
        body.env[value] = body.with_value(node, value.type)

    def _finish(self, body: _Body, function: func.FuncOp) -> None:
        """Write mutated arguments back, remove them from the output, and restore the captured nesting."""
        output = next(node for node in reversed(body.graph.nodes) if node.op == "output")
        attributes = _dictionaries(function.res_attrs, len(function.function_type.outputs.data))
        written = [a.data.get("fx.mutates") for a in attributes]
        results = cast(Sequence[Any], output.args[0])
        if any(target is not None for target in written):
            terminator = function.body.block.last_op
            assert terminator is not None
            kept, back, index = list[Any](), dict[Node, Node](), 0
            with body.graph.inserting_before(output):
                for value in results:
                    target = written[index] if isinstance(value, Node) else None
                    index += isinstance(value, Node)
                    if isinstance(target, IntegerAttr):
                        argument = body.env[function.body.block.args[target.value.data]]
                        if value.target is not torch.ops.aten.copy_.default or value.args[0] is not argument:
                            back[value] = body.graph.call_function(torch.ops.aten.copy_.default, (argument, value))
                    else:
                        kept.append(value)
            output.args = (tuple(back.get(value, value) if isinstance(value, Node) else value for value in kept),)
        nestings = [function.attributes.get(name) for name in (INPUTS, OUTPUTS)]
        in_spec, out_spec = (None if attr is None else spec_of(attr) for attr in nestings)
        if in_spec is not None and out_spec is not None and not (self.world and is_plain(body.graph, in_spec, out_spec)):
            known = function.attributes.get(NAMES)
            given = list(cast(ArrayAttr[Attribute], known)) if isinstance(known, ArrayAttr) else []
            names = [name.data for name in given if isinstance(name, StringAttr)] or argument_names(in_spec)
            body.graph.set_codegen(_PyTreeCodeGen(_PyTreeInfo(names, in_spec, out_spec)))
        elif out_spec is not None:
            output.args = (tree_unflatten(output.args[0], out_spec),)

    def tensor(self, name: str) -> torch.Tensor:
        if name not in self.program.state:
            raise WeightsError(
                f"the program has no value for the tensor {name!r}", hint="load the weights file that belongs to it"
            )
        return self.program.state[name]

    def submodule(self, path: str) -> torch.nn.Module:
        live = self.program.live.get(path)
        if isinstance(live, torch.nn.Module):
            return live
        return build_module(path, self.modules, self.tensors, self.tensor, self.program.live)


class _Body:
    """Builds one graph: of the entry function, a callee or a region."""

    def __init__(self, exporter: Exporter, root: torch.nn.Module, prefix: str) -> None:
        self.exporter, self.root, self.prefix = exporter, root, prefix
        self.graph = Graph()
        self.env = dict[SSAValue, Any]()
        self.copies = dict[SSAValue, Node]()
        self.placeholders = set[str]()
        self.constants = 0
        self.regions = dict[str, Region]()

    def ops(self, block: Block) -> None:
        for op in block.ops:
            try:
                self.op(op)
            except FxcError as error:
                error.op = error.op or op_text(op)
                raise

    def create(self, kind: str, target: Any, args: Any, kwargs: Any, name: str | None, location: Attribute | None) -> Node:
        name = name if location is None else node_name(location) or name
        node = self.graph.create_node(kind, target, tuple(args), dict(kwargs), name=name)
        if kind == "placeholder":
            if target in self.placeholders or iskeyword(target):  # as no parameters of a function may be named
                node.target = node.name
            self.placeholders.add(str(node.target))
            if node.name != node.target:
                self._make_way(node)
        if location is not None:
            node.meta.update(node_meta(location))
            if (annotation := note(location, "type")) is not None:
                node.type = annotation_of(annotation)
            if note(location, "wrapped") is not None:
                node.meta["is_wrapped"] = True
        return node

    def _make_way(self, placeholder: Node) -> None:
        """Rename an earlier node that has the name of the parameter, as the code of FX would assign to the parameter.

        FX calls the node of a parameter ``sum`` ``sum_1``, since ``sum`` is a builtin.
        """
        for node in self.graph.nodes:
            if node is not placeholder and node.name == placeholder.target:
                while node.name in self.placeholders:
                    node._rename(f"{node.name}_1")

    def python(self, tree: Tree) -> Any:
        return python_of(tree, self.leaf)

    def leaf(self, leaf: SSAValue | Attribute) -> Any:
        if isinstance(leaf, SSAValue):
            return self.env[leaf]
        if isinstance(leaf, FunctionAttr):
            return resolve_function(leaf.target.data, self.exporter.program.live)
        return value_of(leaf)

    def leaves_of(self, op: Operation) -> Callable[[SSAValue | Attribute], Any]:
        """The map from leaves of ``op`` to nodes. A value that is written back at the end is cloned if autograd may save it."""
        if not self.exporter.written or not any(map(requires_grad, op.results)):
            return self.leaf
        viewed = {source for _, source in aliases(op)}

        def given(leaf: SSAValue | Attribute) -> Any:
            return self.saved(leaf) if isinstance(leaf, SSAValue) and leaf not in viewed else self.leaf(leaf)

        return given

    def op(self, op: Operation) -> None:
        match op:
            case TorchOp():
                args, kwargs = op.trees()
                target, given = resolve_operator(op.operator), self.leaves_of(op)
                keywords = {name: python_of(tree, given) for name, tree in kwargs.items()}
                self.call(op, "call_function", target, python_of(args, given), keywords, op.is_packed)
            case OperatorCall():
                operator, args = op.operator_call()
                self.call(op, "call_function", resolve_operator(operator), self.python(args), {}, packed=False)
            case HigherOrderOp():
                self.higher_order(op)
            case CallFunctionOp() | CallMethodOp() | CallModuleOp() | GetAttrOp():
                self.fx_call(op)
            case ConstantOp():
                self.env[op.result] = self.constant(op)
            case SubgraphOp(gradient=GradientAttr() as gradient):
                self.differentiable(op, gradient)
            case ZeroOp():
                self.env[op.result] = None
            case GroupOp():
                self.ops(op.body.block)
                self.env.update((new, self.env[old]) for new, old in zip(op.results, op.yielded(), strict=True))
            case GroupYieldOp():
                pass
            case LaunchOp():
                self.launch(op)
            case _ if type(op) in PLAN_NODES:
                PLAN_NODES[type(op)](self, op)
            case func.CallOp() if is_once(op) and self.has_state(op.operands):
                self.frozen(op)
            case func.CallOp() | SubgraphOp():
                self.function_call(op)
            case OutputOp():
                args, _ = op.trees()
                self.create("output", "output", self.python(args), {}, "output", op.location)
            case func.ReturnOp():
                values = tuple(self.env[value] for value in op.operands)
                self.create("output", "output", (values[0] if len(values) == 1 else values,), {}, "output", op.location)
            case _:
                gradients = op.name.startswith(("autodiff.", "scf."))
                raise InputError(
                    f"{op.name} has no meaning as an FX node",
                    hint="run lower-grad-of and specialize-autograd-zero, with arguments marked autodiff.defined or undefined"
                    if gradients
                    else "lower it first, or export before this level",
                )

    def call(
        self, op: Operation, kind: str, target: Any, args: Any, kwargs: Any, packed: bool, name: str | None = None
    ) -> None:
        """The node of ``op``; several results, or the elements of a list, become ``getitem`` nodes."""
        results = list(op.results)
        name = name or (results[0]._name if len(results) == 1 else None)
        node = self.create(kind, target, args, kwargs, name, op.location)
        if packed or (len(results) == 1 and not returns_sequence(op)):
            for result in results:
                self.env[result] = self.with_value(node, result.type)
            return
        self.with_value(node, tuple_type([result.type for result in results]))
        for i, result in enumerate(results):
            if result.uses:
                element = self.create("call_function", operator.getitem, (node, i), {}, result._name, None)
                self.env[result] = self.with_value(element, result.type)

    def with_value(self, node: Node, type: Attribute) -> Node:
        """Set ``meta["val"]`` of ``node`` to a fake value of ``type``, for users. An unknown type has none."""
        if (world := self.exporter.world) is not None:
            with suppress(FxcError):
                node.meta["val"] = world.fake(type)
        return node

    def fx_call(self, op: CallFunctionOp | CallMethodOp | CallModuleOp | GetAttrOp) -> None:
        args, kwargs = op.trees()
        python, keywords = self.python(args), {name: self.python(tree) for name, tree in kwargs.items()}
        target: Any = op.call_target() or ""
        kind = op.name.removeprefix("fx.")
        if isinstance(op, CallFunctionOp):
            target = resolve_function(target, self.exporter.program.live)
            if target is getattr:
                check_attribute(python[1] if len(python) > 1 else None)
        elif isinstance(op, CallMethodOp):
            check_method(target)
        elif isinstance(op, CallModuleOp):
            target = set_module(self.root, target.removeprefix(self.prefix), self.exporter.submodule(target))
        else:
            declaration = self.exporter.tensors.get(target)
            kind_of = declaration.kind.data if declaration is not None else "constant"
            tensor = self.exporter.tensor(target)
            target = set_tensor(self.root, target.removeprefix(self.prefix), tensor, kind_of, True)
        self.call(op, kind, target, python, keywords, True)

    def higher_order(self, op: HigherOrderOp) -> None:
        nodes = dict[str, Node]()
        for name, region in zip(op.region_names(), op.regions, strict=True):
            target = self.region_target(name, region)
            nodes[name] = self.create("get_attr", target, (), {}, target, region_location(op.location, name))
        args, kwargs = op.trees()
        given = self.leaves_of(op)

        def leaf(value: SSAValue | Attribute) -> Any:
            return nodes[value.target.data] if isinstance(value, RegionAttr) else given(value)

        python = [python_of(tree, leaf) for tree in args]
        keywords = {name: python_of(tree, leaf) for name, tree in kwargs.items()}
        target = resolve_higher_order(op.operator.removeprefix("higher_order."))
        types = op.result_types
        packed = len(types) == 1 and (isinstance(types[0], (TupleType, NoneValueType, ValueType)) or not op.regions)
        self.call(op, "call_function", target, python, keywords, packed)

    def region_target(self, name: str, region: Region) -> str:
        """The path of a region's submodule: the region's name, or a new name if that is taken. Equal regions share one."""
        target, i = name, 0
        while hasattr(self.root, target) or iskeyword(target):
            known = self.regions.get(target)
            if known is not None and known.is_structurally_equivalent(region):
                return target
            i += 1
            target = f"{name}_{i}"
        self.regions[target] = region
        set_module(self.root, target, self.region(region.block, name))
        return target

    def region(self, block: Block, name: str) -> GraphModule:
        body = _Body(self.exporter, torch.nn.Module(), f"{self.prefix}{name}.")
        for value in block.args:
            node = body.create("placeholder", value._name or "arg", (), {}, value._name, value.location)
            body.env[value] = body.with_value(node, value.type)
        body.ops(block)
        return GraphModule(body.root, body.graph)

    def function_call(self, op: func.CallOp | SubgraphOp) -> None:
        name = op.callee.root_reference.data
        callee = self.exporter.functions.get(name)
        if callee is None or callee.is_declaration:
            raise InputError(f"@{name} is called, but has no body", hint="define the function or inline it away")
        target = self.region_target(name, callee.body)
        single = len(callee.function_type.outputs) == 1  # a subgraph may return more than the op has results
        operands = [self.saved(v) if isinstance(op, SubgraphOp) else self.env[v] for v in op.operands]
        self.call(op, "call_module", target, operands, {}, single)

    def has_state(self, values: Sequence[SSAValue]) -> bool:
        """Whether ``values`` are attributes. In a lifted graph they are placeholders."""
        return all(self.env[value].op == "get_attr" for value in values)

    def frozen(self, op: func.CallOp) -> None:
        """Register the results as attributes, and erase the operands of which this is the last reader."""
        for value, made in zip(op.results, frozen_results(self.exporter.program, op), strict=True):
            self.env[value] = self.attribute(made, value)
        for value in dict.fromkeys(op.operands):
            readers = [use.operation for use in value.uses]
            if reads_once(value) and all(result in self.env for reader in readers for result in reader.results):
                self.graph.erase_node(self.env.pop(value))

    def saved(self, value: SSAValue) -> Any:
        """The node of ``value`` that autograd may save: a clone if the final write-back would change ``value``."""
        node = self.env[value]
        if not _shares_memory(value, self.exporter.written):
            return node
        if value not in self.copies:
            made = copy_of(value)
            for op in made:
                args, kwargs = op.trees()
                keywords = {name: self.python(tree) for name, tree in kwargs.items()}
                node = self.graph.call_function(resolve_operator(op.operator), tuple(self.python(args)), keywords)
                self.env[op.results[0]] = node
            for op in reversed(made):
                del self.env[op.results[0]]
                op.erase()
            self.copies[value] = node
        return self.copies[value]

    def differentiable(self, op: SubgraphOp, gradient: GradientAttr) -> None:
        """Add a call of a module that runs f, and df if gradients are required."""
        f, df = op.function(), self.exporter.functions.get(gradient.df.root_reference.data)
        if f is None or df is None or f.is_declaration or df.is_declaration:
            raise InputError(f"{op.callee} or {gradient.df} has no body", hint="define the functions, or run differentiate")
        name = f"{f.sym_name.data}_with_{df.sym_name.data}"
        if not hasattr(self.root, name):
            if self.exporter.subgraphs is None:
                raise InputError(f"{op.name} has no meaning in a host program", hint="export the program as a graph")
            made = self.exporter.subgraphs(f, df, gradient, lambda: self.region(f.body.block, name))
            set_module(self.root, name, made)
        operands = [self.env[value] for value in op.operands]
        for i in _saved(f, gradient):
            operands[i] = self.saved(op.operands[i])
        self.call(op, "call_module", name, operands, {}, False, f.sym_name.data)

    def launch(self, op: LaunchOp) -> None:
        """Add a call of a module that runs the kernel with the best available backend."""
        name = base = op.callee.root_reference.data
        i = 0
        while hasattr(self.root, name):
            name, i = f"{base}_{i}", i + 1
        set_module(self.root, name, KernelLaunch(op, target_of(self.exporter.program.module)))
        self.call(op, "call_module", name, [self.env[value] for value in op.operands], {}, False, base)

    def constant(self, op: ConstantOp) -> Any:
        try:
            value = run_time_constant(op)
        except InputError:  # the graph can be read without its device, and its module moved to one
            value = constant_value(op)
        return self.attribute(value, op.result) if isinstance(value, torch.Tensor) else value

    def attribute(self, tensor: torch.Tensor, value: SSAValue) -> Node:
        """Register ``tensor`` as a buffer of the module and return the node of ``value``, which reads it."""
        while hasattr(self.root, f"_tensor_constant{self.constants}"):
            self.constants += 1
        name = f"_tensor_constant{self.constants}"
        self.root.register_buffer(name, tensor, persistent=False)
        return self.create(
            "get_attr", name, (), {}, value._name or name, value.owner.location if isinstance(value.owner, Operation) else None
        )


def _constant(leaf: SSAValue | Attribute) -> Any:
    assert isinstance(leaf, Attribute)
    return value_of(leaf)


def returns_sequence(op: Operation) -> bool:
    """Whether PyTorch returns a tuple or list although ``op`` has one unpacked result."""
    if isinstance(op, TorchOp):
        returns = op.SCHEMA.returns
        return len(returns) > 1 or (len(returns) == 1 and "[]" in returns[0].type)
    return isinstance(op, (HigherOrderOp, SubgraphOp, LaunchOp))


def _saved(f: func.FuncOp, gradient: GradientAttr) -> list[int]:
    """The inputs of ``f`` that are saved for its derivative, directly or through views."""
    terminator = f.body.block.last_op
    assert terminator is not None
    kept = [terminator.operands[i] for i in gradient.indices("captured_outputs")]
    captured = gradient.indices("captured_inputs")
    return [i for i, arg in enumerate(f.body.block.args) if i in captured or any(_shares_memory(v, {arg}) for v in kept)]


def _shares_memory(value: SSAValue, written: set[BlockArgument]) -> bool:
    """Whether ``value`` may be one of ``written`` or a view of one."""
    if not written or value in written:
        return bool(written)
    if not isinstance(value, OpResult):
        return False
    return any(_shares_memory(source, written) for i, source in aliases(value.op) if i == value.index)


def _dictionaries(attributes: Any, count: int) -> list[DictionaryAttr]:
    return list(attributes) if attributes is not None else [DictionaryAttr({})] * count
