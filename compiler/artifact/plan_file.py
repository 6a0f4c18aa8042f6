"""Plans in files: IR text, weights, and a manifest that says what they are and proves that they are whole.

A folder, or a zip file with the same members:

    program.mlir          the IR, with locations
    weights.safetensors   parameters, buffers and constants, where there are any
    kernels.o             machine code of the kernels, where there is any
    program.py            what runs with these kernels, as Python, where Python can say it all
    manifest.json         versions, the signature, and the SHA-256 of the other files and of itself

Reading imports nothing, unpickles nothing and calls nothing: JSON, IR text and safetensors are data. Machine code and Python
are not: they are read only where the reader says that the file is to be trusted. They can be spared: all is in the IR, too.
Where they fit, the IR is not parsed until someone asks for it.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fxc.artifact.signature_json import signature_from, signature_json
from fxc.errors import FxcError, PlanFileError
from fxc.program.weights import load_state, save_state
from fxc.runtime.host_program import KernelCode
from fxc.runtime.program_text import HostText, program_of
from fxc.runtime.signature import Signature

if TYPE_CHECKING:
    import torch
    from torch.utils._pytree import TreeSpec

    from fxc.program.program import Program
    from fxc.runtime.host_program import HostProgram, KernelCode
    from fxc.runtime.program_text import HostText

FORMAT, VERSION = "fxc-plan", 6
_MANIFEST, _PROGRAM, _WEIGHTS = "manifest.json", "program.mlir", "weights.safetensors"
_KERNELS, _HOST = "kernels.o", "program.py"
_MAX_MANIFEST = 64 << 20
_AGAIN = "compile the model again and save the plan"


@dataclass(frozen=True)
class Contents:
    """What a plan file holds."""

    program: Program
    signature: Signature
    training: bool
    kernels: KernelCode | None = None


@dataclass(frozen=True)
class Ready:
    """What a trusted plan file holds that runs as it is. ``program``: reads the IR, which running does not need."""

    host: HostProgram
    program: Callable[[], Program]
    signature: Signature
    training: bool


def write(path: Path, contents: Contents) -> None:
    """Writes the files beside ``path`` and moves them there, the manifest last: half a plan is never taken for a whole."""
    from fxc.program.program import state_names

    _check_target(path)
    program = contents.program
    names = state_names(program.module)
    state = {name: program.state[name] for name in names if name in program.state}
    if len(state) != len(names):
        missing = next(name for name in names if name not in state)
        raise PlanFileError(f"the plan has no value for the tensor {missing!r}", hint="save a plan that runs")
    host = None if contents.kernels is None else _host_text(contents, contents.kernels)
    text = program.text(debuginfo=True)
    _check_stands_alone(program, text, state)
    single = path.suffix == ".zip"
    try:
        (path.parent if single else path).mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.") as scratch:
            folder = Path(scratch)
            (folder / _PROGRAM).write_text(text, encoding="utf-8", newline="\n")
            if state:
                save_state(state, folder / _WEIGHTS)
            if contents.kernels is not None:
                (folder / _KERNELS).write_bytes(contents.kernels.code)
                if host is not None:
                    (folder / _HOST).write_text(host.text, encoding="utf-8", newline="\n")
            members = [name for name in (_PROGRAM, _WEIGHTS, _KERNELS, _HOST) if (folder / name).exists()]
            files = {name: {"sha256": _sha256(folder / name), "bytes": (folder / name).stat().st_size} for name in members}
            manifest = _manifest(contents, files, state, host)
            (folder / _MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8", newline="\n")
            members.append(_MANIFEST)
            if single:
                _zip(folder, members, folder / "plan.zip")
                os.replace(folder / "plan.zip", path)
                return
            (path / _MANIFEST).unlink(missing_ok=True)
            for name in members:
                os.replace(folder / name, path / name)
            for name in {_WEIGHTS, _KERNELS, _HOST} - set(members):
                (path / name).unlink(missing_ok=True)
    except OSError as error:
        raise PlanFileError(f"cannot write {path}: {error.strerror or error}") from error


def read(path: Path, *, trust_kernels: bool = False) -> Contents | Ready:
    """The plan at ``path``, with machine code only where it is trusted, and only if it is whole.

    Ready to run where it is trusted and has all that this takes.

    PlanFileError where it is not a whole plan that this version can run.
    """
    if not path.exists():
        raise PlanFileError(f"there is no plan at {path}")
    try:
        with _folder(path) as folder:
            manifest = _read_manifest(path, folder)
            _check_versions(path, manifest)
            files = _field(manifest, "files", dict)
            if _PROGRAM not in files or not set(files) <= {_PROGRAM, _WEIGHTS, _KERNELS, _HOST}:
                raise PlanFileError(f"{path} names other files than a plan has", hint=_AGAIN)
            _check_file(path, folder / _PROGRAM, files[_PROGRAM])
            with ThreadPoolExecutor(1) as pool:  # a checksum of many weights takes as long as to read the program
                weights = [pool.submit(_check_file, path, folder / name, files[name]) for name in files if name == _WEIGHTS]
                kernels = _kernels(path, folder, manifest) if trust_kernels else None
                ready = None if kernels is None else _ready(path, folder, manifest, weights, kernels)
                return ready or replace(_contents(path, folder, manifest, weights), kernels=kernels)
    except OSError as error:
        raise PlanFileError(f"cannot read {path}: {error.strerror or error}") from error


def _check_target(path: Path) -> None:
    """Refuses to write over what is not a plan."""
    if path.suffix == ".zip":
        if path.is_dir():
            raise PlanFileError(f"{path} is a folder", hint="leave out the suffix .zip to save a folder")
        if path.exists() and not _is_plan_zip(path):
            raise PlanFileError(f"{path} is there already, and is not a plan", hint="choose another path")
        return
    if path.is_file():
        raise PlanFileError(f"{path} is a file", hint="end the name in .zip to save one file")
    if path.is_dir() and any(path.iterdir()) and not (path / _MANIFEST).exists():
        raise PlanFileError(f"{path} is a folder with other things in it", hint="choose another path")


def _is_plan_zip(path: Path) -> bool:
    try:
        with zipfile.ZipFile(path) as archive:
            return _MANIFEST in archive.namelist()
    except (zipfile.BadZipFile, OSError):
        return path.stat().st_size == 0


def _check_stands_alone(program: Program, text: str, state: Mapping[str, torch.Tensor]) -> None:
    """A plan over modules or functions of this process cannot be loaded in another."""
    if not program.live:
        return
    from fxc.driver.runner import read_module
    from fxc.export.graph_module import to_fx
    from fxc.program.context import new_context
    from fxc.program.program import Program

    context = new_context()
    try:
        to_fx(Program(read_module(context, text, _PROGRAM), dict(state), {}, context))
    except FxcError as error:
        raise PlanFileError(
            f"the plan calls what only this process has: {error.message}",
            op=error.op,
            hint="lower it to operators first (the pipeline lower-to-torch)",
        ) from error


def _host_text(contents: Contents, kernels: KernelCode) -> HostText | None:
    """What runs, as Python; None where that cannot say it: what is computed once, regions, modules."""
    from xdsl.dialects.func import CallOp

    from fxc.artifact.host_text import host_text
    from fxc.export.host import host_program
    from fxc.export.plan_time_values import is_once

    program = contents.program
    is_computed_once = any(isinstance(op, CallOp) and is_once(op) for op in program.main.walk())
    if is_computed_once or _nesting_text(contents.signature.nesting) is None:
        return None
    return host_text(program, host_program(program, kernels))


def _manifest(
    contents: Contents, files: Mapping[str, Any], state: Mapping[str, torch.Tensor], host: HostText | None
) -> dict[str, Any]:
    from fxc.bridge.nesting import INPUTS

    signature = contents.signature
    nesting = contents.program.main.attributes.get(INPUTS)
    manifest = {
        "format": FORMAT,
        "version": VERSION,
        "versions": _versions(),
        "files": files,
        "training": contents.training,
        "signature": signature_json(signature) | {"nesting": None if nesting is None else str(nesting)},
        "state": {name: _tensor_json(tensor) for name, tensor in state.items()},
    }
    if contents.kernels is not None:
        manifest["kernels"] = {"key": contents.kernels.key, "names": list(contents.kernels.names)}
    if host is not None:
        nested = _nesting_text(signature.nesting)
        manifest["host"] = {"nesting": nested, "features": host.features, "entry": host.entry}
    return {**manifest, "sha256": _self_hash(manifest)}


def _versions() -> dict[str, str]:
    import torch

    return {"fxc": version("fxc"), "torch": str(torch.__version__), "xdsl": version("xdsl")}


def _self_hash(manifest: Mapping[str, Any]) -> str:
    rest = {key: value for key, value in manifest.items() if key != "sha256"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _zip(folder: Path, members: list[str], target: Path) -> None:
    """Uncompressed, and without times: equal plans are equal files."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as archive:
        for name in members:
            info = zipfile.ZipInfo(name)
            with archive.open(info, "w", force_zip64=True) as out, (folder / name).open("rb") as source:
                while chunk := source.read(1 << 20):
                    out.write(chunk)


