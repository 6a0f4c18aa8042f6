"""Machines by name: each preset is listed once, and everything that takes a target takes it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from fxc.codegen.contract import target_named
from fxc.codegen.triton.ahead_of_time import TritonTarget
from fxc.codegen.triton.device import compile_target
from fxc.dialects.target import GPU, HOST, PRESETS, GpuAttr, presets, target_names
from fxc.tools.fxc_opt import run

LIT = Path(__file__).parent.parent / "lit_tests" / "passes" / "kernels" / "set_target.mlir"
TEXT = "func.func @main() { func.return }"


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_is_taken_everywhere(name: str) -> None:
    code, out, err = run(["-", f"--target={name}"], TEXT)
    assert code == 0 and f"fxc.target = {PRESETS[name]}" in out, err
    assert run(["-", "-p", f"set-target{{to={name}}}"], TEXT)[1] == out
    assert target_named(name) == PRESETS[name]
    if isinstance(gpu := PRESETS[name], GpuAttr):
        assert compile_target(gpu) == name and TritonTarget.of(name).warp == gpu.fields()["warp"]


def test_every_preset_has_a_lit_case() -> None:
    text = LIT.read_text()
    assert not [name for name in PRESETS if f"set-target{{to={name}}}" not in text and f"{{to={name} " not in text]


NEW = """
from types import MappingProxyType
from fxc.dialects import target

new = target.GpuAttr.of(arch="sm_120", multiprocessors=170)
target.PRESETS = MappingProxyType({**target.PRESETS, "cuda:sm_120": new})  # as if it stood in the file
import fxc
from fxc.tools import fxc as cli
from fxc.tools import fxc_opt

code, out, err = fxc_opt.run(["-", "--target=cuda:sm_120"], "func.func @main() { func.return }")
assert code == 0 and 'arch = "sm_120"' in out, err
helps = fxc_opt.run(["--help"], "")[1], cli.run(["compile", "--help"])[1]
assert all("cuda:sm_120" in "".join(help.split()) for help in helps), helps
import torch

options = fxc.Options(target="cuda:sm_120", cache_plans=False)
made = fxc.compile(lambda x: x.relu() + 1, (torch.ones(4),), options=options)
assert made.ir.module.attributes["fxc.target"] == new
"""


@pytest.mark.slow
def test_a_preset_is_added_in_one_file() -> None:
    done = subprocess.run([sys.executable, "-c", NEW], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_names_of_targets() -> None:
    assert target_names() == ", ".join([HOST, GPU, *PRESETS])
    assert [*presets(GpuAttr)] == [name for name in PRESETS if name.startswith(("cuda:", "rocm:"))]
