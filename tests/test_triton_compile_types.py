"""Every op that combines lanes, converts or adds in memory, in every type, compiled for GPUs that are not there."""

from __future__ import annotations

from pathlib import Path

import pytest

from fxc.codegen.triton.ahead_of_time import compile_kernels
from fxc.codegen.triton.kernel_source import KernelSource
from fxc.dialects.target import GpuAttr, presets
from tests.test_triton_backend import printed
from tests.triton_kernels import kernel, pointer

pytest.importorskip("triton", reason="needs the triton extra: pip install fxc[triton]")

WIDTHS = {"f16": 16, "bf16": 16, "f32": 32, "f64": 64, "i1": 1, "i8": 8, "i16": 16, "i32": 32, "i64": 64}
FLOATS = ("f16", "bf16", "f32", "f64")
FLOAT_PREDICATES = ("oeq", "one", "olt", "ord", "ueq", "ult", "une", "uno", "true", "false")
INTEGER_PREDICATES = ("eq", "ne", "slt", "sge", "ult", "uge")
STRIDES = {"": "", "8x": " strides [1]", "8x16x": " strides [16, 1]"}


class Builder:
    """A kernel that computes much of one block, and stores it all."""

    def __init__(self, type: str) -> None:
        self.type, self.block = type, f"vector<8x16x{type}>"
        self.pointers = [pointer("p", type, "read", 128)]
        self.lines = [
            "  %base = arith.constant 0 : index",
            f"  %x = tile.load %p[%base] strides [16, 1] : !tile.ptr<{type}> -> {self.block}",
            "  %lanes = tile.iota {dim = 1} : vector<8x16xi64>",
        ]

    def store(self, value: str, shape: str, type: str) -> None:
        name = f"out{len(self.pointers)}"
        block = f"vector<{shape}{type}>" if shape else type
        self.lines.append(f"  tile.store %{value}, %{name}[%base]{STRIDES[shape]} : {block}, !tile.ptr<{type}>")
        self.pointers.append(pointer(name, type, "write", 128))

    def add(self, text: str, shape: str, type: str) -> None:
        name = f"r{len(self.lines)}"
        self.lines.append(f"  %{name} = {text}")
        self.store(name, shape, type)

    def source(self) -> KernelSource:
        return printed(kernel(f"all_{self.type}", [1], self.pointers, "\n" + "\n".join(self.lines)))


def everything(type: str) -> KernelSource:
    builder = Builder(type)
    arithmetic, bitwise = ("add", "mul", "max", "min"), ("and", "or", "xor")
    block = builder.block
    for kind in bitwise if type == "i1" else arithmetic if type in FLOATS else arithmetic + bitwise:
        builder.add(f'tile.reduce "{kind}" %x {{dims = [1]}} : {block} -> vector<8x{type}>', "8x", type)
        builder.add(f'tile.reduce "{kind}" %x {{dims = [0, 1]}} : {block} -> {type}', "", type)
        builder.add(f'tile.scan "{kind}" %x {{dim = 1}} : {block} -> {block}', "8x16x", type)
    for predicate in FLOAT_PREDICATES if type in FLOATS else INTEGER_PREDICATES:
        builder.add(f'tile.compare "{predicate}" %x, %x : {block}', "8x16x", "i1")
    for other in WIDTHS:
        for cast in casts(type, other):
            builder.add(f"{cast} %x : {block} to vector<8x16x{other}>", "8x16x", other)
    if WIDTHS[type] >= 32 or type in FLOATS:
        builder.lines.append(f"  tile.atomic_add %x, %sums[%lanes] : {block}, !tile.ptr<{type}>")
        builder.pointers.append(pointer("sums", type, "readwrite", 16))
    return builder.source()


def casts(source: str, result: str) -> list[str]:
    """The ops that make ``result`` of ``source``."""
    wider, narrower = WIDTHS[result] > WIDTHS[source], WIDTHS[result] < WIDTHS[source]
    if source in FLOATS and result in FLOATS:
        return ["arith.extf"] * wider + ["arith.truncf"] * narrower
    if source in FLOATS:
        return ['tile.cast "fptosi"', 'tile.cast "fptoui"']
    if result in FLOATS:
        return ['tile.cast "sitofp"', 'tile.cast "uitofp"']
    return ['tile.cast "extsi"', 'tile.cast "extui"'] * wider + ['tile.cast "trunci"'] * narrower


@pytest.mark.slow
@pytest.mark.share(2)
@pytest.mark.parametrize("target", presets(GpuAttr))
def test_every_type_compiles(target: str, tmp_path: Path) -> None:
    sources = [everything(type) for type in WIDTHS]
    for source, compiled in zip(sources, compile_kernels(sources, target, cache=tmp_path), strict=True):
        assert compiled.symbol == source.name
        assert compiled.resources.spilled == 0, source.name
