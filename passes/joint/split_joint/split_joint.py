"""Split a joint graph into modules for forward and backward, by its marks.

Assumes  a joint graph at the torch level, in which a partition pass marked what is saved.
Ensures  ``@forward`` returns the results, then saved tensors, then saved numbers; ``@backward`` takes the numbers, the
         tensors and the tangents. Random operators that are computed again use the saved state of the generator.
         Tensors marked ``autodiff.offloaded`` go to the host. First uses bring them back, and compute values again.
Leaves   declarations, which both modules have; modules without a joint graph. Of a primal that is overwritten, and of
         its new value, it saves copies. Fails where the backward reads what is neither saved nor computed again.
Cost     a copy of the graph.

Before:
    func.func @main(%x: tensor<4xf32>, %d: tensor<4xf32> {autodiff.tangent})
    attributes {autodiff.forward_results = 1 : i64} {
      %t = torch.aten.tanh.default(%x) {autodiff.saved = array<i64: 0>} : (tensor<4xf32>) -> tensor<4xf32>
      %y = torch.aten.exp.default(%t) {autodiff.recomputed} : (tensor<4xf32>) -> tensor<4xf32>
      %e = torch.aten.mul.Tensor(%d, %y) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      %g = torch.aten.tanh_backward.default(%e, %t) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      fx.output([%y, %g]) : (tensor<4xf32>, tensor<4xf32>) -> ()
    }
After:
    builtin.module @forward {
      func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
        %t = torch.aten.tanh.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
        %y = torch.aten.exp.default(%t) : (tensor<4xf32>) -> tensor<4xf32>
        fx.output((%y, %t)) : (tensor<4xf32>, tensor<4xf32>) -> ()
      }
    }
    builtin.module @backward {
      func.func @main(%t: tensor<4xf32>, %d: tensor<4xf32> {autodiff.tangent}) -> tensor<4xf32> {
        %y = torch.aten.exp.default(%t) : (tensor<4xf32>) -> tensor<4xf32>
        %e = torch.aten.mul.Tensor(%d, %y) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
        %g = torch.aten.tanh_backward.default(%e, %t) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
        fx.output((%g,)) : (tensor<4xf32>) -> ()
      }
    }
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import TypeGuard

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, FunctionType, ModuleOp, StringAttr, UnitAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from fxc.dialects.attributes.types import (
    IntType,
    conditions_of,
    device,
    dtype_name,
    sizes,
    strides,
    tensor_of,
    tensor_type,
)
from fxc.dialects.attributes.values import device_attr, int_attr, str_attr
from fxc.dialects.autodiff import FORWARD_RESULTS, OFFLOADED, PART, RECOMPUTED, SAVED, TANGENT, WRITTEN
from fxc.dialects.base.effects import is_random, is_view
from fxc.dialects.base.names import UniqueNames
from fxc.dialects.context import FxcContext
from fxc.dialects.entry import ArgumentFacts, argument_attributes
from fxc.dialects.fx import OutputOp
from fxc.dialects.plan.types import storage_bytes
from fxc.dialects.text.diagnostics import OpPassFailedException
from fxc.dialects.text.syntax import written_name
from fxc.dialects.torch_ops import torch_op
from fxc.dialects.torch_ops.base import TorchOp
from fxc.passes.analysis.joint_graph import (
    Demand,
    JointGraph,
    Leaf,
    can_be_offloaded,
    is_joint,
    is_number,
    joint_graph,
    marked_results,
    must_run,
    values_read,
)
from fxc.passes.analysis.written_arguments import MUTATES, copy_of
from fxc.passes.joint.split_joint.generator_state import run_with_state, save_state
from fxc.passes.operators.rules import Conversion
from fxc.passes.operators.table import operator_of
from fxc.passes.rewriting.functions import copy_op
from fxc.passes.rewriting.outlining import with_entry
from fxc.passes.rewriting.remarks import remark, wanted


@dataclass(frozen=True)
class SplitJointPass(ModulePass):
    name = "split-joint"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        assert isinstance(ctx, FxcContext)
        if not is_joint(op):
            return
        graph = joint_graph(op)
        demand = graph.demand()
        for value in demand.missing:
            _refuse(value)
        parts = dict(zip(("forward", "backward"), _split(ctx, graph, demand), strict=True))
        if wanted(self.name):
            _report(self.name, graph, demand)
        modules = [with_entry(op, function) for function in parts.values()]
        Rewriter.erase_op(graph.function)
        for name, module in zip(parts, modules, strict=True):
            module.properties["sym_name"] = StringAttr(name)
            op.body.block.add_op(module)


def _refuse(value: SSAValue) -> None:
    owner = value.owner
    assert isinstance(owner, Operation)
    once = must_run(owner) and not is_random(owner)
    why = "has an effect, so it runs once" if once else "is not marked autodiff.recomputed"
    message = f"the backward reads %{written_name(value) or '_'}, which is not marked autodiff.saved, and the operation {why}"
    raise OpPassFailedException(f"{message}; partition-default marks all such values", owner)


_SAVED = str_attr("saved")
"""The name of an argument that gets the name of the value that it is."""


@dataclass
class _Body:
    """The body of a part: ``values`` maps values of the joint graph to values of the part."""

    block: Block
    values: dict[SSAValue, SSAValue]
    attributes: list[DictionaryAttr] = field(default_factory=list[DictionaryAttr])
    names: UniqueNames = field(default_factory=UniqueNames)

    def argument(self, like: SSAValue, attributes: DictionaryAttr, type: Attribute | None = None) -> BlockArgument:
        stem = like._name or "saved"
        name = self.names.fresh(stem)
        made = self.block.insert_arg(like.type if type is None else type, len(self.block.args))
        made._name = name
        made.location = like.location if isinstance(like, BlockArgument) else like.owner.location  # type: ignore[union-attr]
        is_new = attributes.data.get("fx.name") == _SAVED or (name != stem and "fx.name" in attributes.data)
        self.attributes.append(DictionaryAttr({**attributes.data, "fx.name": str_attr(name)}) if is_new else attributes)
        return made

    def add(self, op: Operation) -> None:
        copy = copy_op(op, self.values)
        for mark in (PART, SAVED, RECOMPUTED, OFFLOADED):
            copy.attributes.pop(mark, None)
        self.block.add_op(copy)

    def copied(self, value: SSAValue) -> SSAValue:
        """A copy of ``value`` of the joint graph, which is an argument or becomes one that the next call overwrites."""
        self.block.add_ops(ops := copy_of(self.values[value]))
        return ops[-1].results[0]

    def moved(self, value: SSAValue, to: str) -> SSAValue:
        """A copy of ``value``, a value of the part, on another device."""
        type = tensor_of(value)
        there = tensor_type(dtype_name(type.element_type), sizes(type), strides(type), to)
        copy = torch_op("aten._to_copy.default").build_call([value], {"device": device_attr(to)}, [there])
        copy.location = value.owner.location if isinstance(value.owner, Operation) else value.location  # type: ignore[attr-defined]
        copy.results[0]._name = value._name
        self.block.add_op(copy)
        return copy.results[0]

    def function(self, written: Sequence[tuple[SSAValue, SSAValue]], returned: Iterable[Leaf], like: FuncOp) -> FuncOp:
        """The function that returns ``returned`` and writes arguments."""
        leaves = [*(value for value, _ in written), *returned]
        last = like.body.block.last_op
        assert last is not None
        self.block.add_op(OutputOp.build_call([tuple(leaves)], {}, [], location=last.location))
        results = [leaf.type for leaf in leaves if isinstance(leaf, SSAValue)]
        type = FunctionType.from_lists([argument.type for argument in self.block.args], results)
        has_attributes = any(each.data for each in self.attributes)
        made = FuncOp("main", type, Region(self.block), arg_attrs=ArrayAttr(self.attributes) if has_attributes else None)
        made.attributes.update({name: value for name, value in like.attributes.items() if name != FORWARD_RESULTS})
        made.location = like.location
        if written:
            places = dict[SSAValue, int](zip(self.block.args, range(len(self.block.args)), strict=True))
            marks = [DictionaryAttr({MUTATES: int_attr(places[argument])}) for _, argument in written]
            made.properties["res_attrs"] = ArrayAttr(marks + [DictionaryAttr({})] * (len(results) - len(marks)))
        return made


@dataclass(frozen=True)
class _Between:
    """What the forward returns for the backward.

    ``read``: values of the joint graph, as values of the forward, numbers first; ``apart``: arguments that the backward writes
    and does not read; ``states``: of generators, before random operations that run again.
    """

    read: Mapping[SSAValue, SSAValue]
    offloaded: Set[SSAValue]
    apart: Sequence[SSAValue]
    states: Mapping[Operation, SSAValue]


def _split(ctx: FxcContext, graph: JointGraph, demand: Demand) -> tuple[FuncOp, FuncOp]:
    kept = map(_unmarked, argument_attributes(graph.function))
    facts = dict[SSAValue, DictionaryAttr](zip(graph.function.args, kept, strict=True))
    forward, between = _forward(ctx, graph, demand, facts)
    return forward, _backward(graph, demand, facts, between)


def _forward(
    ctx: FxcContext, graph: JointGraph, demand: Demand, facts: Mapping[SSAValue, DictionaryAttr]
) -> tuple[FuncOp, _Between]:
    body, states = _Body(Block(), {}), dict[Operation, SSAValue]()
    given = [argument for argument in graph.block.args if argument not in graph.tangents]
    body.values |= {argument: body.argument(argument, facts[argument]) for argument in given}
    replayed = {op for op in demand.ops if op not in graph.backward and must_run(op)}
    write_backs = [back for back in graph.write_backs if not back.in_backward]
    shared = graph.written | {back.value for back in write_backs}
    needed = dict.fromkeys([*demand.arguments, *_numbers_in_conditions(graph)])
    read = {each: body.copied(each) if each in shared else body.values[each] for each in needed}
    offloaded = {value for value in demand.saved if value in marked_results(value.owner, OFFLOADED)}
    for value in offloaded:
        _check_offloaded(value)
    for op in graph.block.ops:
        if op in replayed and isinstance(op, TorchOp):
            states[op] = save_state(ctx, op, body.block, body.values)
        elif op in graph.forward:
            body.add(op)
            read |= {value: body.moved(body.values[value], "cpu") for value in op.results if value in offloaded}
    for value in demand.saved:
        if value not in offloaded:
            read[value] = body.copied(value) if value in shared else body.values[value]
    read = {value: read[value] for value in sorted((*needed, *demand.saved), key=lambda value: not is_number(value))}
    targets = dict.fromkeys(back.argument for back in graph.write_backs if back.in_backward)
    apart = [each for each in targets if read.get(each) is not body.values[each] and each not in graph.state]
    returned = [body.values[leaf] if isinstance(leaf, SSAValue) else leaf for leaf in graph.results]
    tensors, numbers = ([made for value, made in read.items() if is_number(value) is kind] for kind in (False, True))
    saved = [*tensors, *(body.values[each] for each in apart), *states.values(), *numbers]
    written = [(body.values[back.value], body.values[back.argument]) for back in write_backs]
    return body.function(written, [*returned, *saved], graph.function), _Between(read, offloaded, apart, states)


def _backward(graph: JointGraph, demand: Demand, facts: Mapping[SSAValue, DictionaryAttr], between: _Between) -> FuncOp:
    body = _Body(Block(), {})
    given = {value: body.argument(value, _facts(value, facts), made.type) for value, made in between.read.items()}
    body.values |= {value: argument for value, argument in given.items() if value not in between.offloaded}

    def bring(values: Iterable[Leaf]) -> None:
        """Copy what is offloaded to its device, where it is first read."""
        for value in values:
            if isinstance(value, SSAValue) and value in given and value not in body.values:
                body.values[value] = body.moved(given[value], device(tensor_of(value)))

    memory: dict[SSAValue, SSAValue] = {each: body.argument(each, facts[each]) for each in between.apart}
    states = {op: body.argument(state, _facts(state, facts)) for op, state in between.states.items()}
    for each in graph.block.args:
        if each in graph.tangents:
            body.values[each] = body.argument(each, DictionaryAttr({**facts[each].data, TANGENT: UnitAttr()}))
        elif each in graph.state:
            body.values[each] = body.argument(each, facts[each])
    for op in demand.ops:
        bring(values_read(op))
        if op in states:
            assert isinstance(op, TorchOp)
            run_with_state(op, states[op], body.block, body.values)
        else:
            body.add(op)
    write_backs = [back for back in graph.write_backs if back.in_backward]
    bring([*graph.gradients, *(back.value for back in write_backs)])
    written = [
        (body.values[back.value], (memory if back.argument in memory else body.values)[back.argument]) for back in write_backs
    ]
    gradients = [body.values[leaf] if isinstance(leaf, SSAValue) else leaf for leaf in graph.gradients]
    return body.function(written, gradients, graph.function)


def _check_offloaded(value: SSAValue) -> None:
    if not can_be_offloaded(value) and isinstance(value.owner, Operation):
        message = f"%{written_name(value) or '_'} of type {value.type} is marked {OFFLOADED}, but its elements have gaps"
        raise OpPassFailedException(f"{message}; remove the mark", value.owner)


def _numbers_in_conditions(graph: JointGraph) -> list[SSAValue]:
    """The primals that conditions on sizes name: each part checks them in its calls."""
    module = graph.function.parent_op()
    assert isinstance(module, ModuleOp)
    names = {name for condition in conditions_of(module) for name in re.findall(r"[A-Za-z_]\w*", condition)}
    primals = (value for value in graph.block.args if value not in graph.tangents)
    return [value for value in primals if isinstance(value.type, IntType) and value.type.expression.data in names]


def _unmarked(attributes: DictionaryAttr) -> DictionaryAttr:
    return DictionaryAttr({name: value for name, value in attributes.data.items() if name not in (TANGENT, WRITTEN)})


def _facts(value: SSAValue, facts: Mapping[SSAValue, DictionaryAttr]) -> DictionaryAttr:
    """The attributes of an argument of the backward that has ``value``; none where arguments of the joint graph have none.

    A copy of a tensor of the program, which the forward overwrites, is an input.
    """
    known = facts.get(value)
    if (known is not None and not ArgumentFacts.of(known).is_state) or not any(each.data for each in facts.values()):
        return known or DictionaryAttr({})
    return DictionaryAttr({"fx.kind": str_attr("input"), "fx.name": _SAVED})


def _report(name: str, graph: JointGraph, demand: Demand) -> None:
    """Write a remark for each saved tensor: its size, what reads it or its conversion, and the operation that computes it."""
    readers = dict[SSAValue, Operation]()
    for op in reversed(demand.ops):
        readers.update(dict.fromkeys(values_read(op), op))
    for value in (*demand.arguments, *demand.saved):
        bytes, owner, reader = storage_bytes(value.type), value.owner, readers.get(value)
        while _is_conversion(reader) and (of_result := readers.get(reader.results[0])) is not None:
            reader = of_result
        where = " on the host" if value in marked_results(owner, OFFLOADED) else ""
        size = "a number" if is_number(value) else "memory of unknown size" if bytes is None else f"{bytes} bytes"
        if isinstance(owner, Operation) and is_view(owner):
            size = f"a view of {size}"
        use = "is a gradient" if reader is None else f"is read by {_operator(reader)}"
        defined = [owner] if isinstance(owner, Operation) else [reader] if reader is not None else []
        remark(name, f"saves {size}{where}, because %{written_name(value) or '_'} {use}", *defined)


def _is_conversion(op: Operation | None) -> TypeGuard[TorchOp]:
    return isinstance(op, TorchOp) and isinstance(operator_of(op).formula, Conversion)


def _operator(op: Operation) -> str:
    return op.operator if isinstance(op, TorchOp) else op.name
