"""Constant folding of ``cond`` and ``while_loop``: which region runs, and which values the operator returns."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Attribute, Region, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from fxc.dialects.attributes.values import leaves
from fxc.dialects.torch_ops import HigherOrderOp, op_class
from fxc.dialects.torch_ops.base import TorchOp
from fxc.dialects.torch_ops.constant import ConstantOp, TensorLiteralAttr
from fxc.passes.analysis.evaluation import Evaluation, truth
from fxc.passes.analysis.region_calls import Leaf, region_argument, region_inputs, region_outputs, results_by_index

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
