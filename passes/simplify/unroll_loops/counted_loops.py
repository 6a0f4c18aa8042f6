"""Recognition of counted ``while_loop`` ops: a carried integer, a number or a 0-d tensor, changes by a constant up to a bound.

A loop is not counted where the bound changes, the condition reads more than counter and bound or compares for equality, or the
counter moves away from the bound.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue

from fxc.dialects.attributes.types import IntType, is_tensor
from fxc.dialects.attributes.values import KnownTree, leaves
from fxc.dialects.base.effects import is_pure, is_random, writes
from fxc.dialects.fx import CallFunctionOp, OutputOp
from fxc.dialects.torch_ops import HigherOrderOp, TorchOp
from fxc.dialects.torch_ops.constant import ConstantOp, TensorLiteralAttr
from fxc.dialects.torch_ops.effects import is_uninitialized
from fxc.passes.analysis.constants import Evaluation
from fxc.passes.analysis.matching import dtype, integer
from fxc.passes.analysis.region_calls import WHILE_LOOP, Leaf, passed, region_argument, region_outputs

_MIRRORED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}
_BITS = {"int64": 64, "int32": 32}
_SAME_VALUE = ("aten.clone.default", "aten.detach.default", "aten.alias.default", "aten.lift_fresh_copy.default")


@dataclass(frozen=True)
class CountedLoop:
    """``while counter <compare> bound: ...; counter += step``.

    ``index`` is the position of the counter among the carried values, ``inputs`` are the initial arguments of both regions, and
    ``outputs`` the values that the body returns. ``trips`` is known where start and bound are constants. Otherwise it is None,
    and the loop runs while the condition holds.
    """

    condition: Block
    body: Block
    inputs: list[Leaf]
    outputs: list[Leaf]
    index: int
    step: int
    start: int | None
    trips: int | None

    def may_wrap(self, ahead: int) -> bool:
        """Whether a tensor counter may wrap around up to ``ahead`` iterations after the last one."""
        type = self.body.args[self.index].type
        if not is_tensor(type):
            return False
        return self.start is None or self.trips is None or not _holds(type, self.start + (self.trips + ahead) * self.step)


def counted_loop(op: HigherOrderOp, evaluation: Evaluation) -> CountedLoop | None:
    """The counted loop that ``op`` is; None for other loops, and where the regions write to memory."""
    condition, body, inputs = region_argument(op, 0), region_argument(op, 1), passed(op)
    if op.operator != WHILE_LOOP or condition is None or body is None or inputs is None or condition is body:
        return None
    tests, outputs, carried = region_outputs(condition), region_outputs(body), list(leaves(op.trees()[0][2]))
    if tests is None or outputs is None or len(tests) != 1 or len(outputs) != len(carried):
        return None
    if any(len(region.block.args) != len(inputs) for region in op.regions) or any(map(_writes, op.walk())):
        return None
    if not all(is_pure(inner) or isinstance(inner, OutputOp) for inner in condition.block.ops):
        return None
    compared = _compared(tests[0])
    if compared is None:
        return None
    name, left, right = compared
    for compare, counter, bound in ((name, left, right), (_MIRRORED[name], right, left)):
        if not isinstance(counter, BlockArgument) or counter.owner is not condition.block or not _is_counter(counter.type):
            continue
        index = counter.index
        step = _step(outputs[index], body.block.args[index]) if index < len(carried) else None
        if (
            step is None
            or (step > 0) != (compare in ("lt", "le"))
            or not _is_invariant(bound, condition.block, body.block, outputs)
        ):
            continue
        start = _integer(inputs[index], evaluation)
        if isinstance(bound, BlockArgument) and bound.owner is condition.block:
            bound = inputs[bound.index]
        trips = _trips(start, _integer(bound, evaluation), step, compare, counter.type)
        return CountedLoop(condition.block, body.block, inputs, outputs, index, step, start, trips)
    return None


def _writes(op: Operation) -> bool:
    return not isinstance(op, (HigherOrderOp, OutputOp)) and writes(op) != []


def _compared(test: Leaf) -> tuple[str, KnownTree, KnownTree] | None:
    """``a < b`` as ("lt", a, b)."""
    op = test.owner if isinstance(test, SSAValue) else None
    if isinstance(op, TorchOp):
        parts = op.operator.split(".")
        bound = op.bound()
        if parts[0] == "aten" and parts[1] in _MIRRORED and parts[2] in ("Scalar", "Tensor"):
            return parts[1], bound["self"], bound["other"]
    if isinstance(op, CallFunctionOp):
        module, _, name = (op.call_target() or "").rpartition(".")
        args, kwargs = op.trees()
        if module in ("operator", "_operator") and name in _MIRRORED and len(args) == 2 and not kwargs:
            return name, args[0], args[1]
    return None


def _is_counter(type: Attribute) -> bool:
    """Whether ``type`` is a host int, or a 0-d tensor of a signed integer dtype."""
    return isinstance(type, IntType) or (is_tensor(type) and not type.get_shape() and dtype(type) in _BITS)


def _step(output: Leaf, counter: SSAValue) -> int | None:
    """The constant that the body adds to the counter, else None."""
    op = output.owner if isinstance(output, SSAValue) else None
    if isinstance(op, TorchOp) and op.operator in ("aten.add.Tensor", "aten.add.Scalar", "aten.sub.Tensor", "aten.sub.Scalar"):
        bound = op.bound()
        if (alpha := bound.get("alpha")) is not None and integer(alpha) != 1:
            return None
        left, right, adds = bound["self"], bound["other"], ".add." in op.operator
    elif isinstance(op, CallFunctionOp) and op.call_target() in ("operator.add", "operator.sub"):
        args, kwargs = op.trees()
        if len(args) != 2 or kwargs:
            return None
        left, right, adds = args[0], args[1], op.call_target() == "operator.add"
    else:
        return None
    if adds and right is counter:
        left, right = right, left
    step = _stated(right)
    fits = (left is counter and output.type == counter.type) or isinstance(counter.type, IntType)  # type: ignore[union-attr]
    if left is not counter or step is None or step == 0 or not fits:
        return None
    return step if adds else -step


def _stated(tree: KnownTree) -> int | None:
    """The integer value of a constant, else None."""
    if isinstance(tree, SSAValue) and isinstance(tree.owner, ConstantOp):
        return _number(tree.owner.value, tree.type)
    return integer(tree)


def _number(constant: Attribute, type: Attribute) -> int | None:
    if isinstance(constant, TensorLiteralAttr):
        is_counter = _is_counter(type)
        return int.from_bytes(constant.bytes, "little", signed=True) if is_counter else None
    return integer(constant)


def _is_invariant(bound: KnownTree, condition: Block, body: Block, outputs: list[Leaf]) -> bool:
    """Whether ``bound`` is the same integer in each iteration: a constant, or an argument that the body passes on."""
    if _stated(bound) is not None:
        return True
    if not isinstance(bound, BlockArgument) or bound.owner is not condition or not _is_counter(bound.type):
        return False
    index = bound.index
    if index >= len(outputs):
        return True
    handed = outputs[index]
    while isinstance(handed, SSAValue) and isinstance(handed.owner, TorchOp) and handed.owner.operator in _SAME_VALUE:
        handed = handed.owner.operands[0]
    return handed is body.args[index]


def _integer(leaf: KnownTree, evaluation: Evaluation) -> int | None:
    """The integer value of ``leaf`` before the loop, where it is a constant or computed from constants, and is not written."""
    if not isinstance(leaf, SSAValue):
        return integer(leaf)
    constant = _computed(leaf, evaluation) if _is_counter(leaf.type) else None
    return None if constant is None else _number(constant, leaf.type)


def _computed(value: SSAValue, evaluation: Evaluation) -> Attribute | None:
    op = value.owner
    if isinstance(op, ConstantOp):
        return None if evaluation.is_written(value) else op.value
    if not isinstance(op, TorchOp) or len(op.results) != 1 or len(op.operands) > 1:
        return None
    if not is_pure(op) or is_random(op) or is_uninitialized(op) or evaluation.is_written(value):
        return None
    operands = [constant for v in op.operands if (constant := _computed(v, evaluation)) is not None]
    if len(operands) != len(op.operands):
        return None
    found = evaluation.evaluate(op, operands)
    return None if found is None else found[0]


def _trips(start: int | None, bound: int | None, step: int, compare: str, type: Attribute) -> int | None:
    if start is None or bound is None:
        return None
    end = bound + {"lt": 0, "gt": 0, "le": 1, "ge": -1}[compare]
    trips = len(range(start, end, step))
    return trips if _holds(type, start + trips * step) else None


def _holds(type: Attribute, number: int) -> bool:
    """Whether a counter of ``type`` reaches ``number`` without wrapping around."""
    limit = 2 ** (_BITS[dtype(type) or ""] - 1) if is_tensor(type) else abs(number) + 1
    return -limit <= number < limit
