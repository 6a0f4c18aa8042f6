"""Recognize attention around a softmax, whatever form it is written in."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import Operation, SSAValue

from fxc.dialects.attributes.types import Dim, device, dims_of, is_tensor, layout
from fxc.dialects.attributes.values import KnownTree, Tree, int_attr, isa
from fxc.dialects.base.effects import is_pure
from fxc.dialects.context import FxcContext
from fxc.dialects.torch_ops.base import TorchOp, drops_nothing
from fxc.dialects.torch_ops.constant import ConstantOp, TensorLiteralAttr
from fxc.dialects.torch_ops.effects import DROPOUTS, is_uninitialized
from fxc.passes.analysis.constants import Evaluation
from fxc.passes.analysis.matching import RESHAPES, dtype, integer, is_floating, is_integral, number, producer
from fxc.passes.analysis.size_values import facts_of
from fxc.passes.library.fuse_attention.products import Ordered, Product, product_of, static
from fxc.passes.operators.rules import Conversion
from fxc.passes.operators.scalars import LARGEST
from fxc.passes.operators.table import operator_of

SOFTMAXES = ("aten.softmax.int", "aten._softmax.default", "aten._safe_softmax.default")
SAFE = SOFTMAXES[2]
"""The softmax whose rows of -inf are rows of 0, as those of the fused operator are."""

_COPIES = ("aten.clone.default", "aten.contiguous.default", "aten.alias.default", "aten.expand.default")
_RESHAPES = (*RESHAPES, "aten.flatten.using_ints", "aten.unflatten.int", "aten.squeeze.dim", "aten.unsqueeze.default")
_FILLS = (
    "aten.masked_fill.Scalar",
    "aten.masked_fill.Tensor",
    "aten.where.self",
    "aten.where.ScalarOther",
    "aten.where.ScalarSelf",
)

_EXPANDS = ("aten.expand.default", "aten.expand_as.default")

HIGHEST_FILL = -1.0e9
"""A fill at or below this is treated as lower than all scores: a row of them has equal probabilities."""
LEAST_KEYS = 16
"""PyTorch's CPU kernel loses the NaN of a row of fewer keys than a vector has lanes."""


@dataclass(frozen=True)
class Mask:
    """A tensor added to the scores, or, with ``fill``, a condition under which scores are ``fill``."""

    value: SSAValue
    batch: tuple[Dim, ...]
    fill: float | None = None
    is_inverted: bool = False
    is_negated: bool = False

    @property
    def unexpanded(self) -> SSAValue:
        """The tensor that is broadcast to ``value``."""
        value = self.value
        while (op := producer(value, _EXPANDS)) is not None:
            value = op.operands[0]
        return value

    @property
    def low(self) -> float | None:
        """What is added to the scores where they are filled: ``fill``, or a number in its stead that scores do not change."""
        return self.fill if self.fill in (None, -math.inf, -LARGEST["bfloat16"]) else -LARGEST["float32"]

    @property
    def key(self) -> tuple[object, ...]:
        return self.unexpanded, self.batch, self.fill, self.is_inverted, self.is_negated


@dataclass
class Attention:
    """The operands, and how the scores are computed from them."""

    softmax: TorchOp
    scores: Product
    output: Product
    scale: float = 1.0
    masks: list[Mask] = field(default_factory=list[Mask])
    batches: list[tuple[Dim, ...]] = field(default_factory=list[tuple[Dim, ...]])
    """The leading sizes of scores and probabilities, in order of their computation."""
    dtypes: set[str | None] = field(default_factory=set[str | None])
    """The dtypes of scores and probabilities."""

    @property
    def query(self) -> Ordered:
        return self.scores.left

    @property
    def key(self) -> Ordered:
        return self.scores.right.swapped()

    @property
    def value(self) -> Ordered:
        return self.output.right


