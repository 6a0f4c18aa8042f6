"""Lower cumulative sums, products, maxima and minima to kernels.

Assumes  the torch level, one result per value (``lower-simple-tuples``); the machine in the module's ``fxc.target``,
         else any CPU.
Ensures  ``cumsum``, ``cumprod``, ``cummax`` and ``cummin`` are launches of kernels with ``tile.scan``, or, where rows
         are not adjacent, with one loop for as many rows as a vector has lanes. Precision and ties are PyTorch's.
         Idempotent.
Leaves   scans in fusion groups, those that need a gradient, of tensors without dimensions or elements, not dense, of
         unsupported dtypes, or on a GPU without such a target; conversions of floats to integers; ``logcumsumexp``,
         which combines pairs.
Cost     one walk. A scan of few long rows has little parallelism: a row is one program.

Before:
    func.func @main(%x: tensor<3x32xi32>) {
      %y = torch.aten.cumsum.default(%x, 1) : (tensor<3x32xi32>) -> tensor<3x32xi64>
      fx.output(%y) : (tensor<3x32xi64>) -> ()
    }
After:
    func.func @main(%x: tensor<3x32xi32>) {
      %y = tile.launch @scan_0(%x) : (tensor<3x32xi32>) -> tensor<3x32xi64>
      fx.output(%y) : (tensor<3x32xi64>) -> ()
    }
    tile.kernel @scan_0(%x: !tile.ptr<i32> {tile.access = "read", tile.elements = 96},
                        %values: !tile.ptr<i64> {tile.access = "write", tile.elements = 96})
    attributes {grid = array<i64: 1>, tile.source = ["y = aten.cumsum.default"]} {
      %0 = arith.constant 1 : index
      %1 = arith.constant 2 : index
      %2 = arith.constant 32 : index
      %3 = arith.constant 0 : index
      %4 = arith.constant 3 : index
      %5 = tile.program_id {axis = 0} : index
      %6 = arith.muli %5, %4 : index
      %7 = arith.addi %6, %4 : index
      %8 = arith.minui %7, %4 : index
      scf.for %9 = %6 to %8 step %0 {
        %10 = arith.muli %9, %2 : index
        %11 = arith.muli %9, %2 : index
        %12 = arith.constant 0 : i64
        %13 = scf.for %14 = %3 to %2 step %1 iter_args(%15 = %12) -> (i64) {
          %16 = arith.addi %10, %14 : index
          %17 = tile.load %x[%16] strides [1] : !tile.ptr<i32> -> vector<2xi32>
          %18 = tile.cast "extsi" %17 : vector<2xi32> to vector<2xi64>
          %19 = tile.splat %15 : i64 to vector<2xi64>
          %20 = tile.scan "add" %18 {dim = 0} : vector<2xi64> -> vector<2xi64>
          %21 = arith.addi %19, %20 : vector<2xi64>
          %22 = tile.reduce "add" %18 {dims = [0]} : vector<2xi64> -> i64
          %23 = arith.addi %15, %22 : i64
          %24 = arith.addi %11, %14 : index
          tile.store %21, %values[%24] strides [1] : vector<2xi64>, !tile.ptr<i64>
          scf.yield %23 : i64
        }
      }
      tile.return
    }
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from fxc.dialects.attributes.types import contiguous_strides, device, dtype_name, is_tensor, layout, sizes, strides, tensor_of
from fxc.dialects.base.effects import is_pure
from fxc.dialects.fusion import GroupOp
from fxc.dialects.target import CpuAttr, GpuAttr, TargetAttr, preset, target_of
from fxc.dialects.tile import KernelOp, LaunchOp
from fxc.dialects.torch_ops.base import TorchOp
from fxc.passes.analysis.matching import integer
from fxc.passes.analysis.requires_grad import needs_gradient
from fxc.passes.analysis.statistics import count
from fxc.passes.kernels.lower_scans.scan_kernels import ADD, MAXIMUM, MINIMUM, MULTIPLY, Kind, ScanKernel, ScanLayout
from fxc.passes.kernels.source_lines import notes
from fxc.passes.kernels.tiling.arguments import access, element_of
from fxc.passes.operators.scalars import DTYPES, FLOATS, HALVES, INTEGERS
from fxc.passes.operators.table import operator_of
from fxc.passes.rewriting.functions import fresh_names, outside_derivatives

KINDS: Mapping[str, Kind] = MappingProxyType({kind.name: kind for kind in (ADD, MULTIPLY, MAXIMUM, MINIMUM)})

SMALLEST, LONGEST, COLUMNS = 1024, 1024, 64
"""The least elements of a program on a CPU; on a GPU the elements of a row, or the rows, that are scanned at once."""


@dataclass(frozen=True)
class LowerScansPass(ModulePass):
    """Lower cumulative sums, products, maxima and minima to kernels.

    Half precision is combined in float32, float32 on a CPU in float64, and integers in int64; of equal maxima the last one
    counts.
    """

    name = "lower-scans"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = target_of(op) or preset("cpu")
        names = fresh_names(op, "scan")
        for inner in [inner for inner in outside_derivatives(op) if isinstance(inner, TorchOp) and _is_covered(inner, target)]:
            kernel = _kernel(inner, target, next(names))
            launch = LaunchOp.of(kernel.sym_name.data, inner.operands[:1], inner.result_types)
            launch.location = kernel.location = inner.location
            op.body.block.add_op(kernel)
            Rewriter.replace_op(inner, launch)
            count("scans")


def _is_covered(op: TorchOp, target: TargetAttr) -> bool:
    if not operator_of(op).scan or op.is_packed or not is_pure(op) or needs_gradient(op) or len(op.operands) != 1:
        return False
    if isinstance(op.parent_op(), GroupOp) or integer(op.bound()["dim"]) is None:
        return False
    types = [value.type for value in (op.operands[0], *op.results)]
    if not all(_is_dense(type) for type in types) or len({device(type) for type in types}) > 1:  # type: ignore[arg-type]
        return False
    if not isinstance(target, GpuAttr) and device(types[0]) != "cpu":  # type: ignore[arg-type]
        return False
    old, new = _dtype(op.operands[0]), _dtype(op.results[0])
    return new in FLOATS | HALVES or old in INTEGERS | {"bool"}


def _is_dense(type: Attribute) -> bool:
    if not is_tensor(type) or layout(type) != "strided" or not sizes(type):
        return False
    numbers = (*sizes(type), *(strides(type) or ()))
    return all(isinstance(n, int) for n in numbers) and 0 not in sizes(type) and dtype_name(type.element_type) in DTYPES


def _kernel(op: TorchOp, target: TargetAttr, name: str) -> KernelOp:
    kind, source, values = KINDS[operator_of(op).scan], op.operands[0], op.results[0]
    shape, dim = tensor_of(source).get_shape(), integer(op.bound()["dim"])
    assert dim is not None
    steps = list(zip(_steps(source), _steps(values), strict=True))
    others = tuple((size, step) for i, (size, step) in enumerate(zip(shape, steps, strict=True)) if i != dim % len(shape))
    combined = _combined_dtype(kind, _dtype(source), _dtype(values), target)
    plan = ScanLayout(shape[dim], steps[dim], others, (_dtype(source), combined, _dtype(values)))
    lanes, rows = _vectors(plan, target, 64 if combined in ("float64", "int64") or len(op.results) > 1 else 32)
    pointers = [source, *op.results]
    elements = [element_of(pointer) for pointer in pointers]
    arguments = [access(tensor_of(pointer), "write" if i else "read") for i, pointer in enumerate(pointers)]
    return ScanKernel(kind, plan, lanes, rows, indexed=len(op.results) > 1).kernel(name, elements, arguments, notes([op]))


def _combined_dtype(kind: Kind, old: str, new: str, target: TargetAttr) -> str:
    """The dtype in which elements are combined."""
    if kind in (MAXIMUM, MINIMUM):
        return "float32" if old in HALVES else "int32" if old in ("bool", "uint8") else old
    if new == "float32" and isinstance(target, CpuAttr):
        return "float64"
    return "float32" if new in HALVES else "int32" if new in ("bool", "uint8") else new


def _vectors(plan: ScanLayout, target: TargetAttr, bits: int) -> tuple[int, int]:
    """The lanes of a vector, and the rows of a program."""
    if isinstance(target, GpuAttr):
        return (COLUMNS if plan.side is not None else min(1 << (plan.size - 1).bit_length(), LONGEST)), 1
    rows = math.prod(size for size, _ in plan.others)
    return target.lanes(bits), min(max(SMALLEST // plan.size, 1), rows)


def _dtype(value: SSAValue) -> str:
    return dtype_name(element_of(value))


def _steps(value: SSAValue) -> list[int]:
    given = strides(tensor_of(value))
    return [int(step) for step in (contiguous_strides(tensor_of(value).get_shape()) if given is None else given)]
