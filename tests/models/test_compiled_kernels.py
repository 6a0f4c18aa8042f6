"""A few of the zoo's kernels, compiled for GPUs that are not here; ``compiled_kernels.py`` compiles all of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fxc.codegen.triton.ahead_of_time import compile_kernels
from fxc.codegen.triton.printer import print_kernels
from fxc.dialects.target import GpuAttr, presets
from fxc.testing import parse, run_pass
from tests.models.compiled_kernels import complaints, kernels_of

pytest.importorskip("triton", reason="needs the triton extra: pip install fxc[triton]")

SAMPLE = {"mlp": "backward"}
EACH = 3


@pytest.mark.slow
@pytest.mark.parametrize("target", presets(GpuAttr))
def test_a_few_kernels_compile_without_spills(target: str, tmp_path: Path) -> None:
    for name, kind in SAMPLE.items():
        found = kernels_of(name, target, [kind])
        assert found.sources and not found.left
        largest = sorted(found.sources, key=lambda source: -len(source.source))[:EACH]
        compiled = compile_kernels(largest, target, cache=tmp_path)
        assert not list(complaints(found, compiled))
        assert all(kernel.binary[:4] == b"\x7fELF" for kernel in compiled)
        if target.startswith("cuda"):
            assert not any(".local" in kernel.assembly for kernel in compiled), "local memory"


SILU = """
builtin.module attributes {fxc.target = #target.gpu<arch = "sm_90">} {
func.func @main(%x: tensor<4096x1024xTYPE>, %y: tensor<1024xTYPE>) {
  %u = fusion.group ({
    %s = torch.aten.silu.default(%x) : (tensor<4096x1024xTYPE>) -> tensor<4096x1024xTYPE>
    %a = torch.aten.add.Tensor(%s, %y) : (tensor<4096x1024xTYPE>, tensor<1024xTYPE>) -> tensor<4096x1024xTYPE>
    fusion.yield %a : tensor<4096x1024xTYPE>
  }) -> tensor<4096x1024xTYPE>
  fx.output(%u) : (tensor<4096x1024xTYPE>) -> ()
}
}"""


@pytest.mark.parametrize("type", ["bf16", "f32", "f64"])
@pytest.mark.parametrize("target", ["cuda:sm_80", "cuda:sm_90"])
def test_aligned_tensors_are_read_and_written_in_128_bits(type: str, target: str, tmp_path: Path) -> None:
    [source] = print_kernels(parse(run_pass(SILU.replace("TYPE", type), "lower-kernels")))
    plain = source.unaligned()
    wide, narrow = compile_kernels([source, plain], target, cache=tmp_path)
    accesses = [re.findall(r"(?:ld|st)\.global[.\w]*", kernel.assembly) for kernel in (wide, narrow)]
    assert accesses[0] and all(".v4.b32" in access or ".v2.b64" in access for access in accesses[0]), accesses[0]
    assert not any(".v" in access for access in accesses[1]), "nothing is known of addresses"
