"""The kernels of a compiled program as files: a Triton source each, or one file of LLVM IR, and what they compile to."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from fxc.codegen.contract import is_interpreted
from fxc.codegen.triton.ahead_of_time import compile_kernels
from fxc.codegen.triton.device import compile_target
from fxc.codegen.triton.printer import print_kernels
from fxc.dialects.target import CpuAttr, GpuAttr, target_of
from fxc.dialects.tile import KernelOp
from fxc.program.program import Program
from fxc.tools.command_line import progress, say, write_output
from fxc.tools.emit_llvm import emit_llvm
from fxc.tools.emitters import EmitOptions


def write_kernels(program: Program, folder: Path) -> None:
    """``kernels.ll`` for a CPU; ``kernels/NAME.py`` and its binary for a GPU, the binary where Triton is installed."""
    if not any(isinstance(op, KernelOp) for op in program.module.ops):
        say("no kernels: every operator is a call of ATen")
    elif is_interpreted(target_of(program.module)):
        say("no code is generated: the reference interpreter runs the kernels")
    elif isinstance(target_of(program.module), CpuAttr):
        write_output(folder / "kernels.ll", emit_llvm(program.module, EmitOptions()))
        say(f"wrote {folder / 'kernels.ll'}")
    elif isinstance(machine := target_of(program.module), GpuAttr):
        _write_triton(program, machine, folder / "kernels")


def _write_triton(program: Program, machine: GpuAttr, folder: Path) -> None:

    folder.mkdir(parents=True, exist_ok=True)
    sources = print_kernels(program.module)
    for source in sources:
        write_output(folder / f"{source.name}.py", source.source)
    say(f"wrote {len(sources)} kernels to {folder}")
    if find_spec("triton") is None:
        say("Triton is not installed: install fxc[triton] to compile the kernels")
        return
    target = compile_target(machine)
    with progress(f"compiling {len(sources)} kernels for {target}"):
        compiled = compile_kernels(sources, target)
    for source, kernel in zip(sources, compiled, strict=True):
        suffix = "hsaco" if target.startswith("rocm") else "cubin"
        (folder / f"{source.name}.{suffix}").write_bytes(kernel.binary)
        used = kernel.resources
        say(f"{source.name}: {used.registers} registers, {used.spilled} bytes spilled, {used.warps} warps")
