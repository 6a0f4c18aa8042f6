"""Compute random numbers from a seed, by operators that kernels can fuse.

Assumes  the torch level, one result per value (``lower-simple-tuples``), without mutation.
Ensures  ``rand``, ``randn``, ``randint``, ``uniform``, ``normal``, ``exponential``, ``bernoulli`` and dropout are
         ``fxc.uniform`` of a seed and pointwise operators. Each block has one seed per device, by ``randint`` of
         PyTorch's generator. Idempotent.
Leaves   other random operators; those with a generator, dynamic sizes, explicit strides, complex results, integers over
         a range above 2**31, or with probabilities and factors that are values.
Cost     one walk. A random number costs a kernel about 40 multiplications; without kernels it is slower than PyTorch's.

Before:
    func.func @main(%x: tensor<4x3xf32>) {
      %y = torch.aten.bernoulli.p(%x, 0.25) : (tensor<4x3xf32>) -> tensor<4x3xf32>
      fx.output(%y) : (tensor<4x3xf32>) -> ()
    }
After:
    func.func @main(%x: tensor<4x3xf32>) {
      %seed = torch.aten.randint.default(9223372036854775807, [], dtype = torch.int64) : () -> tensor<i64>
      %u = torch.fxc.uniform.default(%seed, [4, 3], 0, torch.float32) : (tensor<i64>) -> tensor<4x3xf32>
      %m = torch.aten.lt.Scalar(%u, 0.25) : (tensor<4x3xf32>) -> tensor<4x3xi1>
      %y = torch.aten._to_copy.default(%m, dtype = torch.float32) : (tensor<4x3xi1>) -> tensor<4x3xf32>
      fx.output(%y) : (tensor<4x3xf32>) -> ()
    }
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from fxc.dialects.attributes.types import device, dims_of, dtype_name, is_tensor, layout, sizes, strides, tensor_of, tensor_type
from fxc.dialects.attributes.values import device_attr, dtype_attr, int_attr
from fxc.dialects.base.effects import is_random
from fxc.dialects.torch_ops.base import TorchOp
from fxc.dialects.torch_ops.operators import torch_op
from fxc.passes.analysis.matching import is_default
from fxc.passes.operators.sampling import RandomNumbers
from fxc.passes.operators.table import operator_of
from fxc.passes.rewriting.insertion import put_in_place

SEEDS = (1 << 63) - 1
"""The number of seeds that ``randint`` samples from."""


@dataclass(frozen=True)
class LowerRandomPass(ModulePass):
    """The source of seeds, and the results that they make repeatable.

    The seed comes from PyTorch's generator of the device, so ``torch.manual_seed`` makes runs repeatable. Each operation has a
    separate stream of the seed, and a number depends on its position alone, so another kernel or a derivative that recomputes
    it gets the same number. The distributions are those of PyTorch, the numbers are not.
    """

    name = "lower-random"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        draws = dict[Block, list[TorchOp]]()
        for inner in op.walk():
            if isinstance(inner, TorchOp) and _is_covered(inner):
                block = inner.parent
                assert block is not None
                draws.setdefault(block, []).append(inner)
        for found in draws.values():
            _lower(found)


def _is_covered(op: TorchOp) -> bool:
    if operator_of(op).sampled is None or not is_random(op) or op.is_packed or not is_default(op.argument("generator")):
        return False
    return all(_is_dense(result.type) for result in op.results) and not _is_seed(op)


def _is_dense(type: object) -> bool:
    if not is_tensor(type) or layout(type) != "strided" or strides(type) is not None:
        return False
    return all(isinstance(size, int) for size in sizes(type)) and not dtype_name(type.element_type).startswith("complex")


def _is_seed(op: TorchOp) -> bool:
    """Whether ``op`` samples one integer, as a seed does."""
    return op.operator.startswith("aten.randint.") and dims_of(op.results[0]) == ()


def _lower(draws: list[TorchOp]) -> None:
    """Replace the random operators ``draws`` of one block by formulas."""
    seeds, streams = dict[str, TorchOp](), count()
    for op in draws:
        place = device(tensor_of(op.results[0]))
        seed = seeds.get(place) or _seed(op, place)
        if _replace(op, seed.results[0], streams):
            seeds[place] = seed
        elif place not in seeds:
            Rewriter.erase_op(seed)


def _replace(op: TorchOp, seed: SSAValue, streams: Iterator[int]) -> bool:
    numbers, sampled = RandomNumbers(op, seed, streams), operator_of(op).sampled
    assert sampled is not None
    results = sampled(numbers, op.bound())
    if results is None or any(result.type != old.type for result, old in zip(results, op.results, strict=True)):
        for part in reversed(numbers.parts):
            part.erase()
        return False
    put_in_place(op, numbers.parts, list(zip(op.results, results, strict=True)))
    return True


def _seed(op: TorchOp, place: str) -> TorchOp:
    """Insert the sampling of a seed on the device ``place`` before ``op``."""
    kwargs = {"dtype": dtype_attr("int64")} | ({} if place == "cpu" else {"device": device_attr(place)})
    type = tensor_type("int64", (), None, place)
    seed = torch_op("aten.randint.default").build_call([int_attr(SEEDS), []], kwargs, [type], location=op.location)
    seed.results[0].name_hint = "seed"
    Rewriter.insert_op(seed, InsertPoint.before(op))
    return seed