@contextmanager
def _folder(path: Path) -> Iterator[Path]:
    """The folder of a plan: itself, or where the members of a zip file are unpacked while they are read."""
    if path.is_dir():
        yield path
        return
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        try:
            with zipfile.ZipFile(path) as archive:
                names = archive.namelist()
                for name in (_MANIFEST, _PROGRAM, _WEIGHTS, _KERNELS, _HOST):
                    if names.count(name) > 1 or (name in names and archive.getinfo(name).compress_type):
                        raise PlanFileError(f"{path} is a zip file, but not one that fxc wrote", hint=_AGAIN)
                    if name in names:
                        archive.extract(name, scratch)
        except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, ValueError) as error:
            raise PlanFileError(f"{path} is damaged, or no zip file: {error}", hint=_AGAIN) from error
        yield Path(scratch)


def _read_manifest(path: Path, folder: Path) -> dict[str, Any]:
    file = folder / _MANIFEST
    if not file.is_file():
        raise PlanFileError(f"{path} is no plan: it has no {_MANIFEST}")
    if file.stat().st_size > _MAX_MANIFEST:
        raise PlanFileError(f"{path} is no plan: its {_MANIFEST} is too large")
    try:
        manifest = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise PlanFileError(f"{path} has a damaged {_MANIFEST}: {error}", hint=_AGAIN) from error
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise PlanFileError(f"{path} is no plan: its {_MANIFEST} belongs to something else")
    if manifest.get("version") != VERSION:
        raise PlanFileError(
            f"{path} has format version {manifest.get('version')}, but this fxc reads version {VERSION}", hint=_AGAIN
        )
    if manifest.get("sha256") != _self_hash(manifest):
        raise PlanFileError(f"{path} has a damaged {_MANIFEST}: its checksum is wrong", hint=_AGAIN)
    return manifest


