"""Files that commands write into, and streams that are closed or full: links, devices and modes stay, and an error is ours."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

import fxc
from fxc.errors import InputError
from fxc.tools.command_line import check_writable, read_text, write_output
from fxc.tools.fxc import run
from fxc.tools.fxc_opt import _main as fxc_opt

NEGATIVE = """
func.func @main(%x: tensor<2xf32> {fx.name = "x"}) -> tensor<2xf32> {
  %0 = torch.aten.neg.default(%x) : (tensor<2xf32>) -> tensor<2xf32>
  fx.output(%0) : (tensor<2xf32>) -> ()
}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("m.mlir").write_text(NEGATIVE, encoding="utf-8")
    save_file({"x": torch.tensor([1.5, -2.0])}, "in.safetensors")
    return tmp_path


def negate(output: Path) -> None:
    code, _, err = run(["run", "m.mlir", "--inputs", "in.safetensors", "-o", str(output)])
    assert code == 0, err


def test_results_go_into_the_file_that_a_link_names(folder: Path) -> None:
    file, link = folder / "out.safetensors", folder / "link.safetensors"
    file.touch(0o640)
    link.symlink_to(file)
    negate(link)
    assert link.is_symlink() and file.stat().st_mode & 0o777 == 0o640
    assert load_file(file)["result"].tolist() == [-1.5, 2.0]


def test_results_go_into_a_pipe(folder: Path) -> None:
    pipe, file = folder / "pipe", folder / "out.safetensors"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    negate(pipe)
    negate(file)
    assert pipe.is_fifo() and os.read(reader, 1 << 16) == file.read_bytes()
    os.close(reader)


def test_a_new_file_has_the_mode_of_the_process(folder: Path) -> None:
    new, other = folder / "new.safetensors", folder / "other"
    negate(new)
    other.touch()
    assert new.stat().st_mode == other.stat().st_mode


class Full(io.StringIO):
    def write(self, s: str) -> int:
        raise OSError(28, "No space left on device")


class Closed(io.StringIO):
    def write(self, s: str) -> int:
        raise BrokenPipeError


def test_streams_that_are_closed_or_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    with pytest.raises(InputError, match="stdout is closed"):
        write_output(None, "text")
    monkeypatch.setattr(sys, "stdout", Full())
    with pytest.raises(InputError, match="cannot write stdout: No space left"):
        write_output(None, "text")
    monkeypatch.setattr(sys, "stdout", Closed())
    with pytest.raises(BrokenPipeError):
        write_output(None, "text")
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(InputError, match="stdin is closed"):
        read_text("-")


def test_a_name_that_is_too_long(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot write .*: File name too long"):
        check_writable(tmp_path / ("a" * 300))


class Scaled(nn.Module):
    def forward(self, x: torch.Tensor, *, scale: torch.Tensor) -> torch.Tensor:
        return x * scale


def test_an_exported_program_keeps_its_keywords(folder: Path) -> None:
    torch.export.save(torch.export.export(Scaled(), (torch.ones(3),), {"scale": torch.full((3,), 2.0)}), "m.pt2")
    assert run(["import", "m.pt2", "-o", "scaled.mlir"])[0] == 0
    code, out, err = run(["run", "scaled.mlir", "--compare", "m.pt2"])
    assert code == 0 and "first 2 2 2" in out and "close to eager: no difference" in out, err
    code, _, err = run(["memory", "m.pt2"])
    assert code == 1 and "m.pt2 is a captured program, which is not trained" in err


def test_a_damaged_archive(folder: Path) -> None:
    torch.export.save(torch.export.export(nn.ReLU(), (torch.ones(3),)), "m.pt2")
    content = bytearray(Path("m.pt2").read_bytes())
    end = content.rfind(b"PK\x06\x07")  # the locator of the end of a large archive
    content[end + 16] = 9  # the number of disks
    Path("m.pt2").write_bytes(content)
    code, _, err = run(["import", "m.pt2"])
    assert code == 1 and "m.pt2 is not a program that torch.export can load: zipfiles that span" in err


def test_a_command_that_writes_a_file_needs_no_stdout(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    assert fxc_opt(["m.mlir", "-o", "out.mlir"]) == 0
    assert "torch.aten.neg" in Path("out.mlir").read_text(encoding="utf-8")


def test_weights_that_cannot_be_written(folder: Path) -> None:
    Path("p.safetensors").mkdir()
    with pytest.raises(InputError, match=r"cannot write p\.safetensors: Is a directory"):
        fxc.capture(nn.Linear(2, 2), (torch.ones(2),)).save("p.mlir")
