"""Every kernel of the model zoo, forward and backward, compiled for GPUs that need not be here, and what it takes of them.

   python -m tests.models.compiled_kernels --only gpt2 --targets cuda:sm_90

The graphs are those that ``torch.compile(backend="fxc")`` compiles. Fails where a kernel is not compiled, or one spills.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import fxc
from fxc.codegen.contract import target_named
from fxc.codegen.triton.ahead_of_time import CompiledKernel, compile_kernels
from fxc.codegen.triton.kernel_source import KernelSource
from fxc.codegen.triton.printer import print_kernels
from fxc.dialects.fusion import GroupOp
from fxc.dialects.target import GpuAttr, presets, set_target
from fxc.errors import KernelError
from fxc.pipelines import AOT
from tests.models.kernel_suite import graphs_of
from tests.models.zoo import ZOO

MAY_SPILL: Mapping[str, int] = MappingProxyType({})
"""Target -> bytes that a kernel may spill there; none elsewhere."""


@dataclass(frozen=True)
class Found:
    """Kernels of a model for a target, each once; ``left`` groups have none."""

    model: str
    target: str
    sources: Sequence[KernelSource]
    left: int


def kernels_of(name: str, target: str, kinds: Sequence[str] = ("forward", "backward")) -> Found:
    """The kernels of the graphs of a model."""
    sources, left = dict[str, KernelSource](), 0
    for kind, graph, _ in graphs_of(name, True):
        if kind not in kinds:
            continue
        program = fxc.import_fx(graph)
        set_target(program.module, target_named(target))
        module = fxc.run_passes(program, AOT.text(kernels=True, freeze=False)).module
        left += sum(isinstance(op, GroupOp) for op in module.walk())
        for source in print_kernels(module):
            named = replace(source, name="kernel", source=source.source.replace(source.name, "kernel"))
            sources.setdefault(named.source.split("\n\n", 1)[1], named)
    return Found(name, target, list(sources.values()), left)


def complaints(found: Found, compiled: Sequence[CompiledKernel]) -> Iterator[str]:
    """What is wrong with the compiled kernels."""
    for number, kernel in enumerate(compiled):
        if kernel.resources.spilled > MAY_SPILL.get(found.target, 0):
            yield f"{found.model} {found.target}: kernel {number} spills {kernel.resources.spilled} bytes"


def row(found: Found, compiled: Sequence[CompiledKernel]) -> str:
    registers = max((kernel.resources.registers for kernel in compiled), default=0)
    shared = max((kernel.resources.shared for kernel in compiled), default=0)
    spilled = sum(kernel.resources.spilled > 0 for kernel in compiled)
    wide = sum("v4.b32" in kernel.assembly or "v2.b64" in kernel.assembly for kernel in compiled)
    counts = f"{len(compiled):8}{found.left:6}{spilled:7}{registers:10}{shared:8}"
    return f"{found.model:11}{found.target:12}{counts}" + (f"{wide:6}" if found.target.startswith("cuda") else "")


HEADING = f"{'model':11}{'target':12}{'kernels':>8}{'left':>6}{'spill':>7}{'registers':>10}{'shared':>8}{'wide':>6}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="", help="models whose name contains this")
    parser.add_argument("--targets", default=",".join(presets(GpuAttr)))
    options = parser.parse_args()
    wrong = list[str]()
    print(HEADING)
    for name in (name for name in sorted(ZOO) if options.only in name):
        for target in options.targets.split(","):
            found = kernels_of(name, target)
            try:
                compiled = compile_kernels(found.sources, target)
            except KernelError as error:
                wrong.append(f"{name} {target}: {error}")
                continue
            wrong += complaints(found, compiled)
            print(row(found, compiled), flush=True)
        graphs_of.cache_clear()
    print("left: groups without a kernel; wide: kernels with loads or stores of 128 bits")
    sys.exit("\n".join(wrong) or None)


if __name__ == "__main__":
    main()
