"""Import FX graphs to IR without loss: ``import_fx`` takes a GraphModule of any origin or an ExportedProgram.

``compiler/export/fx.py`` does the reverse.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, InputSpec
from torch.fx import Graph, GraphModule, Node
from torch.fx.graph import _PyTreeCodeGen
from torch.utils._pytree import tree_structure, tree_unflatten
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, FunctionType, ModuleOp, UnitAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Region

from fxc.bridge.expressions import symbol_name
from fxc.bridge.import_nodes import GraphImporter
from fxc.bridge.nesting import INPUTS, NAMES, OUTPUTS, has_keywords, nesting_attr
from fxc.bridge.tensors import symbols_of
from fxc.bridge.values import attribute_of, tree_of
from fxc.dialects.attributes.types import CONDITIONS, SYMBOLS
from fxc.dialects.attributes.values import encode, int_attr, str_attr
from fxc.dialects.torch_ops import make_op_class
from fxc.errors import TORCH_COMPILE, CaptureError
from fxc.program.program import Program, is_frozen, new_context
from fxc.runtime.guards import PLAIN
from fxc.runtime.shared_memory import elements_of
from fxc.semantics.assumptions import conditions_on, ranges_of

if TYPE_CHECKING:
    from fxc.frontends.non_strict_trace import Traced

_KINDS = {"USER_INPUT": "input", "PARAMETER": "parameter", "BUFFER": "buffer", "CONSTANT_TENSOR": "constant"}


def import_fx(source: GraphModule | ExportedProgram, args: Sequence[Any] | None = None) -> Program:
    """The program of the FX graph ``source``, without loss.

    ``args``: example inputs, one for each placeholder, for the types of placeholders whose nodes have none (a graph of
    ``symbolic_trace``). Raises CaptureError, with the node and the user's source line, for nodes that the IR cannot represent,
    and for another ``source``.
    """
    importer = _ModuleImporter(args)
    if isinstance(source, ExportedProgram):
        return importer.exported(source)
    if isinstance(source, GraphModule):  # pyright: ignore[reportUnnecessaryIsInstance]
        return importer.graph_module(source)
    raise CaptureError(
        f"import_fx takes a torch.fx.GraphModule or a torch.export.ExportedProgram, not a {type(source).__name__}",
        hint="fxc.capture(model, args) captures a module or function first",
    )


def import_traced(trace: Traced) -> Program:
    """The program of a plain trace, equal to that of the ExportedProgram."""
    return _ModuleImporter(None).traced(trace)


def merge_constants(exported: ExportedProgram) -> None:
    """Let one placeholder stand for each tensor that is not registered; torch.export makes one for each use of it."""
    nodes, known = {node.name: node for node in exported.graph.nodes if node.op == "placeholder"}, dict[Any, Any]()
    for spec in exported.graph_signature.input_specs:
        tensor = {**exported.constants, **exported.state_dict}.get(spec.target or "")
        if isinstance(tensor, torch.Tensor) and type(tensor) in PLAIN and tensor.layout is torch.strided and tensor.numel():
            first = known.setdefault(elements_of(tensor), nodes[spec.arg.name])
            if spec.kind is InputKind.CONSTANT_TENSOR and first is not nodes[spec.arg.name]:
                nodes[spec.arg.name].replace_all_uses_with(first)


class _ModuleImporter(GraphImporter):
    """Imports a whole module: the entry function, its signature, and the state that it names."""

    def __init__(self, args: Sequence[Any] | None) -> None:
        super().__init__()
        self.args = None if args is None else list(args)

    def graph_module(self, module: GraphModule) -> Program:
        for name, parameter in module.named_parameters(remove_duplicate=False):
            self.declare_tensor(name, parameter, "parameter")
        persistent = module.state_dict(keep_vars=True).keys()
        for name, buffer in module.named_buffers(remove_duplicate=False):
            self.declare_tensor(name, buffer, "buffer", persistent=name in persistent)
        function = self.function(module, module.graph)
        codegen = module.graph._codegen
        if isinstance(codegen, _PyTreeCodeGen) and (out_spec := codegen.pytree_info.out_spec) is not None:
            names, spec, _ = codegen.pytree_info
            if not has_keywords(spec):
                spec = tree_structure((tree_unflatten([0] * spec.num_leaves, spec), {}))
            if spec.num_leaves == len(function.function_type.inputs):
                function.attributes[INPUTS], function.attributes[OUTPUTS] = nesting_attr(spec), nesting_attr(out_spec)
                function.attributes[NAMES] = ArrayAttr(list(map(str_attr, names)))
        return self.program(function)

    def exported(self, program: ExportedProgram) -> Program:
        specs = self.inputs(program.graph_signature.input_specs, {**program.constants, **program.state_dict})
        function = self.function(program.graph_module, program.graph, specs)
        self.mark_mutations(function, program)
        spec_in, spec_out = program.call_spec.in_spec, program.call_spec.out_spec
        if spec_in is not None and spec_out is not None:
            function.attributes[INPUTS] = nesting_attr(spec_in)
            function.attributes[OUTPUTS] = nesting_attr(spec_out)
        return self.program(function, ranges_of(program))

    def traced(self, trace: Traced) -> Program:
        specs = self.inputs(trace.inputs, trace.tensors)
        function = self.function(torch.nn.Module(), trace.graph, specs)
        function.attributes[INPUTS] = nesting_attr(trace.in_spec)
        function.attributes[OUTPUTS] = nesting_attr(trace.out_spec)
        return self.program(function)

    def inputs(self, specs: Sequence[InputSpec], tensors: Mapping[str, Any]) -> dict[str, InputSpec]:
        """The specifications of placeholders by name; adds the state that they name to the module."""
        for spec in specs:
            if _KINDS.get(spec.kind.name, "input") != "input" and spec.target is not None:
                value = tensors.get(spec.target)
                if not isinstance(value, torch.Tensor):
                    raise CaptureError(
                        f"the exported program holds {spec.target!r}, which is not a tensor but a {type(value).__name__}",
                        hint=f"register it as a buffer before the export, or use {TORCH_COMPILE}",
                    )
                self.state[spec.target] = value
        return {spec.arg.name: spec for spec in specs if hasattr(spec.arg, "name")}

    def program(self, function: FuncOp, ranges: Mapping[Any, Any] | None = None) -> Program:
        ops = [*self.operators.values(), *self.modules.values(), *self.tensors.values(), function]
        module = ModuleOp(ops)
        symbols = symbols_of(self.symbolic)
        for symbol, bounds in (ranges or {}).items():
            facts = symbols.get(name := symbol_name(symbol))
            if isinstance(facts, DictionaryAttr):
                limits = {"min": bounds.lower, "max": bounds.upper}
                known = {key: int_attr(int(b)) for key, b in limits.items() if b.is_Integer and abs(int(b)) < 2**31}
                symbols[name] = DictionaryAttr({**facts.data, **known})
        if ranges is not None and (conditions := conditions_on(self.symbolic, ranges)):
            module.attributes[CONDITIONS] = ArrayAttr(list(map(str_attr, conditions)))
        if symbols:
            module.attributes[SYMBOLS] = DictionaryAttr(symbols)
        context = new_context(self.live)
        for declaration in self.operators.values():
            cls = make_op_class(declaration.sym.data, declaration.flags.data, declaration.signature.data)
            context._loaded_ops[cls.name] = cls
        return Program(module, self.state, self.live, context)

    def function(self, owner: torch.nn.Module, graph: Graph, specs: Mapping[str, Any] | None = None) -> FuncOp:
        nodes = list(graph.nodes)
        placeholders = [node for node in nodes if node.op == "placeholder"]
        if self.args is not None and len(self.args) != len(placeholders):
            message = f"the graph takes {len(placeholders)} inputs, but {len(self.args)} example inputs were given"
            raise CaptureError(message, hint="give one example input for each placeholder, in order")
        block = self.block(owner, nodes, "", self.args)
        attributes = [self.argument_attributes(node, (specs or {}).get(node.name)) for node in placeholders]
        terminator = block.last_op
        assert terminator is not None
        type = FunctionType.from_lists([arg.type for arg in block.args], terminator.operand_types)
        return FuncOp("main", type, Region(block), arg_attrs=ArrayAttr(attributes) if attributes else None)

    def argument_attributes(self, node: Node, spec: Any) -> DictionaryAttr:
        attributes: dict[str, Attribute] = {"fx.kind": str_attr("input"), "fx.name": str_attr(str(node.target))}
        if spec is not None:
            kind = _KINDS.get(spec.kind.name)
            if kind is None:
                message = f"placeholder {node.name} is a {spec.kind.name.lower()}, which fxc cannot represent"
                raise CaptureError(message, hint=f"use {TORCH_COMPILE}") from NotImplementedError(message)
            attributes["fx.kind"] = str_attr(kind)
            if spec.target is not None:
                attributes["fx.name"] = str_attr(spec.target)
                if is_frozen(self.state.get(spec.target)):
                    attributes["fx.frozen"] = UnitAttr()
            if spec.persistent is False:
                attributes["fx.non_persistent"] = UnitAttr()
        if node.args:
            attributes["fx.default"] = encode(tree_of(node.args[0], attribute_of), [])
        return DictionaryAttr(attributes)

    def mark_mutations(self, function: FuncOp, program: ExportedProgram) -> None:
        """Set ``fx.mutates`` on each result that is the new value of an argument: the index of that argument."""
        nodes = [node for node in program.graph.nodes if node.op == "placeholder"]
        index = {node.name: i for i, node in enumerate(nodes)}
        by_target = {spec.target: spec.arg.name for spec in program.graph_signature.input_specs if spec.target is not None}
        attributes = [DictionaryAttr({})] * len(function.function_type.outputs.data)
        leaf, any_mutation = 0, False
        for spec in program.graph_signature.output_specs:
            if spec.kind.name in ("BUFFER_MUTATION", "PARAMETER_MUTATION", "USER_INPUT_MUTATION"):
                target = str(spec.target)
                name = target if spec.kind.name == "USER_INPUT_MUTATION" else by_target[target]
                attributes[leaf] = DictionaryAttr({"fx.mutates": int_attr(index[name])})
                any_mutation = True
            leaf += type(spec.arg).__name__ != "ConstantArgument"
        if any_mutation:
            function.properties["res_attrs"] = ArrayAttr(attributes)