def _check_versions(path: Path, manifest: Mapping[str, Any]) -> None:
    """The same release of each: operators, their schemas and the text may differ in another."""
    saved = _field(manifest, "versions", dict)
    for name, here in _versions().items():
        there = str(saved.get(name))
        if _release(there) != _release(here):
            raise PlanFileError(f"{path} was saved under {name} {there}, but this is {name} {here}", hint=_AGAIN)


def _release(text: str) -> list[str]:
    return text.split("+")[0].split(".")[:2]


def _check_file(path: Path, file: Path, facts: Any) -> None:
    if not isinstance(facts, dict):
        raise PlanFileError(f"{path} has a manifest with wrong entries", hint=_AGAIN)
    if not file.is_file():
        raise PlanFileError(f"{path} is incomplete: {file.name} is missing", hint="keep the files of a plan together")
    size = file.stat().st_size
    if size != facts.get("bytes"):
        raise PlanFileError(f"{path} is damaged: {file.name} has {size} bytes instead of {facts.get('bytes')}", hint=_AGAIN)
    if _sha256(file) != facts.get("sha256"):
        raise PlanFileError(f"{path} is damaged: {file.name} is not the file that was saved", hint=_AGAIN)


def _contents(path: Path, folder: Path, manifest: Mapping[str, Any], weights: Sequence[Future[None]]) -> Contents:
    """``weights``: the check of their file, if there is one."""
    from fxc.bridge.nesting import INPUTS, spec_of
    from fxc.program.program import state_names

    program = _parsed(path, _text(path, folder))
    names = state_names(program.module)
    if set(names) != set(_field(manifest, "state", dict)):
        raise PlanFileError(f"{path} names other tensors in its manifest than in its program", hint=_AGAIN)
    program.state = _state(path, folder, manifest, weights, names)
    nesting = program.main.attributes.get(INPUTS)
    if _field(manifest, "signature", dict).get("nesting") != (None if nesting is None else str(nesting)):
        raise PlanFileError(f"{path} nests its inputs otherwise in its manifest than in its program", hint=_AGAIN)
    signature = _signature(path, manifest, None if nesting is None else spec_of(nesting))
    return Contents(program, signature, _field(manifest, "training", bool))


def _text(path: Path, folder: Path) -> str:
    try:
        return (folder / _PROGRAM).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise PlanFileError(f"{path} is damaged: {_PROGRAM} is not text", hint=_AGAIN) from error


def _parsed(path: Path, text: str) -> Program:
    from fxc.driver.runner import read_module
    from fxc.program.context import new_context
    from fxc.program.program import Program

    context = new_context()
    return Program(read_module(context, text, str(path / _PROGRAM)), {}, {}, context)


def _state(
    path: Path, folder: Path, manifest: Mapping[str, Any], weights: Sequence[Future[None]], names: Sequence[str]
) -> dict[str, torch.Tensor]:
    """The tensors called ``names``, once their file was found to be whole."""
    if bool(names) != bool(weights):
        raise PlanFileError(f"{path} names other tensors in its manifest than in its program", hint=_AGAIN)
    for check in weights:
        check.result()
    facts, stored = _field(manifest, "state", dict), load_state(folder / _WEIGHTS, names) if names else {}
    made, state = dict[int, Any](), dict[str, Any]()
    for name in names:  # one tensor under several names stays one
        if id(stored[name]) not in made:
            made[id(stored[name])] = _restored(path, name, stored[name], facts[name])
        state[name] = made[id(stored[name])]
    return state


