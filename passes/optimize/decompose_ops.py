"""decompose-ops: operators that hide a matrix product, or pointwise work, in what they are made of.

Assumes:    the torch level without packed tuples (``lower-simple-tuples``); ``functionalize`` where norms run in training.
Guarantees: no ``addmm`` with alpha = beta = 1 is left, and no ``linear``: they are ``mm``, and ``add`` for a bias. On other
            devices than the CPU, which has fast kernels for them, ``layer_norm``, ``batch_norm`` and ``group_norm`` are
            statistics and pointwise operators; with ``cpu = true`` everywhere. The parts are those of PyTorch's own
            decomposition. With ``reductions = true`` these norms are taken apart everywhere, and so are their derivatives,
            ``rms_norm``, softmax, losses and other operators that are reductions and pointwise work, for ``fuse`` to
            gather; ``dropout`` on a CPU is a draw and pointwise work. Types of results do not change. Running it again
            changes nothing.
Keeps:      ``addmm`` with other factors, with factors that are values, in half precision, where ``mm`` would round once
            more, and with a bias whose strides the sum would take over. Norms that update their statistics in place. An
            operator whose parts would write or draw, give another type, strides included, or hand an operand back.
            Sums are added up in another order, so results may differ in the last bits.
Cost:       a PyTorch trace for each operator but ``addmm``: 3 to 30 ms. Run ``simplify`` afterwards.

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

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from fxc.dialects.context import FxcContext
from fxc.dialects.effects import is_random
from fxc.dialects.torch_ops.base import TorchOp
from fxc.dialects.torch_ops.traits import is_norm, is_statistics
from fxc.dialects.types import device, strides
from fxc.dialects.values import float_attr
from fxc.passes._decomposition import decompose, put_in_place
from fxc.passes._matching import dtype, number, rank, torch_op

_ADDMM = "aten.addmm.default"
_DROPOUT = "aten.dropout.default"
_PRODUCTS = frozenset(["aten.linear.default"])


@dataclass(frozen=True)
class DecomposeOpsPass(ModulePass):
    name = "decompose-ops"

    cpu: bool = False
    reductions: bool = False

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        assert isinstance(ctx, FxcContext)
        pending = [inner for inner in op.walk() if isinstance(inner, TorchOp)]
        while pending:
            inner = pending.pop()
            if inner.operator == _ADDMM:
                _split_addmm(inner)
            elif inner.operator == _DROPOUT and self.reductions:
                _split_dropout(inner)
            elif inner.operator in _PRODUCTS or self._takes_apart(inner):
                pending += decompose(ctx, inner)

    def _takes_apart(self, op: TorchOp) -> bool:
        if is_norm(op):
            return self.reductions or self.cpu or _off_cpu(op)
        return self.reductions and is_statistics(op)


def _off_cpu(op: TorchOp) -> bool:
    return all(device(v.type) != "cpu" for v in op.operands if isinstance(v.type, TensorType))


def _split_addmm(op: TorchOp) -> None:
    """addmm(b, x, y) -> b + mm(x, y)"""
    bound = op.bound()
    bias, result = bound["self"], op.results[0]
    if not all(isinstance(operand.type, TensorType) for operand in op.operands) or not isinstance(bias, SSAValue):
        return
    if any(number(bound[name]) != 1 for name in ("beta", "alpha") if name in bound):
        return
    if dtype(result.type) in ("float16", "bfloat16") or strides(result.type) is not None:  # type: ignore[arg-type]
        return
    if dtype(bias.type) != dtype(result.type):
        return
    if rank(bias) == 2 and strides(bias.type) is not None:  # type: ignore[arg-type]
        return
    product = torch_op("aten.mm.default").build_call([bound["mat1"], bound["mat2"]], {}, [result.type], location=op.location)
    total = torch_op("aten.add.Tensor").build_call([bias, product.results[0]], {}, [result.type], location=op.location)
    put_in_place(op, [product, total], [(result, total.results[0])])


def _split_dropout(op: TorchOp) -> None:
    """dropout(x, p, True) -> x * (bernoulli(x, 1 - p) / (1 - p)), as PyTorch computes it on a CPU"""
    bound, result = op.bound(), op.results[0]
    x, share = bound["input"], number(bound["p"])
    if not isinstance(x, SSAValue) or not is_random(op) or share is None or not 0 < share < 1:
        return
    if x.type != result.type or device(result.type) != "cpu" or strides(result.type) is not None:  # type: ignore[arg-type]
        return
    kept, place = float_attr(1 - share), op.location
    draw = torch_op("aten.bernoulli.p").build_call([x, kept], {}, [result.type], location=place)
    noise = torch_op("aten.div.Tensor").build_call([draw.results[0], kept], {}, [result.type], location=place)
    product = torch_op("aten.mul.Tensor").build_call([x, noise.results[0]], {}, [result.type], location=place)
    put_in_place(op, [draw, noise, product], [(result, product.results[0])])