def recognize(softmax: TorchOp, closed: ClosedValues) -> Attention | str:
    """The attention that ``softmax`` belongs to, or why it belongs to none."""
    source, rank = softmax.operands[0], len(dims_of(softmax.results[0]))
    if rank < 2 or integer(softmax.argument("dim")) not in (-1, rank - 1):
        return "the softmax is not along the last dimension"
    down = _probabilities(softmax)
    if isinstance(down, str):
        return down
    output, passed = down
    for product, steps in _scores(source, 0):
        found = Attention(softmax, product, output, product.factor)
        reason = _read(found, steps, closed)
        found.batches += [dims_of(value)[:-2] for value in passed]
        found.dtypes.update(dtype(value.type) for value in passed)
        return reason or _mismatch(found) or found
    return "the scores are no product, or have another use"


def _probabilities(softmax: TorchOp) -> tuple[Product, list[SSAValue]] | str:
    """The product of the probabilities and the values, and the probabilities on the way to it."""
    passed: list[SSAValue] = [softmax.results[0]]
    while True:
        value = passed[-1]
        op = only_reader(value)
        if not isinstance(op, TorchOp) or op.parent is not softmax.parent:
            return "the probabilities have another use"
        if (product := product_of(op, value)) is not None:
            if not product.left.is_plain or product.added is not None or product.factor != 1:
                return "the probabilities are read in another order"
            return product, passed
        if op.operator in DROPOUTS and not drops_nothing(op):
            return "the dropout samples random numbers"
        if not _passes_on(op, value):
            return f"{op.operator} follows the softmax"
        passed.append(op.results[0])


def only_reader(value: SSAValue) -> Operation | None:
    """The only op that reads the elements of ``value``, besides ops without effect that ``dce`` erases, such as assertions."""
    users = dict.fromkeys(use.operation for use in value.uses if not _reads_sizes(use.operation, value))
    readers = [op for op in users if op.regions or not is_pure(op) or any(result.first_use for result in op.results)]
    return readers[0] if len(readers) == 1 else None


def _reads_sizes(op: Operation, value: SSAValue) -> bool:
    return isinstance(op, TorchOp) and op.operator == _EXPANDS[1] and op.operands[0] is not value


def _passes_on(op: TorchOp, value: SSAValue) -> bool:
    """Whether ``op`` only converts ``value``, copies it, or groups its leading dimensions in another way."""
    if not op.operands or op.operands[0] is not value or len(op.results) != 1:
        return False
    [result] = op.results
    if not is_floating(result.type):
        return False
    before, after = dims_of(value), dims_of(result)
    if not (is_tensor(value.type) and is_tensor(result.type)) or device(value.type) != device(result.type):
        return False
    if op.operator in _RESHAPES:
        return len(after) >= 2 and after[-2:] == before[-2:] and "" not in (*after, *before)
    is_conversion = isinstance(operator_of(op).formula, Conversion)
    return before == after and (is_conversion or op.operator in _COPIES or drops_nothing(op))


def _scores(value: SSAValue, depth: int) -> Iterator[tuple[Product, list[tuple[TorchOp, SSAValue]]]]:
    """The products that ``value`` may be computed from, each with the ops on the way, and the scores that each reads."""
    op = value.owner
    if depth > 16 or not isinstance(op, TorchOp) or only_reader(value) is None:
        return
    if (product := product_of(op)) is not None:
        yield product, []
        return
    for operand in dict.fromkeys(op.operands):
        is_same = dims_of(operand) == dims_of(value) or op.operator in _RESHAPES
        if is_same and is_floating(operand.type) and operand.owner.parent_op() is op.parent_op():
            for product, steps in _scores(operand, depth + 1):
                yield product, [*steps, (op, operand)]


