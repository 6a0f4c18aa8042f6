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

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from fxc.dialects.attributes.types import device, is_tensor, sizes
from fxc.dialects.base.effects import aliases
from fxc.dialects.context import FxcContext
from fxc.dialects.torch_ops.base import TorchOp
from fxc.dialects.torch_ops.schema import is_foreach
from fxc.passes.analysis.requires_grad import needs_gradient
from fxc.passes.fusion.decompose_ops.reductions import add_rows, simplify_reduction
from fxc.passes.fusion.decompose_ops.unpacked_products import split_unpacked_product
from fxc.passes.operators.record import When
from fxc.passes.operators.table import is_computed_by_kernels, operator_of, replace_by_parts
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
            record = operator_of(inner).parts
            if kernels and record is not None and record.if_read is not None and is_read_by_kernels(inner.results[0]):
                parts = record.if_read(ctx, inner)
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
