"""What is computed once of frozen weights."""

from __future__ import annotations

from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from fxc.dialects.target import CpuAttr, target_of, toplevel
from fxc.dialects.torch_ops.base import TorchOp
from fxc.passes.analysis.constants import unchanging_ops
from fxc.passes.operators.unpacked import unpacked_product


def frozen_ops(entry: FuncOp) -> tuple[list[Operation], set[SSAValue]]:
    """``unchanging_ops``, and the values, without those by which kernels unpack the matrix of a product in each call."""
    found, known = unchanging_ops(entry)
    if not isinstance(target_of(toplevel(entry)), CpuAttr):
        return found, known
    products = [unpacked_product(op) for op in entry.body.block.ops if isinstance(op, TorchOp)]
    unpacked = {part for product in products if product is not None for part in product.parts}
    return [op for op in found if op not in unpacked], known.difference(value for op in unpacked for value in op.results)
