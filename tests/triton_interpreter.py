"""Launches on Triton's own interpreter, in a process of its own: TRITON_INTERPRET is read when Triton is imported."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy
import torch

from fxc.codegen.triton.ahead_of_time import triton_version
from fxc.codegen.triton.kernel_source import KernelSource
from fxc.codegen.triton.printer import print_kernel
from fxc.dialects.tile import LaunchOp
from fxc.interpret.tile_level import kernel_of
from tests.kernel_engines import launch_arguments

_WORKER = """
import json, sys, torch
torch.set_num_threads(1)
for line in sys.stdin:
    folder = line.strip()
    kernel = json.load(open(f"{folder}/kernel.json"))
    path = f"{folder}/{kernel['name']}.py"
    open(path, "w").write(kernel["source"])
    names = {"__name__": "kernel"}
    exec(compile(kernel["source"], path, "exec"), names)
    arguments = torch.load(f"{folder}/arguments.pt")
    try:
        counters = [torch.zeros(1, dtype=torch.int32)] if kernel["counter"] else []
        names[kernel["name"]][tuple(kernel["grid"])](*arguments, *counters)
        assert not any(counters), "the counter is not left at 0"
        torch.save(arguments, f"{folder}/results.pt")
        print("ok", flush=True)
    except Exception as error:
        print(" ".join(f"{type(error).__name__}: {error}".split()), flush=True)
"""


def can_compute_bounds() -> bool:
    """Whether kernels may compute the bounds of their loops: Triton 3.6 makes numbers of arrays for that, NumPy 2.4 refuses."""
    try:
        int(numpy.ones(1, numpy.int32))
    except TypeError:
        return tuple(map(int, triton_version().split(".")[:2])) >= (3, 7)
    return True


def can_interpret(kernel: KernelSource) -> bool:
    """Whether Triton's interpreter has what ``kernel`` needs: it has no libdevice, and computes with bf16 wrongly."""
    narrow = any("bf16" in argument.type for argument in kernel.arguments)
    return not narrow and "bfloat16" not in kernel.source and "libdevice." not in kernel.source


class TritonInterpreter:
    """An engine, as ``tests/kernel_engines.py`` has them, while its process runs."""

    def __enter__(self) -> TritonInterpreter:
        environment = {**os.environ, "TRITON_INTERPRET": "1"}
        command = [sys.executable, "-c", _WORKER]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
        )
        self.folder = tempfile.TemporaryDirectory()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.process.communicate()
        self.folder.cleanup()

    def __call__(self, op: LaunchOp, operands: Sequence[Any]) -> list[torch.Tensor]:
        """The results of the launch. RuntimeError with what Triton says, where it cannot run the kernel."""
        arguments, results = launch_arguments(op, operands)
        folder = Path(self.folder.name)
        (folder / "kernel.json").write_text(json.dumps(print_kernel(kernel_of(op)).as_json()))
        torch.save(arguments, folder / "arguments.pt")
        assert self.process.stdin is not None and self.process.stdout is not None and self.process.stderr is not None
        self.process.stdin.write(f"{folder}\n")
        self.process.stdin.flush()
        if (answer := self.process.stdout.readline().strip()) != "ok":
            raise RuntimeError(answer or self.process.stderr.read())
        first = next(place for place, given in enumerate(arguments) if any(given is result for result in results))
        return torch.load(folder / "results.pt")[first : first + len(results)]
