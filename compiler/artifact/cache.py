"""Cache compiled programs on disk, so that an equal graph is not compiled again.

An entry holds the IR text after the pipeline, the machine code of its kernels, and the host program as Python text if text
can represent it; then the IR is parsed only on demand. The key is a hash of everything that the entry depends on: the captured
graph with its types, constants and locations in the user's source; the pipeline and its options; package versions and the
source of fxc; the machine, and the global settings of PyTorch. Values of parameters and buffers are in neither the key nor the
entry, since passes do not read them.

A program is not cached if text does not fully represent it: if it uses functions, modules, operators, decompositions or passes
that the user defines. It is also not cached if the source of fxc changed after the process started.

Entries need the same trust as compiled kernels, which are in the same folder. A damaged entry counts as missing.
"""

from __future__ import annotations

import hashlib
import io
import platform
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, cast

import torch
import torch._decomp
from xdsl.dialects.builtin import ModuleOp

from fxc import dialects, passes
from fxc.artifact.archive import PROGRAM, Artifact, Reader, unpacked
from fxc.bridge.location import places
from fxc.dialects.target import CpuAttr, target_of
from fxc.dialects.text.syntax import parse_module, print_module
from fxc.dialects.torch_ops.operators import OperatorDeclOp
from fxc.dialects.torch_ops.schema import is_process_call
from fxc.program.program import Program, state_names
from fxc.runtime import autocast
from fxc.runtime.autocast import float32_precisions
from fxc.runtime.host_cpu import host_features, openmp_symbols
from fxc.runtime.host_program import HostProgram, KernelCode
from fxc.runtime.object_cache import ObjectCache, cache_key, default_cache_folder
from fxc.runtime.program_text import HostText, program_of, program_text

_PACKAGES = ("torch", "xdsl", "llvmlite", "triton", "numpy", "networkx", "sympy")
_START = time.time()
"""The time at which this process imports fxc, or shortly after."""


@dataclass(frozen=True)
class Entry:
    """A cache entry: ``module`` after the pipeline, and the machine code of its kernels.

    ``kernels`` is machine code by module name; ``module`` itself has the empty name.
    """

    module: ModuleOp
    kernels: Mapping[str, KernelCode]


@dataclass(frozen=True)
class Ready:
    """A cache entry that is ready to run: ``host`` is executable, ``module`` parses the IR from which it was built."""

    host: HostProgram
    module: Callable[[], ModuleOp]


def key_of(program: Program, *how: str, named: bool = True) -> str | None:
    """The cache key of ``program`` compiled with the options ``how``; None if its text does not fully represent it.

    ``named``: whether the names of values are part of the key. The names of a program that was built in this process and those
    of the same program read from text may differ if values in several blocks share a name.
    """
    process = key_of_process()
    if process is None or program.live or not _is_self_contained(program.module):
        return None
    text = print_module(program.module if named else _without_names(program.module))
    return cache_key(text, places(program.module), _shared(program), *how, *process)


def key_of_process() -> tuple[str, ...] | None:
    """What results depend on beside program and options: machine, settings of PyTorch, versions, source; None: not cached."""
    source = _source()
    return None if source is None or _has_own_decompositions() else (*_process(), source)


def _without_names(module: ModuleOp) -> ModuleOp:
    """A copy of ``module`` whose values have no names."""
    copy = module.clone(clone_name_hints=False)
    for block in [block for op in copy.walk() for region in op.regions for block in region.blocks]:
        for value in (*block.args, *(result for op in block.ops for result in op.results)):
            value._name = None
    return copy


def find(key: str, program: Program) -> Entry | None:
    """The entry of ``key`` for the tensors and the context of ``program``; None if it is missing or damaged."""
    try:
        stored = _stored(key)
        if stored is None:
            return None
        module = parse_module(program.context, stored.text(PROGRAM), "cached plan")
        return Entry(module, stored.kernels()) if set(state_names(module)) <= program.state.keys() else None
    except Exception:  # any error: another program may have written or damaged the file
        return None


def find_ready(key: str, program: Program) -> Ready | None:
    """The entry of ``key`` as a host program over the tensors of ``program``; None if it is missing, damaged or has none."""
    try:
        stored = _stored(key)
        return None if stored is None or stored.manifest["host"] is None else _ready(stored, program)
    except Exception:  # as above
        return None


def unpack_ready(entry: bytes, state: Mapping[str, torch.Tensor]) -> Ready:
    """The entry of a program with the tensors ``state``. Any error may be raised if it is damaged, or has no host program."""
    return _ready(unpacked("cached plan", io.BytesIO(entry)), Program(ModuleOp([]), dict(state)))


