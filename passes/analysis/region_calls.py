"""Higher-order operators that run a region directly: inputs and outputs of regions, inlining, and folding of conditions."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import TensorType, TupleType
from xdsl.ir import Attribute, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from fxc.dialects.attributes.types import ValueType
from fxc.dialects.attributes.values import RegionAttr, leaves
from fxc.dialects.fx import OutputOp
from fxc.dialects.torch_ops import HigherOrderOp, op_class
from fxc.dialects.torch_ops.base import TorchOp
from fxc.dialects.torch_ops.constant import ConstantOp, TensorLiteralAttr
from fxc.passes.analysis.constants import Evaluation, is_host_constant, truth
from fxc.passes.analysis.tuples import selections

Leaf = SSAValue | Attribute

_OPERANDS = {"higher_order.cond": (3,), "higher_order.while_loop": (2, 3)}
"""Operator -> the positions of the arguments whose leaves are the arguments of its regions, in order."""


def passed(op: HigherOrderOp) -> list[Leaf] | None:
    """The leaves that ``op`` passes to the first region that it runs; None where they are not known."""
    positions: Sequence[int] | None = _OPERANDS.get(op.operator)
    args, kwargs = op.trees()
    if positions is None or kwargs or len(args) <= positions[0]:
        return None
    return [leaf for position in positions if position < len(args) for leaf in leaves(args[position])]


def region_inputs(op: HigherOrderOp, region: Region) -> list[Leaf] | None:
    """The value of each argument of ``region`` when ``op`` first runs it; None where the values are not known."""
    given = passed(op)
    if given is None or len(region.blocks) != 1:
        return None
    count = len(region.block.args)
    values: list[Leaf] = [leaf for leaf in given if isinstance(leaf, SSAValue)]
    if len(given) == count:
        return given
    return values if len(values) == count else None


def region_outputs(region: Region) -> list[Leaf] | None:
    """The values that ``region`` returns, in order; None where it has several blocks or another terminator."""
    last = region.block.last_op if len(region.blocks) == 1 else None
    if not isinstance(last, OutputOp):
        return None
    args, kwargs = last.trees()
    return list(leaves([*args, *kwargs.values()]))


def region_argument(op: HigherOrderOp, position: int) -> Region | None:
    """The region that is passed at ``position``."""
    args, _ = op.trees()
    name = args[position] if position < len(args) else None
    return op.regions[op.region_names().index(name.target.data)] if isinstance(name, RegionAttr) else None


def results_by_index(op: HigherOrderOp) -> list[list[SSAValue]] | None:
    """For each value that the regions return, the results that represent it after ``op``.

    A packed result is read through selections of its elements; None where it has other uses.
    """
    if len(op.results) != 1 or not isinstance(type := op.results[0].type, (TupleType, ValueType)):
        return [[result] for result in op.results]
    if isinstance(type, ValueType) or (selected := selections(op.results[0])) is None:
        return None
    found: list[list[SSAValue]] = [[] for _ in type.types.data]
    for reader, index in selected:
        found[index].append(reader.results[0])
    return found


def can_replace(leaf: Leaf, value: SSAValue) -> bool:
    """Whether ``leaf`` can replace ``value``: it has the same type, or both are host values and ``leaf`` is a constant."""
    if isinstance(leaf, SSAValue):
        return leaf.type == value.type
    return is_host_constant(leaf) and not isinstance(value.type, (TensorType, TupleType))


def put_in_place(leaf: Leaf, value: SSAValue, before: Operation) -> SSAValue:
    """Replace ``value`` by ``leaf``; an attribute becomes a ``torch.constant`` directly before ``before``."""
    if isinstance(leaf, Attribute):
        constant = ConstantOp.of(leaf, value.type)
        constant.location = before.location
        Rewriter.insert_op(constant, InsertPoint.before(before))
        leaf = constant.result
    value.replace_all_uses_with(leaf)
    return leaf


def inline_region(op: HigherOrderOp, region: Region, inputs: Sequence[Leaf] | None = None) -> Operation | None:
    """Move the ops of ``region`` to the position of ``op``, as if the region ran once, and erase ``op``.

    ``inputs``: the values of the arguments of ``region``, ``region_inputs`` by default. Returns the first op at that position;
    None, with nothing changed, where the values do not correspond.
    """
    inputs = region_inputs(op, region) if inputs is None else inputs
    outputs, results = region_outputs(region), results_by_index(op)
    if inputs is None or outputs is None or results is None or len(results) != len(outputs):
        return None
    block, around = region.block, op.parent
    assert around is not None
    if len(inputs) != len(block.args):
        return None
    pairs = [(leaf, value) for leaf, values in zip(outputs, results, strict=True) for value in values]
    fits = all(can_replace(leaf, arg) for leaf, arg in zip(inputs, block.args, strict=True))
    if not fits or not all(can_replace(leaf, value) for leaf, value in pairs):
        return None
    before = op.prev_op
    moved: dict[SSAValue, SSAValue] = {
        argument: put_in_place(leaf, argument, op) for leaf, argument in zip(inputs, block.args, strict=True)
    }
    for inner in list(block.ops)[:-1]:
        inner.detach()
        around.insert_op_before(inner, op)
    for leaf, value in pairs:
        put_in_place(moved.get(leaf, leaf) if isinstance(leaf, SSAValue) else leaf, value, op)
    for reader in [use.operation for result in op.results for use in result.uses]:
        reader.detach()
        reader.erase()
    following = op.next_op
    op.detach()
    op.erase()
    return (
        following
        if before is None and around.first_op is following
        else (around.first_op if before is None else before.next_op)
    )


COND = "higher_order.cond"
WHILE_LOOP = "higher_order.while_loop"


def taken_region(op: HigherOrderOp, evaluation: Evaluation) -> Region | None:
    """The region that a ``cond`` with a constant predicate runs."""
    args, _ = op.trees()
    if op.operator != COND or not args or (holds := truth(evaluation.constant(args[0]))) is None:
        return None
    return region_argument(op, 1 if holds else 2)


def bind_constants(op: HigherOrderOp, evaluation: Evaluation) -> None:
    """Bind the arguments of the regions of a ``cond`` to the constants passed for them.

    Arguments of a ``while_loop`` stay unbound: they change from one iteration to the next.
    """
    for region in op.regions if op.operator == COND else ():
        if (inputs := region_inputs(op, region)) is not None:
            for argument, leaf in zip(region.block.args, inputs, strict=True):
                if (constant := evaluation.constant(leaf)) is not None:
                    evaluation.learn(argument, constant)


def agreed_values(op: HigherOrderOp, evaluation: Evaluation) -> list[Leaf | None]:
    """For each value that a ``cond`` returns: the value that both regions return, or None where they differ."""
    if op.operator != COND or (true := region_argument(op, 1)) is None or (false := region_argument(op, 2)) is None:
        return []
    a, b = _results_outside(op, true), _results_outside(op, false)
    if len(a) != len(b):
        return []
    return [_agreed(op, left, right, evaluation) for left, right in zip(a, b, strict=True)]


def _results_outside(op: HigherOrderOp, region: Region) -> list[Leaf]:
    """The values that ``region`` returns, with its arguments replaced by the values that ``op`` passes for them."""
    inputs = region_inputs(op, region)
    if inputs is None:
        return []
    passed: dict[SSAValue, Leaf] = dict(zip(region.block.args, inputs, strict=True))
    return [passed.get(leaf, leaf) if isinstance(leaf, SSAValue) else leaf for leaf in region_outputs(region) or ()]


def _agreed(op: HigherOrderOp, left: Leaf, right: Leaf, evaluation: Evaluation) -> Leaf | None:
    """``left`` or ``right``, as a value or host constant that is available before ``op``; None where they differ."""
    if left is right and isinstance(left, SSAValue):
        return left
    constant = evaluation.constant(left)
    if constant is None or constant != evaluation.constant(right):
        return None
    if not isinstance(constant, TensorLiteralAttr):
        return constant
    if not isinstance(left, SSAValue) or not isinstance(right, SSAValue) or left.type != right.type:
        return None
    tensor = ConstantOp.of(constant, left.type)
    tensor.location = op.location
    Rewriter.insert_op(tensor, InsertPoint.before(op))
    return tensor.result


def never_runs(op: HigherOrderOp, evaluation: Evaluation) -> bool:
    """Whether ``op`` is a ``while_loop`` whose condition is false on its initial values."""
    region = region_argument(op, 0) if op.operator == WHILE_LOOP else None
    if region is None or (inputs := region_inputs(op, region)) is None or (outputs := region_outputs(region)) is None:
        return False
    if len(outputs) != 1:
        return False
    [condition] = outputs
    if isinstance(condition, Attribute):
        return truth(condition) is False
    known = dict[SSAValue, Attribute]()
    for argument, leaf in zip(region.block.args, inputs, strict=True):
        if (constant := evaluation.constant(leaf)) is not None:
            known[argument] = constant
    return truth(evaluation.run(region.block, condition, known)) is False


def initial_values(op: HigherOrderOp, evaluation: Evaluation) -> Sequence[Leaf | None]:
    """The results of a ``while_loop`` that does not run: its carried values, cloned where a copy could be told from them."""
    values, results = list(leaves(op.trees()[0][2])), results_by_index(op)
    if results is None or len(values) != len(results):
        return []
    return [
        _copied(op, leaf) if isinstance(leaf, SSAValue) and any(map(evaluation.has_identity, found)) else leaf
        for leaf, found in zip(values, results, strict=True)
    ]


def _copied(op: HigherOrderOp, value: SSAValue) -> SSAValue:
    clone = op_class("torch.aten.clone.default")
    assert clone is not None and issubclass(clone, TorchOp)
    copy = clone.build_call([value], {}, [value.type], location=op.location)
    Rewriter.insert_op(copy, InsertPoint.before(op))
    return copy.results[0]
