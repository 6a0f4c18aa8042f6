"""Kernels compiled for GPUs that are not there, and run by Triton's own interpreter. Needs the ``triton`` extra."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from fxc.codegen.triton import ahead_of_time
from fxc.codegen.triton.ahead_of_time import CompiledKernel, CompileOptions, compile_kernel, compile_kernels
from fxc.codegen.triton.kernel_source import KernelSource
from fxc.codegen.triton.workers import Worker
from fxc.dialects.target import GpuAttr, presets
from fxc.errors import KernelError
from tests.test_triton_backend import FLOAT_OPS, INTEGER_OPS, UNSIGNED_OPS, printed
from tests.triton_interpreter import can_compute_bounds
from tests.triton_kernels import CASES, kernel, pointer, pointwise

pytest.importorskip("triton", reason="needs the triton extra: pip install fxc[triton]")


def all_ops(name: str, type: str, ops: list[str]) -> KernelSource:
    """A kernel that applies each op to the same two blocks."""
    lines = ["  %base = arith.constant 0 : index"]
    lines += [f"  %v{i} = tile.load %p{i}[%base] strides [1] : !tile.ptr<{type}> -> vector<64x{type}>" for i in (0, 1)]
    arguments = [pointer(f"p{i}", type, "read", 64) for i in (0, 1)]
    for i, op in enumerate(ops):
        lines.append(f"  %r{i} = {op.replace('$v', f'vector<64x{type}>').replace('$', '%v')}")
        lines.append(f"  tile.store %r{i}, %out{i}[%base] strides [1] : vector<64x{type}>, !tile.ptr<{type}>")
        arguments.append(pointer(f"out{i}", type, "write", 64))
    return printed(kernel(name, [1], arguments, "\n" + "\n".join(lines)))


SOURCES = {name: printed(case.text) for name, case in CASES.items()}
SOURCES |= {f"floats_{type}": all_ops(f"floats_{type}", type, list(FLOAT_OPS)) for type in ("bf16", "f32", "f64")}
INTEGERS = [*INTEGER_OPS, *UNSIGNED_OPS, "arith.shli $0, $1 : $v", "arith.shrui $0, $1 : $v", "arith.shrsi $0, $1 : $v"]
SOURCES |= {f"integers_{type}": all_ops(f"integers_{type}", type, INTEGERS) for type in ("i8", "i32", "i64")}

SHARED = ("transpose", "pointwise")
"""One that needs shared memory, and one that does not."""


@pytest.fixture(scope="module", params=presets(GpuAttr))
def compiled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, CompiledKernel]:
    """Each kernel is compiled for two of three GPUs, and for all of them with ``--cases=all``."""
    first, everything = list(presets(GpuAttr)).index(request.param), request.config.getoption("--cases") == "all"
    names = [name for place, name in enumerate(SOURCES, first) if everything or place % 3 != 2 or name in SHARED]
    kernels = compile_kernels([SOURCES[name] for name in names], request.param, cache=tmp_path_factory.mktemp("kernels"))
    return dict(zip(names, kernels, strict=True))


@pytest.mark.slow
def test_every_kernel_compiles_and_fits(compiled: dict[str, CompiledKernel]) -> None:
    assert len(compiled) > len(SOURCES) // 2
    for name, each in compiled.items():
        assert each.binary[:4] == b"\x7fELF"
        assert each.symbol in each.assembly
        assert each.resources.spilled == 0, name
        assert 0 < each.resources.registers <= 255
        assert each.resources.warps == SOURCES[name].warps


def test_what_needs_shared_memory_says_so(compiled: dict[str, CompiledKernel]) -> None:
    assert compiled["transpose"].resources.shared >= 32 * 32 * 4
    assert compiled["pointwise"].resources.shared == 0


@pytest.mark.parametrize(("type", "element"), [("f32", 4), ("bf16", 2)])
def test_aligned_kernels_load_128_bits(type: str, element: int, tmp_path: Path) -> None:
    lanes = 1024 * element // 16  # how many loads of 16 bytes a program makes
    aligned = compile_kernel(printed(pointwise(1 << 20, type)), "cuda:sm_90", CompileOptions(warps=lanes // 32), cache=tmp_path)
    assert aligned.assembly.count("ld.global.v4.b32") == 2
    assert aligned.assembly.count("st.global.v4.b32") == 1
    text = pointwise(1 << 20, type).replace("tile.divisible = 16", "tile.divisible = 2")
    unaligned = compile_kernel(printed(text), "cuda:sm_90", CompileOptions(warps=lanes // 32), cache=tmp_path)
    assert "ld.global.v4" not in unaligned.assembly


@pytest.mark.slow
def test_products_and_sums_are_rounded_each(tmp_path: Path) -> None:
    source = printed(pointwise(1 << 20))
    exact, fused = (
        compile_kernel(source, "cuda:sm_90", CompileOptions(fp_fusion=fusion), cache=tmp_path) for fusion in (False, True)
    )
    assert "FFMA" not in machine_code(exact, tmp_path) and "FFMA" in machine_code(fused, tmp_path)


def machine_code(kernel: CompiledKernel, folder: Path) -> str:
    from triton import knobs

    (folder / "kernel.cubin").write_bytes(kernel.binary)
    command = [knobs.nvidia.nvdisasm.path, str(folder / "kernel.cubin")]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_the_cache_is_asked_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = SOURCES["pointwise"]
    first = compile_kernel(source, "cuda:sm_80", cache=tmp_path)
    [folder] = tmp_path.iterdir()
    monkeypatch.setattr(ahead_of_time.Job, "compile", None)
    assert compile_kernel(source, "cuda:sm_80", cache=tmp_path) == first
    (folder / "kernel.cubin").write_bytes(b"damaged")
    with pytest.raises(TypeError):  # it wants to compile again
        compile_kernel(source, "cuda:sm_80", cache=tmp_path)
    monkeypatch.undo()
    again = compile_kernel(source, "cuda:sm_80", cache=tmp_path)
    assert (again.assembly, again.resources) == (first.assembly, first.resources)


@pytest.mark.slow
def test_an_entry_is_never_taken_away_from_its_readers(tmp_path: Path) -> None:
    """What two processes compile at once is written by the first."""
    job = ahead_of_time.Job.of(SOURCES["pointwise"], "cuda:sm_80", cache=tmp_path)
    with Worker() as worker:
        job.compile(worker)
        written = job.folder.stat().st_ino
        job.compile(worker)
    assert job.folder.stat().st_ino == written and list(tmp_path.iterdir()) == [job.folder]


def test_keys_tell_everything_apart() -> None:
    source, options = SOURCES["pointwise"], CompileOptions()
    keys = {
        ahead_of_time.key_of(source, "cuda:sm_80", options, "3.7.1"),
        ahead_of_time.key_of(SOURCES["softmax"], "cuda:sm_80", options, "3.7.1"),
        ahead_of_time.key_of(source, "cuda:sm_90", options, "3.7.1"),
        ahead_of_time.key_of(source, "cuda:sm_80", CompileOptions(warps=8), "3.7.1"),
        ahead_of_time.key_of(source, "cuda:sm_80", options, "3.6.0"),
    }
    assert len(keys) == 5
    elsewhere = replace(source, source=f"# another line  (model.py:7)\n{source.source}")
    assert ahead_of_time.key_of(elsewhere, "cuda:sm_80", options, "3.7.1") in keys


def test_kernels_lie_in_the_folder_that_the_environment_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FXC_CACHE_DIR", str(tmp_path))
    assert compile_kernel(SOURCES["pointwise"], "cuda:sm_80").folder.is_relative_to(tmp_path)


def test_what_triton_refuses_is_one_error(tmp_path: Path) -> None:
    wrong = KernelSource(**{**vars(SOURCES["pointwise"]), "source": SOURCES["pointwise"].source.replace("prod +", "missing +")})
    with pytest.raises(KernelError, match=r"(?s)Triton cannot compile pointwise for cuda:sm_80.*missing is not defined"):
        compile_kernel(wrong, "cuda:sm_80", cache=tmp_path)
    assert not list(tmp_path.iterdir())


def test_targets_have_names() -> None:
    with pytest.raises(KernelError, match="'sm_90' is not a GPU that Triton compiles for"):
        compile_kernel(SOURCES["pointwise"], "sm_90")


INTERPRETED = ["pointwise", "softmax", "layer_norm", "transpose", "gather", "atomic_add", "atomic_extremes", "scan",
               "random", "control_flow", "iterate", "last_program"]  # fmt: skip
"""What Triton's interpreter can run: it computes with bf16 wrongly."""

