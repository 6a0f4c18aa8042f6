"""FX graphs to IR, node for node: every argument, name, stack trace, parameter and buffer, nothing interpreted.

``import_fx`` takes a GraphModule of any origin (symbolic_trace, Dynamo, make_fx, AOTAutograd) or an ExportedProgram.
``compiler/backends/fx.py`` is the way back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import Graph, GraphModule, Node
from torch.utils._pytree import treespec_dumps
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, FunctionType, ModuleOp, StringAttr, UnitAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from fxc.context import new_context
from fxc.dialects.fx import CallFunctionOp, CallMethodOp, CallModuleOp, GetAttrOp, OutputOp, PositionalCall, TensorDeclOp
from fxc.dialects.torch_ops import OperatorDeclOp, TorchOp, make_op_class, op_class, table
from fxc.dialects.types import NONE_TYPE, VALUE
from fxc.dialects.values import RegionAttr, Tree, encode, int_attr, region_names, str_attr
from fxc.errors import CaptureError, FxcError
from fxc.frontends.modules import declare_module
from fxc.location import ModuleStack, node_location, with_regions
from fxc.program import Program
from fxc.semantics.operators import flags_of, operator_name, schema_text
from fxc.semantics.targets import function_name, is_allowed
from fxc.semantics.tensors import SYMBOLS, symbols_of, type_of
from fxc.semantics.values import attribute_of, tree_of

_KINDS = {"USER_INPUT": "input", "PARAMETER": "parameter", "BUFFER": "buffer", "CONSTANT_TENSOR": "constant"}


def import_fx(source: GraphModule | ExportedProgram, args: Sequence[Any] | None = None) -> Program:
    """The program of an FX graph, losslessly.

    ``args``: example inputs, one a placeholder, that give the types of placeholders whose nodes do not say them (a graph of
    ``symbolic_trace``). Raises CaptureError, with the node and the user's line, for what the IR cannot hold.
    """
    importer = _Importer(args)
    if isinstance(source, ExportedProgram):
        return importer.exported(source)
    if isinstance(source, GraphModule):
        return importer.graph_module(source)
    raise CaptureError(
        f"import_fx takes a torch.fx.GraphModule or a torch.export.ExportedProgram, not a {type(source).__name__}",
        hint="fxc.capture(model, args) captures a module or function first",
    )


class _Importer:
    """One import: the declarations, state and live objects that it collects."""

    def __init__(self, args: Sequence[Any] | None) -> None:
        self.args = None if args is None else list(args)
        self.context = new_context()
        self.operators = dict[str, OperatorDeclOp]()
        self.modules = dict[str, Operation]()
        self.tensors = dict[str, TensorDeclOp]()
        self.state = dict[str, torch.Tensor]()
        self.live = dict[str, Any]()
        self.symbolic = list[Any]()
        self.region_places = dict[str, Attribute]()

    # entry points

    def graph_module(self, module: GraphModule) -> Program:
        for name, parameter in module.named_parameters(remove_duplicate=False):
            self.declare_tensor(name, parameter, "parameter")
        persistent = module.state_dict(keep_vars=True).keys()
        for name, buffer in module.named_buffers(remove_duplicate=False):
            self.declare_tensor(name, buffer, "buffer", persistent=name in persistent)
        function = self.function(module, module.graph)
        return self.program(function)

    def exported(self, program: ExportedProgram) -> Program:
        signature = program.graph_signature
        specs = {spec.arg.name: spec for spec in signature.input_specs if hasattr(spec.arg, "name")}
        function = self.function(program.graph_module, program.graph, specs)
        for spec in signature.input_specs:
            if _KINDS.get(spec.kind.name, "input") != "input" and spec.target is not None:
                value = program.state_dict.get(spec.target)
                value = program.constants.get(spec.target) if value is None else value
                if not isinstance(value, torch.Tensor):
                    raise CaptureError(
                        f"the exported program holds {spec.target!r}, which is no tensor but a {type(value).__name__}"
                    )
                self.state[spec.target] = value
        self.mark_mutations(function, program)
        spec_in, spec_out = program.call_spec.in_spec, program.call_spec.out_spec
        if spec_in is not None and spec_out is not None:
            function.attributes["fx.in_spec"] = str_attr(treespec_dumps(spec_in))
            function.attributes["fx.out_spec"] = str_attr(treespec_dumps(spec_out))
        return self.program(function, program.range_constraints)

    def program(self, function: FuncOp, ranges: Mapping[Any, Any] | None = None) -> Program:
        ops = [*self.operators.values(), *self.modules.values(), *self.tensors.values(), function]
        module = ModuleOp(ops)
        symbols = symbols_of(self.symbolic)
        for symbol, bounds in (ranges or {}).items():
            facts = symbols.get(str(symbol))
            if isinstance(facts, DictionaryAttr):
                limits = {"min": bounds.lower, "max": bounds.upper}
                known = {key: int_attr(int(b)) for key, b in limits.items() if b.is_Integer and abs(int(b)) < 2**31}
                symbols[str(symbol)] = DictionaryAttr({**facts.data, **known})
        if symbols:
            module.attributes[SYMBOLS] = DictionaryAttr(symbols)
        return Program(module, self.state, self.live, self.context)

    # functions and regions

    def function(self, owner: GraphModule, graph: Graph, specs: Mapping[str, Any] | None = None) -> FuncOp:
        nodes = list(graph.nodes)
        placeholders = [node for node in nodes if node.op == "placeholder"]
        if self.args is not None and len(self.args) != len(placeholders):
            raise CaptureError(f"the graph takes {len(placeholders)} inputs, but {len(self.args)} example inputs were given")
        block = self.block(owner, nodes, "", self.args)
        attributes = [self.argument_attributes(node, (specs or {}).get(node.name)) for node in placeholders]
        terminator = block.last_op
        assert terminator is not None
        type = FunctionType.from_lists([arg.type for arg in block.args], terminator.operand_types)
        return FuncOp("main", type, Region(block), arg_attrs=ArrayAttr(attributes))

    def argument_attributes(self, node: Node, spec: Any) -> DictionaryAttr:
        attributes: dict[str, Attribute] = {"fx.kind": str_attr("input"), "fx.name": str_attr(str(node.target))}
        if spec is not None:
            kind = _KINDS.get(spec.kind.name)
            if kind is None:
                raise CaptureError(f"placeholder {node.name} is a {spec.kind.name.lower()}, which fxc cannot represent")
            attributes["fx.kind"] = str_attr(kind)
            if spec.target is not None:
                attributes["fx.name"] = str_attr(spec.target)
            if spec.persistent is False:
                attributes["fx.non_persistent"] = UnitAttr()
        if node.args:
            attributes["fx.default"] = encode(tree_of(node.args[0], attribute_of), [])
        return DictionaryAttr(attributes)

    def mark_mutations(self, function: FuncOp, program: ExportedProgram) -> None:
        """Records on each result that is the new value of an argument which argument that is: ``fx.mutates``."""
        nodes = [node for node in program.graph.nodes if node.op == "placeholder"]
        index = {node.name: i for i, node in enumerate(nodes)}
        by_target = {spec.target: spec.arg.name for spec in program.graph_signature.input_specs if spec.target is not None}
        attributes = [DictionaryAttr({})] * len(function.function_type.outputs.data)
        leaf, any_mutation = 0, False
        for spec in program.graph_signature.output_specs:
            if spec.kind.name in ("BUFFER_MUTATION", "PARAMETER_MUTATION", "USER_INPUT_MUTATION"):
                name = spec.target if spec.kind.name == "USER_INPUT_MUTATION" else by_target[spec.target]
                attributes[leaf] = DictionaryAttr({"fx.mutates": int_attr(index[name])})  # type: ignore[index]
                any_mutation = True
            leaf += type(spec.arg).__name__ != "ConstantArgument"
        if any_mutation:
            function.properties["res_attrs"] = ArrayAttr(attributes)

    def block(self, owner: GraphModule, nodes: Sequence[Node], prefix: str, args: Sequence[Any] | None) -> Block:
        """The block of a graph: placeholders as arguments, ``fx.output`` at the end."""
        placeholders = [node for node in nodes if node.op == "placeholder"]
        values = [self.node_value(node) for node in placeholders]
        if args is not None:
            values = [arg if value is None else value for value, arg in zip(values, args, strict=True)]
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

    def node(self, owner: GraphModule, node: Node, env: dict[Node, SSAValue | Attribute], prefix: str) -> Operation | None:
        """The op of ``node``, or None for a submodule that only a higher-order operator reads."""
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

    def call(self, owner: GraphModule, node: Node, args: list[Tree], kwargs: dict[str, Tree], prefix: str) -> Operation:
        more: dict[str, Any] = {"location": self.location(node)}
        value = self.node_value(node)
        results = [self.type(node, value)]
        target: Any = node.target
        if node.op == "call_function":
            if isinstance(target, torch._ops.OpOverload):
                if not target._schema.returns and not node.users:
                    results = []
                elif not target._schema.returns:
                    results = [NONE_TYPE]
                return self.operator_class(target).build_call(args, kwargs, results, **more)
            if isinstance(target, torch._ops.HigherOrderOperator):
                names = region_names([*args, *kwargs.values()])
                more["location"] = with_regions(more["location"], {name: self.region_places[name] for name in names})
                regions = [self.region(owner, name, prefix) for name in names]
                cls = op_class(f"torch.higher_order.{target.name()}")
                assert cls is not None and issubclass(cls, PositionalCall)
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
            raise CaptureError(f"the graph reads {target!r}, which is no tensor but a {type(tensor).__name__}")
        self.declare_tensor(prefix + target, tensor, "constant")
        return GetAttrOp.build_call(
            args, kwargs, [type_of(tensor) if value is None else results[0]], target=prefix + target, **more
        )

    def operator_class(self, target: torch._ops.OpOverload) -> type[TorchOp]:
        """The op class of an operator; what the table lacks or has otherwise is declared in the module."""
        name, row = operator_name(target), (flags_of(target), schema_text(target._schema))
        if table().get(name, ("", ""))[1] == row[1]:
            cls = op_class(f"torch.{name}")
            assert cls is not None and issubclass(cls, TorchOp)
            return cls
        self.operators[name] = OperatorDeclOp.create(
            properties={"sym": StringAttr(name), "signature": StringAttr(row[1]), "flags": StringAttr(row[0])}
        )
        cls = make_op_class(name, *row)
        self.context._loaded_ops[cls.name] = cls
        return cls

    def region(self, owner: GraphModule, name: str, prefix: str) -> Region:
        module = _attribute(owner, name)
        assert isinstance(module, GraphModule)
        return Region(self.block(module, list(module.graph.nodes), f"{prefix}{name}.", None))

    def declare_submodule(self, owner: GraphModule, target: str, prefix: str) -> None:
        root = _attribute(owner, target)
        if not isinstance(root, torch.nn.Module):
            raise CaptureError(f"the graph calls {target!r}, which is no module but a {type(root).__name__}")
        for inner, module in root.named_modules():
            path = f"{prefix}{target}.{inner}".rstrip(".")
            if path not in self.modules:
                self.modules[path] = declare_module(path, module)
                self.live[path] = module

    def declare_tensor(self, name: str, tensor: torch.Tensor, kind: str, persistent: bool = True) -> None:
        if name in self.tensors:
            return
        properties: dict[str, Attribute] = {"sym": StringAttr(name), "type": type_of(tensor), "kind": StringAttr(kind)}
        if tensor.requires_grad:
            properties["requires_grad"] = UnitAttr()
        if not persistent:
            properties["non_persistent"] = UnitAttr()
        self.tensors[name] = TensorDeclOp.create(properties=properties)
        self.state[name] = tensor

    # facts of a node

    def node_value(self, node: Node) -> Any:
        value = node.meta.get("val")
        return node.meta.get("example_value") if value is None else value

    def type(self, node: Node, value: Any) -> Attribute:
        if value is None:
            return NONE_TYPE if "val" in node.meta and node.op != "placeholder" else VALUE
        self.symbolic.extend(value if isinstance(value, (tuple, list)) else [value])
        return type_of(value)

    def location(self, node: Node) -> Attribute:
        stack: ModuleStack = tuple(
            (str(key), str(path), cls if isinstance(cls, str) else f"{cls.__module__}.{cls.__qualname__}")
            for key, (path, cls) in (node.meta.get("nn_module_stack") or {}).items()
        )
        return node_location(node.name, node.meta.get("stack_trace"), stack)


def _attribute(owner: Any, path: str) -> Any:
    for part in path.split("."):
        if not hasattr(owner, part):
            raise CaptureError(f"the graph names {path!r}, which its module does not have")
        owner = getattr(owner, part)
    return owner


def _placed(error: FxcError, node: Node) -> FxcError:
    """``error`` with the node and the user's line, where it does not have them yet."""
    if error.place is None:
        trace = (node.meta.get("stack_trace") or "").strip().splitlines()
        error.place = " ".join(line.strip() for line in trace[-2:]) or f"node {node.name}"
    error.op = error.op or node.format_node()
    return error
