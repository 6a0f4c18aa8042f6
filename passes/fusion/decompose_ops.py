"""Decompose operators that contain a matrix product or pointwise work, for fusion.

Assumes  the torch level without packed tuples (``lower-simple-tuples``); ``functionalize`` where norms run in training.
Ensures  no ``linear`` and no ``addmm`` with alpha = beta = 1 remains; norms are decomposed except on the CPU, with
         ``cpu = true`` everywhere; with ``reductions = true`` reductions and pointwise operators are decomposed, too
         (see the class). Result types are unchanged. Idempotent.
Leaves   ``addmm`` with other factors, in half precision, or whose bias determines the strides; norms that update
         statistics in place; operators whose decomposition writes, is random, has another type or returns an operand.
         Last bits of sums may differ.
Cost     a PyTorch trace for each operator except ``addmm``: 3 to 30 ms. Run ``simplify`` afterwards.

Before:
    func.func @main(%b: tensor<4xf32>, %x: tensor<2x3xf32>, %w: tensor<3x4xf32>) {
      %y = torch.aten.addmm.default(%b, %x, %w) : (tensor<4xf32>, tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
      fx.output(%y) : (tensor<2x4xf32>) -> ()
    }
After:
    func.func @main(%b: tensor<4xf32>, %x: tensor<2x3xf32>, %w: tensor<3x4xf32>) {
      %m = torch.aten.mm.default(%x, %w) : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
      %y = torch.aten.add.Tensor(%b, %m) : (tensor<4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
      fx.output(%y) : (tensor<2x4xf32>) -> ()
    }
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from fxc.dialects.attributes.types import device, dtype_name, is_tensor, layout, sizes, strides, tensor_type
from fxc.dialects.attributes.values import Tree, bool_attr, int_attr, isa
from fxc.dialects.base.effects import aliases
from fxc.dialects.context import FxcContext
from fxc.dialects.torch_ops.base import TorchOp
from fxc.dialects.torch_ops.namespaces import is_foreach
from fxc.dialects.torch_ops.operators import torch_op
from fxc.passes.analysis.matching import dtype, integer, integers, is_default, is_floating, number, producer
from fxc.passes.analysis.requires_grad import needs_gradient
from fxc.passes.operators.bias import ADDMM, split_below_view
from fxc.passes.operators.record import When
from fxc.passes.operators.rules import Reduction, View
from fxc.passes.operators.table import has_formula, operator_of, replace_by_parts
from fxc.passes.operators.unpacked import split_unpacked_product
from fxc.passes.operators.views import reshape
from fxc.passes.rewriting.decomposition import put_in_place
from fxc.passes.rewriting.functions import copy_op, derivatives, differentiated_functions


@dataclass(frozen=True)
class DecomposeOpsPass(ModulePass):
    """Which operators are decomposed, and which stay.

    The decompositions are those of PyTorch: ``mm``, and ``add`` for a bias; statistics and pointwise operators for
    ``layer_norm``, ``batch_norm`` and ``group_norm``, for which the CPU has fast kernels. An ``addmm`` in half precision rounds
    once where ``mm`` and ``add`` round twice. A ``bmm`` of one matrix becomes ``mm`` except on the CPU.

    With ``reductions = true`` these are decomposed as well: the norms on every device, their derivatives, ``rms_norm``,
    softmax, losses, and other operators that consist of reductions and pointwise work; operators on lists of tensors
    (``_foreach_add``), one operator per tensor; dropout on a CPU, and splits whose pieces kernels read; sums of single
    elements, and reductions of views; products of one row of float32 or float64 on a CPU, unless large, and of few rows with
    a matrix that kernels unpack from fewer bytes; conversions of ``float8_e4m3fn`` on a CPU; products of stacks of matrices;
    pooling of windows of up to 25 elements; images resized to the nearest elements, which become reads at computed positions;
    gradients of embeddings that are added to a tensor, and of depthwise weights of 25 or more elements a channel.

    Operations that need a gradient stay, and so do derivatives, until their incoming gradients are known. Operations on a
    tensor without elements stay, too: no kernel computes them, and their parts may reject it, as ``amax`` does.
    """

    name = "decompose-ops"

    cpu: bool = False
    reductions: bool = False

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        assert isinstance(ctx, FxcContext)
        hidden, apart = differentiated_functions(op), derivatives(op)
        for function in op.body.block.ops:
            if isinstance(function, FuncOp) and function.sym_name.data in apart:
                continue
            seen = not isinstance(function, FuncOp) or function.sym_name.data not in hidden
            self._decompose(ctx, [inner for inner in function.walk() if isinstance(inner, TorchOp)], seen)
            for inner in function.walk():
                if isinstance(inner, TorchOp) and self._is_for_kernels(inner, seen):
                    release_operand(inner)

    def _is_for_kernels(self, op: TorchOp, seen_by_autograd: bool) -> bool:
        return self.reductions and not (seen_by_autograd and needs_gradient(op)) and not _is_of_nothing(op)

    def _decompose(self, ctx: FxcContext, pending: list[TorchOp], seen_by_autograd: bool) -> None:
        while pending:
            inner = pending.pop()
            kernels = self._is_for_kernels(inner, seen_by_autograd)
            parts: Sequence[TorchOp] = ()
            if kernels and inner.operator == ADDMM and is_read_by_kernels(inner.results[0]):
                parts = split_below_view(inner)
            if not parts and kernels:
                parts = split_unpacked_product(ctx, inner)
            if not parts and self._has_parts(inner, kernels):
                parts = replace_by_parts(ctx, inner)
            if not parts and kernels:
                _ = simplify_reduction(inner) or add_rows(inner)
            pending += parts

    def _has_parts(self, op: TorchOp, kernels: bool) -> bool:
        """Whether the decomposition of ``op`` is better than ``op``."""
        if (parts := operator_of(op).parts) is None:
            return kernels and is_foreach(op)
        match parts.when:
            case When.ALWAYS:
                return True
            case When.NO_FAST_CALL:
                return kernels or self.cpu or all(device(v.type) != "cpu" for v in op.operands if is_tensor(v.type))
            case When.KERNELS:
                return kernels
            case When.READ:
                return kernels and any(map(is_read_by_kernels, op.results))
            case When.BESIDE:
                return kernels and is_beside_kernels(op)


def _is_of_nothing(op: TorchOp) -> bool:
    """Whether the first operand is a tensor without elements."""
    return bool(op.operands) and is_tensor(type := op.operands[0].type) and 0 in sizes(type)


def release_operand(op: TorchOp) -> None:
    """Let a random operator that only uses the type of its operand read another tensor of this type.

    The other tensor, or a view of it, is not computed by a kernel, so the random operator does not wait for one.
    """
    if operator_of(op).reads_type and (origin := _origin(op, op.operands[0])) is not None:
        op.operands[0] = origin


def _origin(draw: TorchOp, value: SSAValue) -> SSAValue | None:
    """A tensor of the type of ``value`` from which ``value`` is computed; views of it are inserted before ``draw``."""
    op = value.owner
    if not isinstance(op, TorchOp):
        return None
    if is_computed_by_kernels(op):
        same = next((operand for operand in op.operands if operand.type == value.type), None)
        return None if same is None else _origin(draw, same) or same
    if not list(_views(op)) or (origin := _origin(draw, op.operands[0])) is None:
        return None
    view = copy_op(op, {op.operands[0]: origin})
    Rewriter.insert_op(view, InsertPoint.before(draw))
    return view.results[0]


def is_beside_kernels(op: TorchOp) -> bool:
    """Whether kernels compute operands of ``op`` or read its results."""
    sources = (value.owner for value in op.operands if isinstance(value.owner, Operation))
    return any(map(is_read_by_kernels, op.results)) or any(map(is_computed_by_kernels, sources))


def is_read_by_kernels(value: SSAValue) -> bool:
    """Whether an operator that kernels compute reads ``value``, or a view of it."""
    return any(is_computed_by_kernels(user) or any(map(is_read_by_kernels, _views(user))) for user in _users(value))


def _users(value: SSAValue) -> Iterator[Operation]:
    return iter(dict.fromkeys(use.operation for use in value.uses))


def _views(op: Operation) -> Iterator[SSAValue]:
    if isinstance(op, TorchOp) and any(aliases(op)) and len(op.results) == 1:
        yield op.results[0]


def is_computed_by_kernels(op: Operation) -> bool:
    return isinstance(op, TorchOp) and has_formula(op) and not any(aliases(op))


_SUM, _VIEW = "aten.sum.dim_IntList", "aten.view.default"


def simplify_reduction(op: TorchOp) -> bool:
    """Replace the reduction ``op`` by a simpler form. Returns whether there is one."""
    return _reduces_list(op) and (_add_nothing(op) or _reduce_above_view(op))


def _reduces_list(op: TorchOp) -> bool:
    """Whether ``op`` reduces a list of dimensions, and returns no indices."""
    formula, dim = operator_of(op).formula, op.SCHEMA.by_name.get("dim")
    reduces = isinstance(formula, Reduction) and not formula.centred and formula.extreme is None
    return reduces and dim is not None and "[" in dim.type


def _add_nothing(op: TorchOp) -> bool:
    """sum(x) of single elements -> view(x + 0): a sum starts at zero, so the sum of -0.0 is 0.0"""
    if op.operator != _SUM or (found := _shapes(op)) is None:
        return False
    shape, dims = found
    source, result = op.operands[0], op.results[0]
    if any(shape[dim] != 1 for dim in dims) or dtype(source.type) != dtype(result.type) or not is_floating(result.type):
        return False
    total = torch_op("aten.add.Scalar").build_call([source, int_attr(0)], {}, [source.type], location=op.location)
    _put_with_view(op, total)
    return True


def _reduce_above_view(op: TorchOp) -> bool:
    """reduce(view(x), dims) -> view(reduce(x, other dims))

    The view must be of contiguous memory, and not join or split any of ``dims`` with a dimension that remains.
    """
    found, view = _shapes(op), op.operands[0].owner
    if found is None or not isinstance(view, TorchOp) or operator_of(view).formula != View(reshape):
        return False
    if (origin := _computed_shape(view.operands[0])) is None:
        return False
    reduced = _dims_above(origin, *found)
    if reduced is None or origin == found[0]:
        return False
    rest, result = tuple(size for dim, size in enumerate(origin) if dim not in reduced), op.results[0].type
    assert is_tensor(result)
    changed = {"self": view.operands[0], "dim": [*map(int_attr, reduced)], "keepdim": bool_attr(False)}
    _put_with_view(
        op, op.rebuilt({**op.bound(), **changed}, [tensor_type(dtype_name(result.element_type), rest, device=device(result))])
    )
    return True


def _put_with_view(op: TorchOp, instead: TorchOp) -> None:
    """Replace ``op`` by ``instead``, whose elements are the same in the same order, and a view if the shape differs."""
    result, parts = op.results[0], [instead]
    if instead.results[0].type != result.type:
        assert is_tensor(result.type)
        shape = [int_attr(size) for size in result.type.get_shape()]
        parts.append(torch_op(_VIEW).build_call([instead.results[0], shape], {}, [result.type], location=op.location))
    put_in_place(op, parts, [(result, parts[-1].results[0])])


def _shapes(op: TorchOp) -> tuple[tuple[int, ...], list[int]] | None:
    """The shape that ``op`` reduces, and the reduced dimensions; None unless both tensors are contiguous with static sizes."""
    shape, dims = _static_shape(op.operands[0].type), integers(op.bound().get("dim"))
    if shape is None or not dims or _static_shape(op.results[0].type) is None:
        return None
    return shape, [dim % len(shape) for dim in dims]


def _computed_shape(value: SSAValue) -> tuple[int, ...] | None:
    owner = value.owner
    return _static_shape(value.type) if isinstance(owner, Operation) and is_computed_by_kernels(owner) else None


def _static_shape(type: object) -> tuple[int, ...] | None:
    """The static sizes of a contiguous, nonempty tensor with at least one dimension; None for any other."""
    if not is_tensor(type) or strides(type) is not None:
        return None
    found = tuple(size for size in sizes(type) if isinstance(size, int) and size > 0)
    return found if found and len(found) == type.get_num_dims() else None


def _dims_above(origin: Sequence[int], shape: Sequence[int], dims: Sequence[int]) -> list[int] | None:
    """The dimensions of ``origin`` that are ``dims`` of its view of ``shape``; None where one is only partly reduced."""
    found = list[int]()
    for sources, targets in _common_groups(origin, shape):
        going = {dim in dims for dim in targets if shape[dim] != 1}
        if len(going) > 1:
            return None
        if going == {True}:
            found += sources
    return found or None


def _common_groups(a: Sequence[int], b: Sequence[int]) -> Iterator[tuple[list[int], list[int]]]:
    """The dimensions of two shapes with equally many elements, in the smallest groups with equally many elements each."""
    i = j = 0
    while i < len(a) or j < len(b):
        left, right = [i] if i < len(a) else [], [j] if j < len(b) else []
        i, j = i + len(left), j + len(right)
        while (size := math.prod(a[dim] for dim in left)) != (other := math.prod(b[dim] for dim in right)):
            if size < other:
                left.append(i)
                i += 1
            else:
                right.append(j)
                j += 1
        yield left, right


_ADD, _GRADIENT = "aten.add.Tensor", "aten.embedding_dense_backward.default"
_WIDE = frozenset(["float32", "float64"])


def add_rows(op: TorchOp) -> bool:
    """add(x, embedding_dense_backward(g, i)) -> index_add(x, 0, view(i), view(g)), on a CPU; returns whether it matched

    This avoids a tensor of zeros as large as the weights. In half precision the sum stays, because its rows are summed before
    they are added to x.
    """
    if op.operator != _ADD or (op.argument("alpha") is not None and number(op.argument("alpha")) != 1):
        return False
    a, b = op.bound()["self"], op.bound()["other"]
    return any(_add_rows(op, total, producer(rows, (_GRADIENT,))) for total, rows in ((a, b), (b, a)))


def _add_rows(op: TorchOp, total: Tree, gradient: TorchOp | None) -> bool:
    result = op.results[0].type
    if gradient is None or not isa(total, SSAValue) or total.type != result or gradient.results[0].type != result:
        return False
    if dtype(result) not in _WIDE or not is_default(gradient.argument("scale_grad_by_freq")):
        return False
    if len(list(gradient.results[0].uses)) != 1:
        return False
    padding, (rows, indices) = integer(gradient.argument("padding_idx")), gradient.operands[:2]
    shapes = [_shape(type) for type in (result, rows.type, indices.type)]
    if padding is None or padding >= 0 or None in shapes:
        return False
    count = math.prod(shapes[2] or ())
    parts = [_view(indices, (count,)), _view(rows, (count, math.prod(shapes[1] or ()) // count))]
    values = [total, int_attr(0), *(part.results[0] for part in parts)]
    parts.append(torch_op("aten.index_add.default").build_call(values, {}, [result], location=op.location))
    put_in_place(op, parts, [(op.results[0], parts[-1].results[0])])
    return True


def _shape(type: Attribute) -> tuple[int, ...] | None:
    """The sizes of a contiguous, nonempty tensor on a CPU; None for any other."""
    if not is_tensor(type) or strides(type) is not None or device(type) != "cpu" or layout(type) != "strided":
        return None
    found = tuple(size for size in sizes(type) if isinstance(size, int) and size > 0)
    return found if len(found) == type.get_num_dims() else None


def _view(value: SSAValue, shape: tuple[int, ...]) -> TorchOp:
    assert is_tensor(value.type)
    type = tensor_type(dtype_name(value.type.element_type), shape)
    return torch_op("aten.view.default").build_call([value, [*map(int_attr, shape)]], {}, [type])