def _read(found: Attention, steps: Sequence[tuple[TorchOp, SSAValue]], closed: ClosedValues) -> str | None:
    """Add what ``steps`` do with the scores to ``found``. Returns why they are not those of an attention."""
    if found.scores.order != tuple(range(len(found.scores.order))):
        return "the scores are in another order"
    first = found.scores.op.results[0]
    found.batches.append(dims_of(first)[:-2])
    found.dtypes.add(dtype(first.type))
    if found.scores.added is not None:
        found.masks.append(Mask(found.scores.added, found.batches[-1]))
    for op, value in steps:
        scores = op.results[0]
        batch, bound = dims_of(scores)[:-2], op.bound()
        other = _other(bound, value)
        if _passes_on(op, value):
            if found.masks and dtype(scores.type) not in (dtype(value.type), "float32", "float64"):
                return "masked scores are rounded"
        elif op.operator in ("aten.mul.Tensor", "aten.mul.Scalar", "aten.div.Tensor", "aten.div.Scalar"):
            factor, is_product = closed.number(other), op.operator.startswith("aten.mul")
            if factor is None or (not is_product and ("rounding_mode" in bound or bound["self"] is not value)):
                return f"{op.operator} scales the scores by an unknown number"
            if found.masks:
                return "masked scores are scaled"
            if factor == 0 and not is_product:
                return "the scores are divided by 0"
            found.scale = found.scale * factor if is_product else found.scale / factor
        elif op.operator in ("aten.add.Tensor", "aten.sub.Tensor"):
            is_sum = op.operator == "aten.add.Tensor"
            is_known = number(bound.get("alpha", int_attr(1))) == 1 and (is_sum or bound["self"] is value)
            if not is_known or not isa(other, SSAValue):
                return f"{op.operator} is no sum of scores and a mask"
            if not dims_of(other):
                return "a number is added to the scores"
            found.masks.append(Mask(other, batch, is_negated=not is_sum))
        elif op.operator in _FILLS:
            mask = _fill(op, value, batch, closed)
            if isinstance(mask, str):
                return mask
            found.masks.append(mask)
        else:
            return f"{op.operator} computes the scores"
        found.batches.append(batch)
        found.dtypes.add(dtype(scores.type))
    if len({mask.fill for mask in found.masks}) > 1 and any(mask.low != mask.fill for mask in found.masks):
        return "a fill that is not the lowest number is combined with another mask"
    return None


def _other(bound: dict[str, KnownTree], value: SSAValue) -> KnownTree | None:
    """The second argument of a sum or product of ``value``."""
    first, second = bound.get("self"), bound.get("other")
    return second if first is value else first


def _fill(op: TorchOp, value: SSAValue, batch: tuple[Dim, ...], closed: ClosedValues) -> Mask | str:
    """The condition of a fill, which must make scores lower than all others."""
    bound = op.bound()
    if op.operator.startswith("aten.masked_fill"):
        condition, fill, inverted = bound["mask"], bound["value"], False
    else:
        condition, inverted = bound["condition"], bound["self"] is value
        fill = bound["other"] if inverted else bound["self"]
    low = None if fill is value else closed.number(fill)
    lowest = -LARGEST.get(dtype(value.type) or "", math.inf)
    if low is None or low > max(lowest, HIGHEST_FILL):
        return f"{op.operator} fills the scores with a number that is not the lowest"
    if low < lowest:
        low = -math.inf  # what it is in this precision
    if not isa(condition, SSAValue) or dtype(condition.type) != "bool" or not dims_of(condition):
        return f"the condition of {op.operator} is no tensor of bools"
    return Mask(condition, batch, low, inverted)


