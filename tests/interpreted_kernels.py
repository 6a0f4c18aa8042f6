"""Kernels as text, and how tests run them on the reference interpreter."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from xdsl.dialects import func

from fxc.dialects.tile import KernelOp
from fxc.interpret.tile_level import run_kernel
from fxc.interpret.torch_level import ReferenceInterpreter
from fxc.testing import parse

NAMES = {
    torch.float32: "f32",
    torch.float64: "f64",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.bool: "i1",
    torch.uint8: "ui8",
    torch.int8: "i8",
    torch.int32: "i32",
    torch.int64: "i64",
}


def kernel(body: str, inputs: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor], grid: Sequence[int]) -> str:
    """A kernel @k with the pointers %x0, %x1, ... and %y0, %y1, ..., and a few index constants."""
    pointers = [f'%x{i}: !tile.ptr<{NAMES[t.dtype]}> {{tile.access = "read"}}' for i, t in enumerate(inputs)]
    pointers += [f'%y{i}: !tile.ptr<{NAMES[t.dtype]}> {{tile.access = "write"}}' for i, t in enumerate(outputs)]
    constants = "\n".join(f"  %c{n} = arith.constant {n} : index" for n in (0, 1, 8, 16))
    head = f"tile.kernel @k({', '.join(pointers)}) attributes {{grid = array<i64: {', '.join(map(str, grid))}>}}"
    return f"{head} {{\n{constants}\n{body}\n  tile.return\n}}"


def run(text: str, *arguments: torch.Tensor | float) -> None:
    run_kernel(next(op for op in parse(text).ops if isinstance(op, KernelOp)), arguments)


def compute(body: str, inputs: Sequence[torch.Tensor], *outputs: torch.Tensor, grid: Sequence[int] = (1,)) -> None:
    run(kernel(body, inputs, outputs, grid), *inputs, *outputs)


def made(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator).mul(3).to(dtype)


def interpret(text: str, *args: torch.Tensor, cls: type[ReferenceInterpreter] = ReferenceInterpreter) -> list[torch.Tensor]:
    functions = {op.sym_name.data: op for op in parse(text).ops if isinstance(op, func.FuncOp)}
    return cls(functions).call(functions["main"], args)


SOFTMAX = """
tile.kernel @softmax(%x: !tile.ptr<f32> {tile.access = "read", tile.elements = 700}, %out: !tile.ptr<f32> {tile.access = "write", tile.elements = 700}) attributes {grid = array<i64: 7>} {
  %c0 = arith.constant 0 : index
  %n = arith.constant 100 : index
  %width = arith.constant 16 : index
  %masked = arith.constant 0xFF800000 : f32
  %least = arith.constant dense<0xFF800000> : vector<16xf32>
  %zeros = arith.constant dense<0.0> : vector<16xf32>
  %row = tile.program_id {axis = 0} : index
  %start = arith.muli %row, %n : index
  %maxima = scf.for %i = %c0 to %n step %width iter_args(%acc = %least) -> (vector<16xf32>) {
    %mask = tile.mask %i, %n {dim = 0} : vector<16xi1>
    %at = arith.addi %start, %i : index
    %v = tile.load %x[%at] strides [1], %mask, %masked : !tile.ptr<f32> -> vector<16xf32>
    %new = arith.maximumf %acc, %v : vector<16xf32>
    scf.yield %new : vector<16xf32>
  }
  %max = tile.reduce "max" %maxima {dims = [0]} : vector<16xf32> -> f32
  %m = tile.splat %max : f32 to vector<16xf32>
  %sums = scf.for %i = %c0 to %n step %width iter_args(%acc = %zeros) -> (vector<16xf32>) {
    %mask = tile.mask %i, %n {dim = 0} : vector<16xi1>
    %at = arith.addi %start, %i : index
    %v = tile.load %x[%at] strides [1], %mask, %masked : !tile.ptr<f32> -> vector<16xf32>
    %d = arith.subf %v, %m : vector<16xf32>
    %e = math.exp %d : vector<16xf32>
    %new = arith.addf %acc, %e : vector<16xf32>
    scf.yield %new : vector<16xf32>
  }
  %sum = tile.reduce "add" %sums {dims = [0]} : vector<16xf32> -> f32
  %s = tile.splat %sum : f32 to vector<16xf32>
  scf.for %i = %c0 to %n step %width {
    %mask = tile.mask %i, %n {dim = 0} : vector<16xi1>
    %at = arith.addi %start, %i : index
    %v = tile.load %x[%at] strides [1], %mask, %masked : !tile.ptr<f32> -> vector<16xf32>
    %d = arith.subf %v, %m : vector<16xf32>
    %e = math.exp %d : vector<16xf32>
    %r = arith.divf %e, %s : vector<16xf32>
    tile.store %r, %out[%at] strides [1], %mask : vector<16xf32>, !tile.ptr<f32>
  }
  tile.return
}
"""  # noqa: E501

LAUNCH = """
func.func @main(%x: tensor<7x100xf32>) -> tensor<7x100xf32> {
  %e = torch.aten.neg.default(%x) : (tensor<7x100xf32>) -> tensor<7x100xf32>
  %y = tile.launch @softmax(%e) : (tensor<7x100xf32>) -> tensor<7x100xf32>
  func.return %y : tensor<7x100xf32>
}
"""