INTERPRETER = """
import json, sys, torch
for folder in sys.argv[1:]:
    kernel = json.load(open(f"{folder}/kernel.json"))
    path = f"{folder}/kernel.py"
    open(path, "w").write(kernel["source"])
    names = {"__name__": "kernel"}
    exec(compile(kernel["source"], path, "exec"), names)
    arguments = torch.load(f"{folder}/arguments.pt")
    counters = [torch.zeros(1, dtype=torch.int32)] if kernel["counter"] else []
    names[kernel["name"]][tuple(kernel["grid"])](*arguments, *counters)
    assert not any(counters), "the counter is not left at 0"
    torch.save(arguments, f"{folder}/results.pt")
"""


@pytest.mark.slow
def test_tritons_interpreter_agrees(tmp_path: Path) -> None:
    names = [name for name in INTERPRETED if name != "control_flow" or can_compute_bounds()]
    for name in names:
        folder = tmp_path / name
        folder.mkdir()
        (folder / "kernel.json").write_text(json.dumps(SOURCES[name].as_json()))
        torch.save([*CASES[name].inputs(), *CASES[name].outputs()], folder / "arguments.pt")
    command = [sys.executable, "-c", INTERPRETER, *(str(tmp_path / name) for name in names)]
    done = subprocess.run(command, env={**os.environ, "TRITON_INTERPRET": "1"}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for name in names:
        inputs = CASES[name].inputs()
        results = torch.load(tmp_path / name / "results.pt")[len(inputs) :]
        for result, expected in zip(results, CASES[name].expected(*inputs), strict=True):
            torch.testing.assert_close(result, expected, equal_nan=True)
