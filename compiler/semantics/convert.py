"""Conversion from the fx level to ATen: each call is traced at its operand types into a function of ``torch`` operations.

A forward walk over the function with abstract values: Python nestings whose leaves are constants or ``Leaf``, a fake value with
its SSA value. A call without any tensor in its trace (``x.shape[0] * 2``) becomes no operation.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from xdsl.dialects import func
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FunctionType,
    IntegerAttr,
    ModuleOp,
    TensorType,
    TupleType,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from fxc.bridge.import_nodes import GraphImporter
from fxc.bridge.tensors import FakeWorld, symbols_of
from fxc.bridge.values import SYMBOLIC_NUMBERS, attribute_of, constant_value, tree_of
from fxc.dialects.attributes.types import NUMBERS, SYMBOLS, BoolType, FloatType, ValueType
from fxc.dialects.attributes.values import Tree, int_attr, map_tree
from fxc.dialects.base.names import UniqueNames
from fxc.dialects.fx import CallFunctionOp, CallModuleOp, GetAttrOp, OutputOp, PositionalCall
from fxc.dialects.text.diagnostics import place_of
from fxc.dialects.text.syntax import op_text
from fxc.dialects.torch_ops import HigherOrderOp, TorchOp
from fxc.dialects.torch_ops.constant import ConstantOp
from fxc.errors import CaptureError, FxcError, InputError
from fxc.interpret.torch_level import ReferenceInterpreter
from fxc.passes.rewriting.functions import declare
from fxc.semantics.assumptions import add_conditions, assumptions, written
from fxc.semantics.model_state import Leaf, LeafSlot, ModelState, Size, leaves_of, map_leaves, with_slots
from fxc.semantics.trace import trace


def convert(module: ModuleOp, function: func.FuncOp, live: dict[str, Any]) -> None:
    """Replace the fx calls of ``function`` by calls of functions of torch operations; parameters become its arguments."""
    _Converter(module, function, live).run()


class _Converter:
    def __init__(self, module: ModuleOp, function: func.FuncOp, live: dict[str, Any]) -> None:
        self.module, self.function, self.live = module, function, live
        self.block = function.body.block
        symbols = module.attributes.get(SYMBOLS)
        self.world = FakeWorld(symbols if isinstance(symbols, DictionaryAttr) else None)
        self.state = ModelState(module, self.block, self.world, live)
        self.functions = {op.sym_name.data: op for op in module.ops if isinstance(op, func.FuncOp)}
        self.names = UniqueNames(self.functions)
        self.env = dict[SSAValue, Any]()
        self.dead = list[Operation]()
        self.last_element = dict[Operation | Block, Operation]()
        self.traced = dict[Any, _Traced]()
        self.interpreter = ReferenceInterpreter(self.functions, submodule=self.state.submodule, live=live)

    def run(self) -> None:
        ops = list(self.block.ops)
        for argument in self.block.args:
            if isinstance(argument.type, ValueType):
                if argument.first_use is None:
                    continue
                raise CaptureError(
                    f"the type of argument %{argument._name or argument.index} is not known",
                    hint="give example inputs when capturing, or write its tensor type in the text",
                )
            self.env[argument] = self.leaf(argument)
        for op in ops:
            try:
                self.op(op)
            except FxcError as error:
                error.op, error.place = error.op or op_text(op), error.place or place_of(op)
                raise
        self.finish()

    def leaf(self, value: SSAValue) -> Any:
        """Return the abstract value of an SSA value by its type; tuples are unpacked at their definition."""
        if isinstance(value.type, TupleType):
            return tuple(self.leaf(self.element(value, i, type)) for i, type in enumerate(value.type.types.data))
        fake = self.world.later(value.type)
        if isinstance(fake, (bool, int, float)):
            known = self.world.known_number(value.type)
            return Leaf(self.world.unknown_number(value.type), value) if known is None else known
        return fake if fake is None else Leaf(fake, value)

    def later(self, type: Attribute) -> Any:
        """Return a fake value of ``type``, possibly deferred; unknown numbers become symbolic."""
        if isinstance(type, (FloatType, BoolType)):
            known = self.world.known_number(type)
            return self.world.unknown_number(type) if known is None else known
        return self.world.later(type)

    def element(self, value: SSAValue, index: int, type: Attribute) -> SSAValue:
        op = CallFunctionOp.build_call([value, int_attr(index)], {}, [type], target="operator.getitem")
        if isinstance(value.owner, Operation):
            self.block.insert_op_after(op, self.last_element.get(value.owner, value.owner))
            self.last_element[value.owner] = op
        else:
            first = self.last_element.get(self.block)
            if first is None:
                assert self.block.first_op is not None
                self.block.insert_op_before(op, self.block.first_op)
            else:
                self.block.insert_op_after(op, first)
            self.last_element[self.block] = op
        return op.results[0]

    # operations

    def op(self, op: Operation) -> None:
        if isinstance(op, (OutputOp, func.ReturnOp)):
            self.terminator(op)
        elif isinstance(op, ConstantOp):
            value = constant_value(op)
            self.env[op.result] = self.leaf(op.result) if isinstance(value, torch.Tensor) else value
        elif isinstance(op, GetAttrOp):
            self.env[op.results[0]] = self.state.leaf(op.call_target() or "")
            self.dead.append(op)
        elif _is_element(op) and (element := self.element_of(op)) is not None:
            self.env[op.results[0]] = element
            self.dead.append(op)
        elif isinstance(op, func.CallOp) or (isinstance(op, (TorchOp, HigherOrderOp)) and self.is_converted(op)):
            for i, operand in enumerate(op.operands):
                op.operands[i] = self.ssa(self.env[operand])
            if len(op.results) == 1 and isinstance(op.results[0].type, TupleType):
                self.unpack(op)
            else:
                self.env.update((result, self.leaf(result)) for result in op.results)
        else:
            self.call(op)

    def element_of(self, op: Operation) -> Leaf | None:
        """Return the element that ``getitem`` selects, if it is a tensor or number of a plain tuple, which needs no trace."""
        assert isinstance(op, CallFunctionOp)
        [nest, index], _ = op.trees()
        elements: Any = self.env[nest] if isinstance(nest, SSAValue) else None
        if type(elements) not in (tuple, list) or not isinstance(index, IntegerAttr):
            return None
        place = index.value.data
        found = elements[place] if -len(elements) <= place < len(elements) else None
        return found if isinstance(found, Leaf) else None

    def is_converted(self, op: TorchOp | HigherOrderOp) -> bool:
        """Whether ``op`` may remain: operands match their types, and results are typed tensors and numbers."""
        operands = all(isinstance(leaf := self.env.get(v), Leaf) and leaf.value.type == v.type for v in op.operands)
        types = [t for r in op.results for t in (r.type.types.data if isinstance(r.type, TupleType) else [r.type])]
        inside = [inner for region in op.regions for inner in region.walk()]
        return (
            operands
            and all(isinstance(type, (TensorType, *NUMBERS)) for type in types)
            and all(isinstance(inner, (TorchOp, HigherOrderOp, ConstantOp, OutputOp)) or _is_element(inner) for inner in inside)
        )

    def unpack(self, op: Operation) -> None:
        """Replace an operation with a tuple result by one with a result for each element."""
        assert isinstance(op, (TorchOp, HigherOrderOp))
        packed = op.results[0].type
        assert isinstance(packed, TupleType)
        regions = [op.detach_region(region) for region in list(op.regions)]
        new = op.create(
            operands=op.operands,
            result_types=packed.types.data,
            properties=op.properties,
            attributes=op.attributes,
            regions=regions,
            location=op.location,
        )
        self.block.insert_op_before(new, op)
        for use in op.results[0].uses:
            index = use.operation.trees()[0][1] if _is_element(use.operation) else None  # type: ignore[attr-defined]
            if isinstance(index, IntegerAttr) and -len(new.results) <= index.value.data < len(new.results):
                new.results[index.value.data]._name = use.operation.results[0]._name
        self.env[op.results[0]] = tuple(self.leaf(result) for result in new.results)
        self.dead.append(op)

    def call(self, op: Operation) -> None:
        nests = [self.env[operand] for operand in op.operands]
        states = self.state.of_call(op)
        inputs = list(dict.fromkeys([*(leaf for nest in nests for leaf in leaves_of(nest)), *states.values()]))
        key = self.key(op, nests, inputs)
        traced = self.traced.get(key) if key is not None else None
        if traced is None:
            traced = self.trace(op, inputs, states)
            known = symbols_of([leaf.fake for leaf in inputs])
            if key is not None and symbols_of(traced.fakes).keys() <= known.keys():  # each call has new symbols for its data
                self.traced[key] = traced
            fakes = traced.fakes
        else:
            pairs = zip(traced.outputs, traced.fakes, strict=True)
            types = iter(traced.result_types)
            fakes = [self.later(next(types)) if isinstance(output, SSAValue) else constant for output, constant in pairs]
        values = self.emit(op, traced, inputs, fakes)
        for result, nest in zip(op.results, traced.results, strict=True):
            self.env[result] = map_leaves(nest, lambda slot: values(slot) if isinstance(slot, LeafSlot) else slot, size=tuple)
            if isinstance(nest, (Size, torch.Size)):
                self.env[result] = Size(self.env[result])
        self.dead.append(op)

    def terminator(self, op: Operation) -> None:
        if isinstance(op, func.ReturnOp):
            for i, operand in enumerate(op.operands):
                op.operands[i] = self.ssa(self.env[operand])
            return
        assert isinstance(op, OutputOp)
        args, kwargs = op.trees()
        new = OutputOp.build_call(
            [self.tree(a) for a in args], {k: self.tree(v) for k, v in kwargs.items()}, [], location=op.location
        )
        self.block.insert_op_before(new, op)
        self.dead.append(op)

    def tree(self, tree: Tree) -> Tree:
        """Replace old SSA values in an argument tree by abstract values."""
        return map_tree(tree, lambda leaf: self.nest_tree(self.env[leaf]) if isinstance(leaf, SSAValue) else leaf)

    def nest_tree(self, nest: Any) -> Tree:
        return tree_of(nest, lambda leaf: leaf.value if isinstance(leaf, Leaf) else attribute_of(leaf))

    def ssa(self, nest: Any) -> SSAValue:
        if not isinstance(nest, Leaf):
            raise InputError("a call and func.return take single tensors and numbers", hint="end the function in fx.output")
        return nest.value

    # tracing

    def trace(self, op: Operation, inputs: list[Leaf], states: dict[str, Leaf]) -> _Traced:
        structure = list[Any]()

        def run(*values: Any) -> list[Any]:
            given = {id(leaf): value for leaf, value in zip(inputs, values, strict=True)}

            def concrete(nest: Any) -> Any:
                return map_leaves(nest, lambda leaf: given[id(leaf)] if isinstance(leaf, Leaf) else leaf)

            env = {operand: concrete(self.env[operand]) for operand in op.operands}
            state = {name: given[id(leaf)] for name, leaf in states.items()}
            with self.state.reparametrized(op, state):
                results = self.interpreter.op(op, env)
            outputs = list[Any]()

            def slot(value: Any) -> Any:
                if isinstance(value, (torch.Tensor, *SYMBOLIC_NUMBERS)):
                    outputs.append(value)
                    return LeafSlot(len(outputs) - 1)
                return value

            structure[:] = [with_slots(result, slot) for result in results]
            return outputs

        graph = trace(run, [leaf.fake for leaf in inputs], self.world, op_text(op, 80))
        return self.callee(op, graph, structure, inputs)

    def callee(self, op: Operation, graph: torch.fx.GraphModule, structure: list[Any], inputs: list[Leaf]) -> _Traced:
        importer = GraphImporter(self.world.type_of, constants_inline=True)
        block = importer.block(graph, list(graph.graph.nodes), "", None)
        for argument, leaf in zip(block.args, inputs, strict=True):
            argument._type = leaf.value.type  # the trace may have replaced a symbol by an equal expression
        declare(self.module, [*importer.operators.values()])
        output = block.last_op
        assert isinstance(output, OutputOp)
        outputs = output.trees()[0][0]
        kept = [*output.operands]
        fakes = [_meta(node) for node in next(n for n in reversed(graph.graph.nodes) if n.op == "output").args[0]]
        if len(list(block.ops)) == 1:  # nothing was computed: results are inputs
            sources = [block.args.index(o) if o in block.args else None for o in outputs]
            return _Traced(None, [v.type for v in kept], structure, fakes, sources, outputs)
        block.erase_op(output)
        block.add_op(func.ReturnOp(*kept))
        name = self.fresh_name(op)
        types = [v.type for v in kept]
        callee = func.FuncOp(name, FunctionType.from_lists([a.type for a in block.args], types), Region(block), "private")
        self.module.body.block.add_op(callee)
        self.functions[name] = callee
        sources = [block.args.index(o) if o in block.args else None for o in outputs]
        return _Traced(name, types, structure, fakes, sources, outputs)

    def emit(self, op: Operation, traced: _Traced, inputs: list[Leaf], fakes: list[Any]) -> Callable[[LeafSlot], Any]:
        """Insert the call before ``op``; return a function from result slots to abstract values."""
        results: list[SSAValue | None] = []
        if traced.function is not None:
            call = func.CallOp(traced.function, [leaf.value for leaf in inputs], traced.result_types)
            call.location = op.location
            self.block.insert_op_before(call, op)
            made = iter(call.results)
            results = [next(made) if isinstance(output, SSAValue) else None for output in traced.outputs]
            if len(call.results) == 1 and op.results:
                call.results[0]._name = op.results[0]._name

        def value(slot: LeafSlot) -> Any:
            source = traced.sources[slot.index]
            if source is not None:
                return inputs[source]
            if not results or results[slot.index] is None:
                return fakes[slot.index]
            result = results[slot.index]
            assert result is not None
            return Leaf(fakes[slot.index], result)

        return value

    def key(self, op: Operation, nests: list[Any], inputs: list[Leaf]) -> Any | None:
        """Return the cache key of a trace, so that equal layers share one function; None if it must not be shared."""
        if not isinstance(op, PositionalCall) or isinstance(op, HigherOrderOp):
            return None
        order = {id(leaf): i for i, leaf in enumerate(inputs)}
        shape = [repr(map_leaves(n, lambda x: LeafSlot(order[id(x)]) if isinstance(x, Leaf) else x, size=tuple)) for n in nests]
        types = tuple(leaf.type(self.world) for leaf in inputs)
        callee = op.call_target()
        if isinstance(op, CallModuleOp):
            callee = self.state.module_key(callee or "")
        return op.name, callee, op.properties.get("args"), op.properties.get("kwargs"), tuple(shape), types

    def fresh_name(self, op: Operation) -> str:
        target = (op.call_target() if isinstance(op, PositionalCall) else None) or op.name
        parts = [part for part in re.split(r"[^A-Za-z0-9_]+", target) if part]
        base = parts[-1] if not isinstance(op, CallModuleOp) else self.state.class_name(target)
        return self.names.fresh(base)

    # final signature

    def finish(self) -> None:
        """Set the new signature and its conditions; erase converted operations and declarations that became arguments."""
        add_conditions(self.module, written(assumptions(self.world), self.world))
        for op in reversed(self.dead):
            op.detach()
            op.erase()
        block, function = self.block, self.function
        given = len(block.args) - len(self.state.leaves)
        known = list(function.arg_attrs) if function.arg_attrs is not None else [DictionaryAttr({})] * given
        known += self.state.argument_attributes()
        if any(attributes.data for attributes in known):
            function.properties["arg_attrs"] = ArrayAttr(known)
        terminator = block.last_op
        assert terminator is not None
        function.properties["function_type"] = FunctionType.from_lists([a.type for a in block.args], terminator.operand_types)
        if not any(isinstance(op, CallModuleOp) for op in self.module.walk()):
            for declaration in self.state.modules.values():
                declaration.detach()


@dataclass(frozen=True)
class _Traced:
    """A traced call.

    ``function``: the callee, None if nothing is computed. ``result_types``: the types of non-constant outputs. ``fakes``: a
    fake value or constant for each output. ``sources``: the index of the input that an output is, if any.
    """

    function: str | None
    result_types: list[Attribute]
    results: list[Any]
    fakes: list[Any]
    sources: list[int | None]
    outputs: list[Any]


def _is_element(op: Operation) -> bool:
    return (
        isinstance(op, CallFunctionOp)
        and op.call_target() == "operator.getitem"
        and not isinstance(op.results[0].type, ValueType)
    )


def _meta(node: Any) -> Any:
    return node.meta.get("val") if isinstance(node, torch.fx.Node) else node
