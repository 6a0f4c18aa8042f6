"""What pipelines made of captured graphs, kept on disk: an equal graph is not compiled again.

An entry is IR text after the pipeline, the machine code of its kernels, and what runs these as Python text, where that can say
it: then the IR is not parsed until someone asks for it. Its key is a hash of all that they depend on: the
graph as captured, with its types, constants and places in the user's source; the pipeline and its options; versions, and fxc's
own source; the machine, and what is set for all of PyTorch. Values of parameters and buffers are no part of either: passes do
not see them. What text does not say is not kept: functions, modules, operators, decompositions and passes of the user's own,
and what a process makes whose source changed after it started.

An entry is as trustworthy as compiled kernels, which lie in the same folder. One that is damaged is as good as missing.
"""

from __future__ import annotations

import hashlib
import io
import platform
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch
from torch._decomp import decomposition_table
from xdsl.dialects.builtin import ModuleOp

from fxc import dialects, passes
from fxc.artifact.archive import PROGRAM, Artifact, Reader, unpacked
from fxc.bridge.location import places
from fxc.dialects.target import CpuAttr, target_of
from fxc.dialects.text.syntax import parse_module, print_module
from fxc.dialects.torch_ops.declaration import OperatorDeclOp
from fxc.dialects.torch_ops.namespaces import is_process_call
from fxc.program.program import Program, state_names
from fxc.runtime import autocast
from fxc.runtime.cpu_features import host_features
from fxc.runtime.host_program import HostProgram, KernelCode
from fxc.runtime.object_cache import ObjectCache, cache_key, default_cache_folder
from fxc.runtime.openmp import openmp_symbols
from fxc.runtime.precision import float32_precisions
from fxc.runtime.program_text import HostText, program_of, program_text

_PACKAGES = ("torch", "xdsl", "llvmlite", "triton", "numpy", "networkx", "sympy")
_START = time.time()
"""When this process began to import fxc, or soon after."""


@dataclass(frozen=True)
class Entry:
    """``module`` after the pipeline, and the machine code of kernels: of its own under the empty name, and of those of modules
    in it under their names."""

    module: ModuleOp
    kernels: Mapping[str, KernelCode]


@dataclass(frozen=True)
class Ready:
    """``host`` runs as it is; ``module`` reads the IR that it was made of."""

    host: HostProgram
    module: Callable[[], ModuleOp]


def key_of(program: Program, *how: str, named: bool = True) -> str | None:
    """The key of what is made of ``program``, as ``how`` says; None where its text does not say all that this depends on.

    ``named``: whether the names of values count. Those of a program that was made in this process and of one that was read may
    differ where values in several blocks share a name.
    """
    source = _source()
    if source is None or program.live or _has_own_decompositions() or not _says_all(program.module):
        return None
    text = print_module(program.module if named else _without_names(program.module))
    return cache_key(text, places(program.module), _shared(program), *how, *_process(), source)


def _without_names(module: ModuleOp) -> ModuleOp:
    """A copy whose values have no names."""
    copy = module.clone(clone_name_hints=False)
    for block in [block for op in copy.walk() for region in op.regions for block in region.blocks]:
        for value in (*block.args, *(result for op in block.ops for result in op.results)):
            value._name = None
    return copy


def find(key: str, program: Program) -> Entry | None:
    """The entry of ``key``, for the tensors of ``program`` and in its context; None where there is none that is whole."""
    try:
        stored = _stored(key)
        if stored is None:
            return None
        module = parse_module(program.context, stored.text(PROGRAM), "cached plan")
        return Entry(module, stored.kernels()) if set(state_names(module)) <= program.state.keys() else None
    except Exception:  # whatever is wrong with a file that something else wrote
        return None


def find_ready(key: str, program: Program) -> Ready | None:
    """The entry of ``key`` as what runs over the tensors of ``program``; None where there is none that says it and is whole."""
    try:
        stored, context = _stored(key), program.context
        if stored is None or stored.manifest["host"] is None:
            return None
        host, text = program_of(stored.host(), program.state, stored.kernels()[""]), stored.text(PROGRAM)
        return Ready(host, lambda: parse_module(context, text, "cached plan"))
    except Exception:  # as above
        return None


def keep(key: str, program: Program, kernels: Mapping[str, KernelCode], host: HostProgram | None = None) -> None:
    """Keeps ``program``, as it is after the pipeline, and ``host``, which was made of it, where the disk can be written.
    ``kernels``: as in ``Entry``."""
    stored = None if host is None else host_text(program, host)
    _folder().put(key, Artifact(program.text(debuginfo=True), kernels, stored).packed())


def host_text(program: Program, host: HostProgram) -> HostText | None:
    """``host``, which was made of ``program``, as text; None where it has no kernels of machine code, or where text cannot say
    it: what is computed once, modules, functions of the process."""
    from fxc.codegen.cpu.python_entry import ENTRY

    target = target_of(program.module)
    text = None if host.code is None else program_text(host, program.state, host.code.names)
    return None if text is None else HostText(text, target.features.data if isinstance(target, CpuAttr) else "", ENTRY)


def _stored(key: str) -> Reader | None:
    """What lies on disk; any error where that is nothing of ours."""
    data = _folder().get(key)
    return None if data is None else unpacked("cached plan", io.BytesIO(data))


def _folder() -> ObjectCache:
    return ObjectCache(default_cache_folder() / "programs")


def _says_all(module: ModuleOp) -> bool:
    """Whether nothing in ``module`` is but the name of something that the user wrote."""
    return not any(isinstance(op, OperatorDeclOp) or is_process_call(op) for op in module.walk())


def _has_own_decompositions() -> bool:
    """Whether the table that passes ask how operators are computed has functions that are not PyTorch's."""
    return not all(function.__module__.startswith("torch.") for function in decomposition_table.values())


def _shared(program: Program) -> str:
    """Which names stand for one tensor."""
    first = dict[int, str]()
    return str({name: first.setdefault(id(tensor), name) for name, tensor in program.state.items()})


def _process() -> tuple[str, ...]:
    """The machine, and what is set for all of PyTorch. GPUs count where they are in use: to ask for one starts its driver,
    which a forked process cannot."""
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
    """The versions that make a program: of packages, and fxc's source itself; None where that is not what this process runs."""
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
