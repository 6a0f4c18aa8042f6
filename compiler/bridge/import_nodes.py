"""FX nodes to operations: a visitor that preserves every argument, name, stack trace and tensor without interpretation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node
from xdsl.dialects.builtin import NameLoc, StringAttr, UnitAttr
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from fxc.bridge.callables import function_name, is_allowed
from fxc.bridge.instances import annotation_text
from fxc.bridge.location import ModuleStack, node_location, with_regions
from fxc.bridge.modules import declare_module, modules_of
from fxc.bridge.operators import flags_of, is_overload, operator_name, schema_text
from fxc.bridge.tensors import type_of
from fxc.bridge.values import attribute_of, is_sequence, literal_of, tree_of
from fxc.dialects.attributes.types import NONE_TYPE, VALUE, tuple_type
from fxc.dialects.attributes.values import RegionAttr, Tree, region_names
from fxc.dialects.fx import CallFunctionOp, CallMethodOp, CallModuleOp, GetAttrOp, OutputOp, PositionalCall, TensorDeclOp
from fxc.dialects.torch_ops import OperatorDeclOp, TorchOp, make_op_class, op_class, table
from fxc.dialects.torch_ops.constant import ConstantOp
from fxc.errors import CaptureError, FxcError

_BRANCHES_AND_LOOPS = (torch.ops.higher_order.cond, torch.ops.higher_order.while_loop)


class GraphImporter:
    """Imports graphs, and collects the declarations of the module.

    ``operators``, ``modules``, ``tensors``: declarations by name. ``state``: tensors by name. ``live``: modules and functions
    without a name that a file can use. ``symbolic``: fake values whose symbols the module must declare. ``types`` returns the
    type of a fake value. With ``constants_inline``, and in nested graphs, tensors that a graph reads become
    ``torch.constant``.
    """

    def __init__(self, types: Callable[[Any], Attribute] = type_of, constants_inline: bool = False) -> None:
        self.type_of, self.constants_inline = types, constants_inline
        self.operators = dict[str, OperatorDeclOp]()
        self.modules = dict[str, Operation]()
        self.tensors = dict[str, TensorDeclOp]()
        self.state = dict[str, torch.Tensor]()
        self.live = dict[str, Any]()
        self.symbolic = list[Any]()
        self.absent = set[str]()
        self.region_places = dict[str, Attribute]()
        self.operator_classes = dict[torch._ops.OpOverload, type[TorchOp]]()

    def block(self, owner: torch.nn.Module, nodes: Sequence[Node], prefix: str, args: Sequence[Any] | None) -> Block:
        """Import a graph as a block: placeholders as arguments, ``fx.output`` at the end."""
        placeholders = [node for node in nodes if node.op == "placeholder"]
        values = [self.node_value(node) for node in placeholders]
        if args is not None:
            values = [arg if value is None else value for value, arg in zip(values, args, strict=True)]
            self.absent.update(node.name for node, value in zip(placeholders, values, strict=True) if value is None)
        block = Block(arg_types=[self.type(node, value) for node, value in zip(placeholders, values, strict=True)])
        env = dict[Node, SSAValue | Attribute]()
        for node, arg in zip(placeholders, block.args, strict=True):
            arg._name = node.name
            arg.location = self.location(node)
            env[node] = arg
        for node in nodes:
            if node.op == "placeholder":
                continue
            try:
                if (op := self.node(owner, node, env, prefix)) is not None:
                    block.add_op(op)
            except FxcError as error:
                raise _placed(error, node) from error
        return block

    # nodes

    def node(self, owner: torch.nn.Module, node: Node, env: dict[Node, SSAValue | Attribute], prefix: str) -> Operation | None:
        """Import ``node``; return None for a submodule, which only higher-order operators read."""
        if node.op == "get_attr":
            value = _attribute(owner, str(node.target))
            if isinstance(value, GraphModule):
                env[node] = RegionAttr(StringAttr(str(node.target)))
                self.region_places[str(node.target)] = self.location(node)
                return None

        def leaf(value: Any) -> SSAValue | Attribute:
            return env[value] if isinstance(value, Node) else attribute_of(value)

        args = [tree_of(arg, leaf) for arg in node.args]
        kwargs = {name: tree_of(arg, leaf) for name, arg in node.kwargs.items()}
        if node.op == "output":
            return OutputOp.build_call(args, {}, [], location=self.location(node))
        op = self.call(owner, node, args, kwargs, prefix)
        if op.results:
            op.results[0]._name = node.name
            env[node] = op.results[0]
        return op

    def call(self, owner: torch.nn.Module, node: Node, args: list[Tree], kwargs: dict[str, Tree], prefix: str) -> Operation:
        more: dict[str, Any] = {"location": self.location(node)}
        value = self.node_value(node)
        results = [self.type(node, value)]
        target: Any = node.target
        if node.op == "call_function":
            if is_overload(target):
                if not target._schema.returns and not node.users:
                    results = []
                elif not target._schema.returns:
                    results = [NONE_TYPE]
                if target not in self.operator_classes:
                    self.operator_classes[target] = self._find_operator_class(target)
                return self.operator_classes[target].build_call(args, kwargs, results, **more)
            if isinstance(target, torch._ops.HigherOrderOperator):
                names = region_names([*args, *kwargs.values()])
                more["location"] = with_regions(more["location"], {name: self.region_places[name] for name in names})
                regions = [self.region(owner, name, prefix) for name in names]
                cls = op_class(f"torch.higher_order.{target.name()}")
                assert cls is not None and issubclass(cls, PositionalCall)
                if results == [VALUE] and target in _BRANCHES_AND_LOOPS:
                    results = [_packed(regions[-1])]
                return cls.build_call(args, kwargs, results, regions=regions, **more)
            name = function_name(target)
            if not is_allowed(target) and not name.startswith("torch.ops."):
                self.live[name] = target
            return CallFunctionOp.build_call(args, kwargs, results, target=name, **more)
        if node.op == "call_method":
            return CallMethodOp.build_call(args, kwargs, results, target=target, **more)
        if node.op == "call_module":
            self.declare_submodule(owner, target, prefix)
            return CallModuleOp.build_call(args, kwargs, results, target=prefix + target, **more)
        assert node.op == "get_attr", node.op
        tensor = _attribute(owner, target)
        if not isinstance(tensor, torch.Tensor):
            message = f"the graph reads {target!r}, which is not a tensor but a {type(tensor).__name__}"
            raise CaptureError(message, hint="read it with get_attr only where it is a tensor; else pass it as an argument")
        if self.constants_inline or (prefix and not tensor.requires_grad):
            return ConstantOp.create(
                properties={"value": literal_of(tensor)}, result_types=[self.type_of(tensor)], location=more["location"]
            )
        self.declare_tensor(prefix + target, tensor, "constant")
        return GetAttrOp.build_call(
            args, kwargs, [self.type_of(tensor) if value is None else results[0]], target=prefix + target, **more
        )

    def _find_operator_class(self, target: torch._ops.OpOverload) -> type[TorchOp]:
        """Return the operation class; operators that are missing in the table, or differ, are declared in the module."""
        name, signature = operator_name(target), schema_text(target._schema)
        if table().get(name, ("", ""))[1] == signature:
            cls = op_class(f"torch.{name}")
            assert cls is not None and issubclass(cls, TorchOp)
            return cls
        flags = flags_of(target)
        self.operators[name] = OperatorDeclOp.create(
            properties={"sym": StringAttr(name), "signature": StringAttr(signature), "flags": StringAttr(flags)}
        )
        return make_op_class(name, flags, signature)

    def region(self, owner: torch.nn.Module, name: str, prefix: str) -> Region:
        module = _attribute(owner, name)
        assert isinstance(module, GraphModule)
        return Region(self.block(module, list(module.graph.nodes), f"{prefix}{name}.", None))

    def declare_submodule(self, owner: torch.nn.Module, target: str, prefix: str) -> None:
        root = _attribute(owner, target)
        if not isinstance(root, torch.nn.Module):
            message = f"the graph calls {target!r}, which is not a module but a {type(root).__name__}"
            raise CaptureError(message, hint="call it with call_function, or add a module by add_submodule")
        for inner, module in modules_of(root):
            path = f"{prefix}{target}.{inner}".rstrip(".")
            if path not in self.modules:
                self.modules[path] = declare_module(path, module)
                self.live[path] = module

    def declare_tensor(self, name: str, tensor: torch.Tensor, kind: str, persistent: bool = True) -> None:
        if name in self.tensors:
            return
        properties: dict[str, Attribute] = {"sym": StringAttr(name), "type": self.type_of(tensor), "kind": StringAttr(kind)}
        if tensor.requires_grad:
            properties["requires_grad"] = UnitAttr()
        if not persistent:
            properties["non_persistent"] = UnitAttr()
        self.tensors[name] = TensorDeclOp.create(properties=properties)
        self.state[name] = tensor

    # properties of a node

    def node_value(self, node: Node) -> Any:
        value = node.meta.get("val")
        return node.meta.get("example_value") if value is None else value

    def type(self, node: Node, value: Any) -> Attribute:
        if value is None:
            known = node.meta.get("val", self) is None and node.op != "placeholder"
            return NONE_TYPE if known or node.name in self.absent else VALUE
        self.symbolic.extend(value if is_sequence(value) else [value])
        return self.type_of(value)

    def location(self, node: Node) -> NameLoc:
        modules: dict[Any, tuple[Any, Any]] = node.meta.get("nn_module_stack") or {}
        stack: ModuleStack = tuple(
            (str(key), str(path), cls if isinstance(cls, str) else f"{cls.__module__}.{cls.__qualname__}")
            for key, (path, cls) in modules.items()
        )
        notes = {"type": annotation_text(node.type), "wrapped": "" if node.meta.get("is_wrapped") else None}
        known = tuple([(key, text) for key, text in notes.items() if text is not None])
        return node_location(node.name, node.meta.get("stack_trace"), stack, known)


def _packed(body: Region) -> Attribute:
    """The type of a call that returns what ``body`` does, of which only the number may be known."""
    output = body.block.last_op
    outputs = output.trees()[0][0] if isinstance(output, OutputOp) else None
    return tuple_type([VALUE] * len(outputs)) if is_sequence(outputs) else VALUE


def _attribute(owner: Any, path: str) -> Any:
    for part in path.split("."):
        if not hasattr(owner, part):
            message = f"the graph names {path!r}, which its module does not have"
            raise CaptureError(message, hint="add it to the GraphModule, or erase the node; graph.lint() finds such nodes")
        owner = getattr(owner, part)
    return owner


def _placed(error: FxcError, node: Node) -> FxcError:
    """Add the node and the user's source line to ``error``, unless present."""
    if error.place is None:
        trace = (node.meta.get("stack_trace") or "").strip().splitlines()
        error.place = " ".join(line.strip() for line in trace[-2:]) or f"node {node.name}"
    error.op = error.op or node.format_node()
    return error
