"""Removes mutation from a function with PyTorch's own functionalization, traced over the reference interpreter."""

from __future__ import annotations

from typing import Any

import torch
from torch._subclasses.functional_tensor import FunctionalTensor, FunctionalTensorMode, dispatch_functionalize
from torch.utils._pytree import TreeSpec, tree_flatten
from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, FunctionType, IntegerAttr, ModuleOp
from xdsl.ir import SSAValue

from fxc.dialects.effects import writes
from fxc.dialects.fx import OutputOp
from fxc.dialects.torch_ops import HigherOrderOp, TorchOp
from fxc.dialects.types import SYMBOLS
from fxc.dialects.values import int_attr
from fxc.semantics.graphs import GraphImporter
from fxc.semantics.interpret import Interpreter
from fxc.semantics.nesting import OUTPUTS, nesting_attr
from fxc.semantics.tensors import FakeWorld
from fxc.semantics.trace import trace


def functionalize(module: ModuleOp, function: func.FuncOp) -> None:
    """Rewrites ``function`` without mutation, in place.

    An argument that was written comes back as an extra result in front, marked ``fx.mutates = <argument index>``. Calls are
    inlined on the way. A function without mutation is left as it is.
    """
    functions = {op.sym_name.data: op for op in module.ops if isinstance(op, func.FuncOp)}
    if not _mutates(function, functions):
        return
    symbols = module.attributes.get(SYMBOLS)
    world = FakeWorld(symbols if isinstance(symbols, DictionaryAttr) else None)
    interpreter = Interpreter(functions)
    block = function.body.block
    already = _already_returned(function)
    written, specs = list[int](), list[TreeSpec]()

    def run(*args: Any) -> list[Any]:
        outputs, spec = tree_flatten(interpreter.call(function, args))
        specs[:] = [spec]
        written[:] = [
            i
            for i, arg in enumerate(args)
            if i not in already and isinstance(arg, FunctionalTensor) and torch._functionalize_has_data_mutation(arg.elem)  # type: ignore[attr-defined]
        ]
        return [*(args[i] for i in written), *outputs]

    mode = FunctionalTensorMode(pre_dispatch=True, export=True)
    fakes = [world.fake(argument.type) for argument in block.args]
    graph = trace(dispatch_functionalize(run, mode), fakes, world, f"@{function.sym_name.data}")
    graph.graph.eliminate_dead_code(lambda node: node.is_impure() or _draws(node))
    importer = GraphImporter(world.type_of, constants_inline=True)
    new = importer.block(graph, list(graph.graph.nodes), "", None)
    for old_argument, new_argument in zip(block.args, new.args, strict=True):
        new_argument._name, new_argument.location = old_argument._name, old_argument.location
    _replace(function, new, written, specs[0])


def _mutates(function: func.FuncOp, functions: dict[str, func.FuncOp]) -> bool:
    for op in function.walk():
        if isinstance(op, (TorchOp, HigherOrderOp)) and writes(op):
            return True
        callee = functions.get(op.callee.root_reference.data) if isinstance(op, func.CallOp) else None
        if callee is not None and callee is not function and _mutates(callee, functions):
            return True
    return False


def _already_returned(function: func.FuncOp) -> set[int]:
    """The arguments whose new value the function already returns."""
    found = (attrs.data.get("fx.mutates") for attrs in function.res_attrs or ())
    return {index.value.data for index in found if isinstance(index, IntegerAttr)}


def _draws(node: torch.fx.Node) -> bool:
    """Random operators stay though nothing reads them: dropping one changes what the next draws."""
    return isinstance(node.target, torch._ops.OpOverload) and torch.Tag.nondeterministic_seeded in node.target.tags


def _replace(function: func.FuncOp, new: Any, written: list[int], spec: TreeSpec) -> None:
    """Puts the traced block into ``function``: written arguments first, then what was returned, flat."""
    output = new.last_op
    assert isinstance(output, OutputOp)
    flat = output.trees()[0][0]
    new.erase_op(output)
    terminator = function.body.block.last_op
    assert terminator is not None
    if isinstance(terminator, func.ReturnOp):
        new.add_op(func.ReturnOp(*[value for value in flat if isinstance(value, SSAValue)]))
    else:
        new.add_op(OutputOp.build_call([tuple(flat)], {}, [], location=terminator.location))
        function.attributes.setdefault(OUTPUTS, nesting_attr(spec))
    old_attributes = list(function.res_attrs) if function.res_attrs is not None else []
    function.body.detach_block(function.body.block)
    function.body.add_block(new)
    types = [value.type for value in flat if isinstance(value, SSAValue)]
    function.properties["function_type"] = FunctionType.from_lists([a.type for a in new.args], types)
    marks = [DictionaryAttr({"fx.mutates": int_attr(i)}) for i in written]
    rest = old_attributes or [DictionaryAttr({})] * (len(types) - len(marks))
    if any(attributes.data for attributes in (*marks, *rest)):
        function.properties["res_attrs"] = ArrayAttr([*marks, *rest])
