"""Kernels of the ``tile`` dialect as text, and how tests run them: natively, and on the reference interpreter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser

from fxc.codegen.cpu.kernel_printer import print_kernels
from fxc.codegen.cpu.launch import compile_kernel
from fxc.dialects.target import CpuAttr
from fxc.dialects.tile import KernelOp
from fxc.interpret.tile_level import run_kernel
from fxc.program.program import new_context
from fxc.runtime.host_cpu import features_named

TARGETS = {
    "host": None,
    "avx2": CpuAttr.of(vector_bits=256, features="+avx2,+fma,+f16c"),
    "sse2": CpuAttr.of(vector_bits=128, features="+sse2"),
}
"""Machines whose code runs here; an x86 CPU with AVX-512 runs all of them."""

NAMES = {
    torch.float32: "f32",
    torch.float64: "f64",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.bool: "i1",
    torch.int8: "i8",
    torch.uint8: "ui8",
    torch.int16: "i16",
    torch.int32: "i32",
    torch.int64: "i64",
}


def parse_kernel(text: str) -> KernelOp:
    module = Parser(new_context(), text).parse_module()
    assert isinstance(module, ModuleOp)
    module.verify()
    return next(op for op in module.ops if isinstance(op, KernelOp))


def extent(tensor: Tensor) -> int:
    """Elements from the first to the last."""
    if not tensor.numel():
        return 0
    return 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))


def kernel_text(
    body: str,
    inputs: Sequence[Tensor],
    outputs: Sequence[Tensor],
    grid: Sequence[int] = (1,),
    access: str = "write",
    scalars: str = "",
) -> str:
    """A kernel ``@k`` with pointers ``%x0``, ``%x1``, ... that are read and ``%y0``, ... that are written."""
    arguments = [_argument(f"%x{i}", tensor, "read") for i, tensor in enumerate(inputs)]
    arguments += [_argument(f"%y{i}", tensor, access) for i, tensor in enumerate(outputs)]
    listed = ", ".join([*arguments, *([scalars] if scalars else [])])
    sizes = ", ".join(map(str, grid))
    return f"tile.kernel @k({listed}) attributes {{grid = array<i64: {sizes}>}} {{\n{body}\n  tile.return\n}}"


def _argument(name: str, tensor: Tensor, access: str) -> str:
    attributes = f'tile.access = "{access}", tile.elements = {extent(tensor)} : i64'
    return f"{name}: !tile.ptr<{NAMES[tensor.dtype]}> {{{attributes}}}"


def run_native(kernel: KernelOp, arguments: Sequence[Any], target: CpuAttr | None = None) -> None:
    """What is written is written in place."""
    run = compile_kernel(kernel, target)
    assert run is not None
    run(arguments)


def both(
    body: str,
    inputs: Sequence[Tensor],
    outputs: Sequence[Tensor],
    grid: Sequence[int] = (1,),
    *,
    access: str = "write",
    target: CpuAttr | None = None,
    rtol: float = 1e-6,
    atol: float = 1e-6,
) -> list[Tensor]:
    """The native results, which must be those of the interpreter. ``outputs`` say the types, and where read the values."""
    kernel = parse_kernel(kernel_text(body, inputs, outputs, grid, access))
    expected = [output.clone() for output in outputs]
    run_kernel(kernel, [*inputs, *expected])
    found = [output.clone() for output in outputs]
    run_native(kernel, [*inputs, *found], target)
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, equal_nan=True, rtol=rtol, atol=atol)
    return found


def llvm_text(kernel: KernelOp, features: str = "", parallel: bool = False) -> str:
    return print_kernels([kernel], features_named(features), lambda _: parallel)
