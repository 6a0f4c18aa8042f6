"""Worker processes that compile kernels.

``python -m fxc.codegen.triton.workers`` reads one job per line as JSON and writes one answer per line. It is not a process of
``multiprocessing``, which would run the user's main module again.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import linecache
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

from fxc.codegen.triton.kernel_source import KernelArgument, KernelSource
from fxc.errors import KernelError


class Worker:
    """A running process; use it as a context manager."""

    def __enter__(self) -> Worker:
        environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
        command = [sys.executable, "-m", "fxc.codegen.triton.workers"]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
        )
        return self

    def __exit__(self, *error: object) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()

    def request(self, job: dict[str, Any]) -> dict[str, Any]:
        """Send one job and return the answer: empty, or with an ``error``."""
        assert self.process.stdin is not None and self.process.stdout is not None
        try:
            self.process.stdin.write(json.dumps(job) + "\n")
            self.process.stdin.flush()
            answer = self.process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        return json.loads(answer) if answer else {"error": f"the compiler ended with code {self.process.wait()}"}


def main() -> None:
    """Answer each line of stdin on stdout. Triton's output goes to stderr."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    for line in sys.stdin:
        job = json.loads(line)
        try:
            compile_to_folder(KernelSource.from_json(job["kernel"]), job["target"], job["options"], Path(job["folder"]))
            answer = {}
        except Exception as error:  # any error of Triton, LLVM or ptxas is the answer
            *place, cause = str(error).strip().splitlines() or [""]  # Triton's last line says what is wrong
            answer = {"error": "\n".join([f"{type(error).__name__}: {cause}", *place])}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def compile_to_folder(kernel: KernelSource, target: dict[str, Any], options: dict[str, Any], folder: Path) -> None:
    """Compile ``kernel`` and write its files to ``folder``, which appears complete or not at all; one that exists stays.

    The files are the binary (``kernel.cubin``), ``kernel.s``, ``.py``, ``.json``, and ``launch.json`` for Triton's launcher.
    """
    with tempfile.TemporaryDirectory() as scratch:
        compiled, binary, assembly, resources = _compile(kernel, target, options, folder / "kernel.py", scratch)
    digest = hashlib.sha256(binary).hexdigest()
    facts = {"symbol": compiled.metadata.name, "sha256": digest, "resources": asdict(resources)}
    folder.parent.mkdir(parents=True, exist_ok=True)
    part = Path(tempfile.mkdtemp(dir=folder.parent))
    (part / f"kernel.{target['binary']}").write_bytes(binary)
    (part / "launch.json").write_text(json.dumps(compiled.metadata._asdict(), default=vars), encoding="utf-8")
    (part / "kernel.s").write_text(assembly, encoding="utf-8")
    (part / "kernel.py").write_text(kernel.source, encoding="utf-8")
    (part / "kernel.json").write_text(json.dumps(facts), encoding="utf-8")
    try:
        part.rename(folder)
    except OSError:  # another process wrote it first, and may be reading it
        shutil.rmtree(part, ignore_errors=True)


def _compile(
    kernel: KernelSource, target: dict[str, Any], options: dict[str, Any], path: Path, scratch: str
) -> tuple[Any, bytes, str, Resources]:
    """Triton's object, binary, assembly and resources. ``path`` is the final path of the source, for profilers."""
    import triton
    from triton import knobs
    from triton.backends.compiler import GPUTarget

    knobs.cache.dir = scratch
    knobs.nvidia.dump_ptxas_log = True
    is_cuda = target["backend"] == "cuda"
    chosen: dict[str, Any] = {"num_warps": options["warps"] or kernel.warps, "enable_fp_fusion": options["fp_fusion"]}
    if is_cuda:
        chosen["enable_reflect_ftz"] = False
    if "tl.device_assert(" in kernel.source:
        chosen |= {"debug": True, "sanitize_overflow": False}  # debug retains assertions, without overflow checks
    if options["stages"] is not None:
        chosen["num_stages"] = options["stages"]
    gpu = GPUTarget(target["backend"], target["arch"], target["warp"])
    with contextlib.redirect_stdout(io.StringIO()) as log:
        compiled = cast(Any, triton).compile(_ast_source(kernel, is_cuda, str(path)), target=gpu, options=chosen)
    shared, warps = compiled.metadata.shared, compiled.metadata.num_warps
    assembly = compiled.asm["ptx" if is_cuda else "amdgcn"]
    resources = cuda_resources(log.getvalue(), shared, warps) if is_cuda else rocm_resources(assembly, shared, warps)
    return compiled, compiled.asm[target["binary"]], assembly, resources


def _ast_source(kernel: KernelSource, is_cuda: bool, path: str) -> Any:
    """The function for Triton's compiler, with hints about its arguments. Triton reads the source as that of a file."""
    from triton.compiler import ASTSource

    linecache.cache[path] = (len(kernel.source), None, kernel.source.splitlines(keepends=True), path)
    namespace: dict[str, Any] = {"__name__": kernel.name, "__file__": path}
    exec(compile(kernel.source, path, "exec"), namespace)
    signature = {argument.name: argument.type for argument in kernel.parameters}
    hints = {(place,): _hints(argument, is_cuda) for place, argument in enumerate(kernel.parameters)}
    return ASTSource(namespace[kernel.name], signature, {}, {place: hint for place, hint in hints.items() if hint})


def _hints(argument: KernelArgument, is_cuda: bool) -> list[list[Any]]:
    """Hints about an argument: 128-bit loads need an address divisible by 16, AMD's buffer instructions less than 2 GiB."""
    hints: list[list[Any]] = [["tt.divisibility", 16]] if argument.divisible % 16 == 0 else []
    if argument.is_pointer and not is_cuda and argument.elements is not None and 8 * argument.elements < 1 << 31:
        hints.append(["tt.pointer_range", 32])
    return hints


# hardware resources of a compiled kernel, parsed from the output of ptxas or from AMD's assembly


@dataclass(frozen=True)
class Resources:
    """Hardware resources. Per thread: ``registers``, bytes ``spilled`` to memory. Per program: ``shared`` bytes, ``warps``."""

    registers: int
    spilled: int
    shared: int
    warps: int


def cuda_resources(log: str, shared: int, warps: int) -> Resources:
    """Resources from the output of ``ptxas -v``. The stack frame does not measure spills: sin and cos use an array there."""
    spilled = re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads", log)
    used = re.search(r"Used (\d+) registers", log)
    if spilled is None or used is None:
        raise KernelError(f"ptxas did not report what a kernel uses, but: {log.strip()[-200:]}")
    return Resources(int(used[1]), max(int(spilled[1]), int(spilled[2])), shared, warps)


def rocm_resources(assembly: str, shared: int, warps: int) -> Resources:
    """Resources from the metadata in the assembly: vector registers, and spilled registers of 4 bytes each."""
    numbers = {name: int(number) for name, number in re.findall(r"^\s*\.(\w+):\s+(\d+)\s*$", assembly, re.MULTILINE)}
    return Resources(numbers["vgpr_count"], 4 * numbers["vgpr_spill_count"], shared, warps)


if __name__ == "__main__":
    main()