def _ready(stored: Reader, program: Program) -> Ready:
    host, text = program_of(stored.host(), program.state, stored.kernels()[""]), stored.text(PROGRAM)
    return Ready(host, lambda: parse_module(program.context, text, "cached plan"))


def store(key: str, program: Program, kernels: Mapping[str, KernelCode], host: HostProgram | None = None) -> None:
    """Cache ``program`` after the pipeline, and the host program ``host`` built from it, if the disk is writable.

    ``kernels``: as in ``Entry``.
    """
    stored = None if host is None else host_text(program, host)
    _folder().put(key, Artifact(program.text(debuginfo=True), kernels, stored).packed())


def packed(key: str) -> bytes | None:
    """The entry of ``key`` as bytes, for ``put`` in another cache; None if it is missing or damaged."""
    return _folder().get(key)


def packed_ready(key: str) -> bytes | None:
    """``packed``, for ``unpack_ready``; None also where the entry has no host program."""
    try:
        stored = _stored(key)
        return None if stored is None or stored.manifest["host"] is None else packed(key)
    except Exception:  # as above
        return None


def put(key: str, entry: bytes) -> None:
    """Cache the entry of another cache."""
    _folder().put(key, entry)


def host_text(program: Program, host: HostProgram) -> HostText | None:
    """``host``, which was built from ``program``, as text.

    None if it has no native kernels, or if it uses plan-time values, modules or functions of the process.
    """
    from fxc.codegen.cpu.machine_code import ENTRY

    target = target_of(program.module)
    text = None if host.code is None else program_text(host, program.state, host.code.names)
    return None if text is None else HostText(text, target.features.data if isinstance(target, CpuAttr) else "", ENTRY)


def _stored(key: str) -> Reader | None:
    """The cached artifact of ``key``. Any error may be raised if the file is not an artifact."""
    data = _folder().get(key)
    return None if data is None else unpacked("cached plan", io.BytesIO(data))


def _folder() -> ObjectCache:
    return ObjectCache(default_cache_folder() / "programs")


def _is_self_contained(module: ModuleOp) -> bool:
    """Whether ``module`` has no reference to operators or functions that the user defines, which text only names."""
    return not any(isinstance(op, OperatorDeclOp) or is_process_call(op) for op in module.walk())


def _has_own_decompositions() -> bool:
    """Whether the decomposition table has functions that are not defined in PyTorch."""
    functions: Iterable[Callable[..., Any]] = cast(Any, torch._decomp).decomposition_table.values()
    return not all(function.__module__.startswith("torch.") for function in functions)


def _shared(program: Program) -> str:
    """The names of state tensors that are the same tensor, as text."""
    first = dict[int, str]()
    return str({name: first.setdefault(id(tensor), name) for name, tensor in program.state.items()})


def _process() -> tuple[str, ...]:
    """The machine, and the global settings of PyTorch.

    GPUs are included only if CUDA is initialized: a query starts the driver, which fails in a forked process.
    """
    gpus = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())] if torch.cuda.is_initialized() else []
    machine = (platform.machine(), sys.platform, host_features().text, torch.get_num_threads(), sorted(openmp_symbols()), gpus)
    settings = (
        torch.get_default_dtype(),
        torch.get_default_device(),
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        torch.are_deterministic_algorithms_enabled(),
        float32_precisions(),
        torch.backends.cpu.get_cpu_capability(),
        torch.backends.mkldnn.enabled,
        torch.backends.cuda.flash_sdp_enabled(),
        torch.backends.cuda.mem_efficient_sdp_enabled(),
        torch.backends.cuda.math_sdp_enabled(),
        torch.backends.cuda.cudnn_sdp_enabled(),
        autocast.current(),
    )
    return str(machine), str(settings)


@cache
def _source() -> str | None:
    """A hash of package versions and of fxc's source; None if the source has changed since this process started."""
    digest = hashlib.blake2b(f"{sys.version} {[_version(name) for name in _PACKAGES]}".encode())
    for folder in (Path(__file__).parents[1], *dialects.__path__, *passes.__path__):
        for file in sorted(Path(folder).rglob("*")):
            if file.suffix in (".py", ".tbl"):
                if file.stat().st_mtime > _START:
                    return None
                digest.update(f"{file.relative_to(folder)} ".encode() + hashlib.blake2b(file.read_bytes()).digest())
    return digest.hexdigest()


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""