def _kernels(path: Path, folder: Path, manifest: Mapping[str, Any]) -> KernelCode | None:
    """The machine code of the file; None where there is none that is whole: kernels are compiled again then."""
    files, facts = _field(manifest, "files", dict), manifest.get("kernels")
    try:
        _check_file(path, folder / _KERNELS, files.get(_KERNELS))
    except PlanFileError:
        return None
    if not isinstance(facts, dict) or not isinstance(facts.get("key"), str) or not isinstance(facts.get("names"), list):
        return None

    return KernelCode((folder / _KERNELS).read_bytes(), facts["key"], tuple(map(str, facts["names"])))


def _nesting_text(nesting: TreeSpec | None) -> str | None:
    """JSON, empty for no nesting; None where JSON cannot say it, as of tuples that are keys."""
    from torch.utils._pytree import treespec_dumps

    try:
        text = "" if nesting is None else treespec_dumps(nesting)
        return text if _nesting_of(text) == nesting else None
    except Exception:  # classes of the user's own may fail in any way
        return None


def _nesting_of(text: str) -> TreeSpec | None:
    """Imports what the text names."""
    from torch.utils._pytree import treespec_loads

    return treespec_loads(text) if text else None


def _ready(
    path: Path, folder: Path, manifest: Mapping[str, Any], weights: Sequence[Future[None]], kernels: KernelCode
) -> Ready | None:
    """What runs as it is; None where the file does not hold that whole, or it does not fit this CPU."""
    try:
        _check_file(path, folder / _HOST, _field(manifest, "files", dict).get(_HOST))
        facts = _field(manifest, "host", dict)
        signature = _signature(path, manifest, _nesting_of(facts["nesting"]))
        stored = HostText((folder / _HOST).read_text(encoding="utf-8"), facts["features"], facts["entry"])
        ir = _text(path, folder)
        state = _state(path, folder, manifest, weights, list(_field(manifest, "state", dict)))
        host = program_of(stored, state, kernels)
        return Ready(host, lambda: replace(_parsed(path, ir), state=state), signature, _field(manifest, "training", bool))
    except Exception:  # whatever is wrong: all is in the IR, too, and what is wrong there has an error
        return None


def _signature(path: Path, manifest: Mapping[str, Any], nesting: TreeSpec | None) -> Signature:
    try:
        return signature_from(_field(manifest, "signature", dict), nesting)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise PlanFileError(f"{path} has a signature that cannot be read: {error}", hint=_AGAIN) from error


def _tensor_json(tensor: torch.Tensor) -> dict[str, Any]:
    import torch

    return {
        "parameter": isinstance(tensor, torch.nn.Parameter),
        "requires_grad": tensor.requires_grad,
        "device": str(tensor.device),
        "strides": None if tensor.is_contiguous() else list(tensor.stride()),
    }


def _restored(path: Path, name: str, tensor: torch.Tensor, facts: Any) -> torch.Tensor:
    """The tensor on its device, in its memory layout, as the kind of tensor that it was."""
    import torch

    try:
        device, strides = torch.device(facts["device"]), facts["strides"]
        if device.type != "cpu":
            tensor = tensor.to(device)
        if strides is not None and len(strides) == tensor.dim() and _is_dense(tensor.shape, strides):
            tensor = torch.empty_strided(tensor.shape, strides, dtype=tensor.dtype, device=device).copy_(tensor)
        if facts["parameter"]:
            return torch.nn.Parameter(tensor, requires_grad=bool(facts["requires_grad"]))
        return tensor.requires_grad_(bool(facts["requires_grad"])) if facts["requires_grad"] else tensor
    except (KeyError, TypeError) as error:
        raise PlanFileError(f"{path} has a manifest with wrong entries for {name}", hint=_AGAIN) from error
    except (RuntimeError, AssertionError) as error:
        raise PlanFileError(f"{path}: {name} cannot be put on {facts['device']}: {error}") from error


def _is_dense(sizes: Any, strides: list[int]) -> bool:
    """Whether strides fill memory without gaps and overlaps, as a permuted contiguous tensor does."""
    step = 1
    for stride, size in sorted(zip(strides, sizes, strict=True)):
        if size != 1:
            if stride != step:
                return False
            step *= size
    return True


def _field(entries: Mapping[str, Any], name: str, kind: type) -> Any:
    value = entries.get(name)
    if not isinstance(value, kind):
        raise PlanFileError(f"the manifest's entry {name!r} is missing or wrong", hint=_AGAIN)
    return value
