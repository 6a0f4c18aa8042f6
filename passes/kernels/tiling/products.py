"""Matrix products, alone or the two of an attention, and the adjacent groups that their kernels can compute.

All addresses are over four loops: of a product ``p[BATCH, ROW, COLUMN]`` that is summed over ``INNER``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import prod

from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import TensorType
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import BlockArgument, Operation, SSAValue

from fxc.dialects.attributes.size_polynomials import Steps, strides_of
from fxc.dialects.attributes.types import contiguous_strides, device, dtype_name, is_tensor, layout, sizes, strides, tensor_of
from fxc.dialects.attributes.values import isa
from fxc.dialects.base.effects import aliases, is_view
from fxc.dialects.fusion import GroupOp, YieldOp
from fxc.dialects.tile import IterateOp
from fxc.dialects.torch_ops import TorchOp
from fxc.passes.analysis.index.forms import Form
from fxc.passes.analysis.matching import number
from fxc.passes.analysis.memory import writes_between
from fxc.passes.analysis.requires_grad import needs_gradient
from fxc.passes.kernels.tiling.choices import power_of_two
from fxc.passes.kernels.tiling.dynamic import fixed
from fxc.passes.kernels.tiling.stages import Stage, stages_of
from fxc.passes.operators.table import operator_of

BATCH, ROW, COLUMN, INNER = range(4)
DTYPES = ("float16", "bfloat16", "float32")
SMALLEST = 16
"""The smallest side of a block whose products a GPU computes."""


@dataclass(frozen=True)
class Factor:
    """A tensor, with the loop along each of its dimensions; adjacent dimensions may share one."""

    value: SSAValue
    loops: tuple[int, ...]

    @property
    def form(self) -> Form:
        """The addresses of its elements; dimensions of size 1 do not contribute."""
        found = self._form()
        assert found is not None
        return found

    def is_even(self) -> bool:
        """Whether adjacent dimensions that share a loop have strides that make one even loop."""
        return self._form() is not None

    def _form(self) -> Form | None:
        sizes = dict(enumerate(tensor_of(self.value).get_shape()))
        steps = dict(enumerate(map(fixed, strides_of(tensor_of(self.value)))))
        axes = {loop: [dim for dim, other in enumerate(self.loops) if other == loop] for loop in self.loops}
        return _over(Form.of(0, steps), axes, sizes)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Product:
    """``alpha`` times a matrix product, plus ``beta`` times ``bias``. ``extents``: the sizes of the four loops."""

    op: TorchOp
    left: Factor
    right: Factor
    total: Factor
    extents: tuple[int, int, int, int]
    bias: Factor | None = None
    alpha: float = 1.0
    beta: float = 1.0

    @property
    def result(self) -> SSAValue:
        return self.op.results[0]


@dataclass(frozen=True)
class Fused:
    """A stage over the loops of a product, with its addresses.

    An address in ``reads`` is None for a value computed in the kernel; ``written`` is None where the result is not stored.
    """

    stage: Stage
    reads: Mapping[BlockArgument, Form | None]
    written: Form | None = None


@dataclass
class Surroundings:
    """The work that a kernel computes besides the product: stages before it for factors, and the stages of a group after it."""

    before: dict[SSAValue, Fused] = field(default_factory=lambda: {})
    after: list[Fused] = field(default_factory=lambda: [])
    group: GroupOp | None = None


def side(size: int) -> int:
    """The smallest side of a block with room for ``size`` elements."""
    return max(power_of_two(size), SMALLEST)


def product_of(op: Operation) -> Product | None:
    """The product that ``op`` computes; None unless it has static, dense float matrices on one device."""
    names = operator_of(op).factors
    if names is None or not isinstance(op, TorchOp):
        return None
    bound = op.bound()
    left, right, bias = (bound.get(name) for name in (names.left, names.right, names.added))
    alpha, beta = (number(bound[name]) if name in bound else 1.0 for name in ("alpha", "beta"))
    added = bias if isa(bias, SSAValue) and beta else None
    tensors = [left, right, op.results[0], *([added] if added is not None else [])]
    if alpha is None or beta is None or len(op.results) != 1 or not _are_alike(tensors):
        return None
    loops = _loops(_rank(left), _rank(right), is_turned=names.is_turned)
    if loops is None:
        return None
    factors = [Factor(value, each) for value, each in zip(tensors, loops, strict=False)]  # type: ignore[arg-type]
    if added is not None:
        factors.append(Factor(added, loops[2][len(loops[2]) - _rank(added) :]))
    sizes = dict.fromkeys((BATCH, ROW, COLUMN, INNER), 1)
    for factor, own in zip(factors, (loops[0], (COLUMN,)), strict=False):
        for loop, size in zip(factor.loops, factor.value.type.get_shape(), strict=True):  # type: ignore[union-attr]
            sizes[loop] *= size if loop in own else 1
    if not all(sizes.values()) or not all(factor.is_even() for factor in factors):
        return None
    extents = (sizes[BATCH], sizes[ROW], sizes[COLUMN], sizes[INNER])
    first, second, total, *rest = factors
    if BATCH in first.loops and first.value.type.get_shape()[0] != second.value.type.get_shape()[0]:  # type: ignore[union-attr]
        return None
    return Product(op, first, second, total, extents, rest[0] if rest else None, float(alpha), float(beta))


def _rank(value: object) -> int:
    assert isa(value, SSAValue) and is_tensor(value.type)
    return len(value.type.get_shape())


def _loops(left: int, right: int, *, is_turned: bool) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]] | None:
    """The loops along the dimensions of factors of these ranks, and of their product."""
    if left == right == 3 and not is_turned:
        return (BATCH, ROW, INNER), (BATCH, INNER, COLUMN), (BATCH, ROW, COLUMN)
    if left < 2 or right != 2:
        return None
    rows = (ROW,) * (left - 1)
    turned = (COLUMN, INNER) if is_turned else (INNER, COLUMN)
    return (*rows, INNER), turned, (*rows, COLUMN)


def _are_alike(values: Sequence[object]) -> bool:
    if not all(isa(value, SSAValue) and is_tensor(value.type) for value in values):
        return False
    types: list[TensorType] = [value.type for value in values]  # type: ignore[misc]
    static = all(isinstance(dim, int) for type in types for dim in (*sizes(type), *(strides(type) or ())))
    dtypes = {dtype_name(type.element_type) for type in types}
    return (
        static
        and all(layout(t) == "strided" for t in types)
        and len({device(t) for t in types}) == 1
        and (len(dtypes) == 1 and dtypes <= set(DTYPES))
    )


def surroundings_of(product: Product) -> Surroundings:
    """The groups before and after ``product`` that its kernel can compute."""
    found = Surroundings()
    for factor in (product.left, product.right):
        if (fused := _before(product, factor)) is not None:
            found.before[factor.value] = fused
    groups = [use.operation for use in product.result.uses if isinstance(_top(use.operation, product), GroupOp)]
    tops = list(dict.fromkeys(_top(operation, product) for operation in groups))
    if len(tops) == 1 and isinstance(group := tops[0], GroupOp) and _come_after(product, group):
        after = _after(product, group)
        if after:
            found.after, found.group = after, group
    return found


def _top(operation: Operation, product: Product) -> Operation | None:
    """The op in the block of ``product`` that is or contains ``operation``."""
    around: Operation | None = operation
    while around is not None and around.parent is not product.op.parent:
        around = around.parent_op()
    return around


def _come_after(product: Product, group: GroupOp) -> bool:
    """Whether all users of the product are in ``group`` or after it, and nothing writes before that."""
    tops = {_top(use.operation, product) for use in product.result.uses}
    is_first = all(top is group or (top is not None and group.is_before_in_block(top)) for top in tops)
    return is_first and not writes_between(product.op, group)


def _only_elementwise(group: GroupOp) -> list[Stage]:
    """The stages of ``group``, if all are elementwise; else none."""
    known = (linalg.GenericOp, tensor.EmptyOp, arith.ConstantOp, YieldOp)
    stages = stages_of(group) if all(isinstance(op, known) for op in group.body.block.ops) else []
    numbered = any(isinstance(op, linalg.IndexOp | IterateOp) for stage in stages for op in stage.op.body.block.ops)
    return [] if numbered or any(stage.is_reduction for stage in stages) else stages


def _before(product: Product, factor: Factor) -> Fused | None:
    """The stage that only computes ``factor``, over the loops of the product."""
    group = factor.value.owner
    if not isinstance(group, GroupOp) or len(group.results) != 1 or len(list(factor.value.uses)) != 1:
        return None
    stages = _only_elementwise(group)
    if len(stages) != 1 or group.parent is not product.op.parent or writes_between(group, product.op):
        return None
    [stage] = stages
    if stage.is_dynamic:
        return None
    axes = dict[int, list[int]]()
    for loop, kept in zip(factor.loops, stage.kept, strict=True):
        axes.setdefault(loop, []).append(kept)
    sizes = {loop: fixed(size) for loop, size in stage.sizes.items()}
    reads = {argument: _over(stage.form(source, map), axes, sizes) for argument, source, map in stage.reads()}
    return None if None in reads.values() else Fused(stage, reads)


def _after(product: Product, group: GroupOp) -> list[Fused] | None:
    """The stages of ``group`` over the loops of the product; None where one traverses it in another order."""
    made, found = {product.result: product.total.form}, list[Fused]()
    for stage in _only_elementwise(group):
        if stage.is_dynamic:
            return None
        places = [stage.form(source, map) for _, source, map in stage.reads() if source is product.result]
        sizes = {loop: fixed(size) for loop, size in stage.sizes.items()}
        axes = axes_of(places[0], product.extents[:3], sizes) if places else None
        if axes is None:
            return None
        reads = dict[BlockArgument, Form | None]()
        for argument, source, map in stage.reads():
            form = _over(stage.form(source, map), axes, sizes)
            if form is None or made.get(source, form) != form:
                return None
            reads[argument] = None if source in made else form
        written = _over(stage.form(stage.result, stage.maps[-1]), axes, sizes)
        if written is None:
            return None
        made[stage.result] = written
        found.append(Fused(stage, reads, written))
    return found


def axes_of(form: Form, extents: Sequence[int], sizes: Mapping[int, int]) -> dict[int, list[int]] | None:
    """The loops along each axis of the product, outermost first, if ``form`` traverses it in order; else None."""
    loops = sorted((loop for loop, size in sizes.items() if size != 1), key=lambda loop: fixed(form.factor(loop)))
    if form.divided_loops():
        return None
    axes, step = dict[int, list[int]](), 1
    for axis, extent in zip((COLUMN, ROW, BATCH), reversed(extents), strict=True):
        along, done = list[int](), 1
        while done < extent and loops and form.factor(loops[0]) == step:
            loop = loops.pop(0)
            along.insert(0, loop)
            done, step = done * sizes[loop], step * sizes[loop]
        if done != extent:
            return None
        axes[axis] = along
    return None if loops else axes


def _over(form: Form, axes: Mapping[int, Sequence[int]], sizes: Mapping[int, int]) -> Form | None:
    """``form`` with one loop for each of ``axes``; None where an axis is traversed in uneven steps."""
    if form.divided_loops():
        return None
    terms = dict[int, Steps]()
    for axis in sorted(axes):
        along = [loop for loop in axes[axis] if sizes[loop] != 1]
        if any(form.factor(outer) != form.factor(inner) * sizes[inner] for outer, inner in pairwise(along)):
            return None
        terms[axis] = form.factor(along[-1]) if along else 0
    return Form.of(form.constant, terms)  # type: ignore[arg-type]


LONGEST = 256
"""The largest number of columns of queries and values: blocks have all of them."""


def is_plain(product: Product) -> bool:
    """Whether ``product`` is not scaled, needs no gradient, and has factors with at least two elements in each dimension."""
    factors = (product.left, (ROW, INNER)), (product.right, (INNER, COLUMN))
    return (
        product.bias is None
        and not needs_gradient(product.op)
        and product.alpha == 1
        and product.extents[INNER] > 1
        and all(factor.form.factor(loop) for factor, loops in factors for loop in loops)
        and _is_contiguous(product.result)
    )


def fit(scores: Product, output: Product) -> bool:
    """Whether ``scores`` has the extents of the left factor of ``output``, in its order, and blocks have room for them."""
    batch, rows, keys, depth = scores.extents
    left = {loop: step for loop, step in {BATCH: rows * keys, ROW: keys, INNER: 1}.items() if loop != BATCH or batch > 1}
    return (
        (batch, rows, keys) == (output.extents[BATCH], output.extents[ROW], output.extents[INNER])
        and {loop: output.left.form.factor(loop) for loop in left} == left
        and min(rows, keys) >= SMALLEST
        and max(depth, output.extents[COLUMN]) <= LONGEST
    )


def _is_contiguous(value: SSAValue) -> bool:
    return strides(tensor_of(value)) in (None, contiguous_strides(tensor_of(value).get_shape()))


def behind_views(value: SSAValue, reader: GroupOp | None = None) -> tuple[SSAValue, list[Operation]] | None:
    """The value of which ``value`` is a view in the same order, and the views; None where one has another reader.

    ``reader`` contains the readers of ``value``, which has one use without it.
    """
    views = list[Operation]()
    while True:
        inside = reader is not None and not views and all(reader.is_ancestor(use.operation) for use in value.uses)
        if not inside and not value.has_one_use():
            return None
        op = value.owner
        source = next((source for _, source in aliases(op)), None) if isinstance(op, TorchOp) and is_view(op) else None
        if source is None or not _is_same_memory(value, source):
            return value, views
        assert isinstance(op, Operation)
        views.append(op)
        value = source


def _is_same_memory(view: SSAValue, source: SSAValue) -> bool:
    """Whether ``view`` has the elements of ``source`` in the same order: both are contiguous, with as many elements."""
    types = view.type, source.type
    if not all(is_tensor(type) and type.has_static_shape() for type in types):
        return False
    elements = {type.element_type for type in types if is_tensor(type)}
    counts = {prod(type.get_shape()) for type in types if is_tensor(type)}
    return len(elements) == len(counts) == 1 and _is_contiguous(view) and _is_contiguous(source)