def _mismatch(found: Attention) -> str | None:
    """Why the types, the scale or the sizes of ``found`` do not fit the fused operator."""
    tensors = [found.query.value, found.key.value, found.value.value, found.output.op.results[0]]
    types = [value.type for value in tensors]
    names = {dtype(type) for type in types}
    if len(names) > 1 or (name := names.pop()) not in LARGEST:
        return "queries, keys and values have no common floating dtype"
    if any(not is_tensor(type) or device(type) != "cpu" or layout(type) != "strided" for type in types):
        return "a tensor is not a strided one on the CPU"
    if not found.dtypes <= ({name} if name == "float64" else {name, "float32"}):
        return "scores or probabilities have another precision"
    if not (found.scale > 0 and math.isfinite(found.scale)):
        return "the scale is not positive"
    keys, width = found.key.sizes[-2:]
    if found.query.sizes[-1] != width or found.value.sizes[-1] != width or found.value.sizes[-2] != keys:
        return "keys and values have different widths, for which PyTorch computes the products apart"
    wide, outer = found.value.sizes[:-2], found.batches[-1]
    if len(wide) > len(outer) or any(a not in (1, b) for a, b in zip(reversed(wide), reversed(outer), strict=False)):
        return "the values have leading sizes that the probabilities lack"
    root = found.output.op.get_toplevel_object()
    known = facts_of(root, "min") if isinstance(root, Operation) else {}
    if (keys if isinstance(keys, int) else known.get(keys, 0)) < LEAST_KEYS:
        return f"there may be fewer than {LEAST_KEYS} keys"
    for mask in found.masks:
        if mask.fill is None and not (is_floating(mask.value.type) or is_integral(mask.value.type)):
            return "the mask is complex"
        if not is_tensor(mask.value.type) or device(mask.value.type) != "cpu":
            return "the mask is not on the CPU"
    return None


_DEPTH, _ELEMENTS = 32, 1 << 20
"""The longest chain of operations, and the largest tensor, that are evaluated."""


class ClosedValues:
    """Evaluates values that depend on constants only."""

    def __init__(self, ctx: FxcContext) -> None:
        self._evaluation = Evaluation(ctx, _ELEMENTS)
        self._known = dict[SSAValue, TensorLiteralAttr | None]()

    def literal(self, value: SSAValue, depth: int = _DEPTH) -> TensorLiteralAttr | None:
        """The elements of a tensor; None where they are not known."""
        if value not in self._known:
            self._known[value] = self._evaluated(value, depth)
        return self._known[value]

    def _evaluated(self, value: SSAValue, depth: int) -> TensorLiteralAttr | None:
        op = value.owner
        if isinstance(op, ConstantOp):
            return op.value if isinstance(op.value, TensorLiteralAttr) else None
        sizes = [size for size in dims_of(value) if isinstance(size, int)]
        if not isinstance(op, TorchOp) or len(op.results) != 1 or not depth or math.prod(sizes) > _ELEMENTS:
            return None
        if op.regions or not is_pure(op) or is_uninitialized(op) or not is_tensor(value.type):
            return None
        operands = [literal for each in op.operands if (literal := self.literal(each, depth - 1)) is not None]
        found = self._evaluation.evaluate(op, operands) if len(operands) == len(op.operands) else None
        return found[0] if found is not None and isinstance(found[0], TensorLiteralAttr) else None

    def number(self, tree: Tree) -> float | None:
        """The number that is passed, as a constant or as a tensor of equal elements."""
        if not isa(tree, SSAValue):
            return number(tree)
        elements = self.elements(tree)
        return (
            elements.flat[0].item() if elements is not None and elements.size and (elements == elements.flat[0]).all() else None
        )

    def elements(self, value: SSAValue) -> NDArray[np.floating[Any]] | None:
        """The elements of a tensor of floating-point numbers; None where they are not known."""
        name, literal, shape = dtype(value.type), self.literal(value), static(dims_of(value))
        if literal is None or shape is None or name not in ("float64", "float32", "float16", "bfloat16"):
            return None
        if name == "bfloat16":
            flat = (np.frombuffer(literal.bytes, "<u2").astype("<u4") << 16).view("<f4")
        else:
            flat = np.frombuffer(literal.bytes, np.dtype(name).newbyteorder("<"))
        return flat.reshape(shape)
