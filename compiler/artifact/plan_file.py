"""Save and load plans: artifacts with weights and a signature."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from zipfile import Path as ZipPath
from zipfile import is_zipfile

from fxc.artifact.archive import AGAIN, MANIFEST, PROGRAM, WEIGHTS, Artifact, Reader, opened
from fxc.errors import WRITE_ELSEWHERE, FxcError, PlanFileError, nearest_file
from fxc.program.weights import load_state, save_state
from fxc.runtime.host_program import HostProgram, KernelCode
from fxc.runtime.inputs import ANY, OtherInput, TensorInput
from fxc.runtime.object_inputs import register_inputs
from fxc.runtime.process_state import READS
from fxc.runtime.program_text import HostText, program_of
from fxc.runtime.signature import Signature

if TYPE_CHECKING:
    import torch
    from torch.utils._pytree import TreeSpec

    from fxc.program.program import Program


@dataclass(frozen=True)
class Contents:
    """The content of a plan file; ``kernels`` as in ``Artifact``."""

    program: Program
    signature: Signature
    training: bool
    kernels: Mapping[str, KernelCode] = field(default_factory=dict[str, KernelCode])


@dataclass(frozen=True)
class Ready:
    """The content of a trusted plan file that is ready to run. ``program`` parses the IR, which is not needed to run it."""

    host: HostProgram
    program: Callable[[], Program]
    signature: Signature
    training: bool


def write(path: Path, contents: Contents) -> None:
    """Write a folder or zip file. PlanFileError if ``path`` is something else, or if a file cannot represent the plan."""
    from fxc.bridge.nesting import INPUTS
    from fxc.dialects.attributes.types import device, is_tensor
    from fxc.dialects.entry import ArgumentFacts, argument_attributes
    from fxc.program.program import state_names

    _check_target(path)
    program, signature = contents.program, contents.signature
    names = state_names(program.module)
    state = {name: program.state[name] for name in names if name in program.state}
    if len(state) != len(names):
        missing = next(name for name in names if name not in state)
        raise PlanFileError(f"the plan has no value for the tensor {missing!r}", hint="save a plan that runs")
    host = _host_text(contents)
    text = program.text(debuginfo=True)
    _check_self_contained(program, text, state)
    nesting = program.main.attributes.get(INPUTS)
    named = zip(program.main.args, map(ArgumentFacts.of, argument_attributes(program.main)), strict=True)
    devices = {facts.name: device(argument.type) for argument, facts in named if is_tensor(argument.type)}
    facts = {
        "training": contents.training,
        "signature": signature_json(signature) | {"nesting": None if nesting is None else str(nesting)},
        "state": {name: _tensor_json(tensor, devices.get(name)) for name, tensor in state.items()},
        "nesting": None if host is None else _nesting_text(signature.nesting),
    }
    try:
        Artifact(text, contents.kernels, host, facts).write(path, partial(save_state, state) if state else None)
    except OSError as error:
        raise PlanFileError(f"cannot write {path}: {error.strerror or error}", hint=WRITE_ELSEWHERE) from error


def read(path: Path, *, trust_kernels: bool = False) -> Contents | Ready:
    """Read the plan at ``path``. Machine code is read only if it is trusted and undamaged.

    The result is ``Ready`` if the file is trusted and has everything that running needs, else ``Contents``.

    PlanFileError if the file is not a complete plan that this version can run.
    """
    if not path.exists():
        raise PlanFileError(f"there is no plan at {path}", hint=nearest_file(path))
    try:
        with opened(path) as reader, ThreadPoolExecutor(1) as pool:
            text = reader.text(PROGRAM)
            # in parallel: the checksum of large weights takes as long as reading the program
            weights = pool.submit(reader.file, WEIGHTS) if WEIGHTS in reader.files else None
            kernels: Mapping[str, KernelCode] = _kernels(reader) if trust_kernels else {}
            ready = _ready(reader, text, weights, kernels) if kernels and not _names_groups(text) else None
            return ready or replace(_contents(reader, text, weights), kernels=kernels)
    except OSError as error:
        raise PlanFileError(f"cannot read {path}: {error.strerror or error}", hint=nearest_file(path)) from error


def _names_groups(text: str) -> bool:
    """Whether the program is of one rank of several: its process groups have other names in another process."""
    return "dist.mesh @" in text or "dist.group @" in text


def _check_target(path: Path) -> None:
    """PlanFileError if ``path`` exists and is not a plan, so that it is not overwritten."""
    if path.suffix == ".zip":
        if path.is_dir():
            raise PlanFileError(f"{path} is a folder", hint="leave out the suffix .zip to save a folder")
        if path.exists() and path.stat().st_size and not (is_zipfile(path) and ZipPath(path, MANIFEST).exists()):
            raise PlanFileError(f"{path} is there already, and is not a plan", hint="choose another path")
    elif path.is_file():
        raise PlanFileError(f"{path} is a file", hint="end the name in .zip to save one file")
    elif path.is_dir() and any(path.iterdir()) and not (path / MANIFEST).exists():
        raise PlanFileError(f"{path} is a folder with other things in it", hint="choose another path")


def _check_self_contained(program: Program, text: str, state: Mapping[str, torch.Tensor]) -> None:
    """PlanFileError if the plan uses modules or functions of this process, since another process cannot load it."""
    if not program.live:
        return
    from fxc.driver.runner import read_module
    from fxc.export.graph_module import to_fx
    from fxc.program.program import Program, new_context

    context = new_context()
    try:
        to_fx(Program(read_module(context, text, PROGRAM), dict(state), {}, context))
    except FxcError as error:
        raise PlanFileError(
            f"the plan calls what only this process has: {error.message}",
            op=error.op,
            hint="lower it to operators first (the pipeline lower-to-torch)",
        ) from error


def _host_text(contents: Contents) -> HostText | None:
    """The host program as Python text; None if it uses plan-time values, regions or modules, which text cannot represent."""
    if "" not in contents.kernels:
        return None
    from xdsl.dialects.func import CallOp

    from fxc.artifact.cache import host_text
    from fxc.export.host import host_program
    from fxc.export.plan_time_values import is_once

    program = contents.program
    is_computed_once = any(isinstance(op, CallOp) and is_once(op) for op in program.main.walk())
    signature = contents.signature
    if is_computed_once or signature.returned is not None or _nesting_text(signature.nesting) is None:
        return None
    return host_text(program, host_program(program, contents.kernels[""]))


def _contents(reader: Reader, text: str, weights: Future[Path] | None) -> Contents:
    """Parse the content of a plan file. ``weights``: the weights file, if there is one."""
    from fxc.bridge.nesting import INPUTS, RETURNS, returned_of, spec_of
    from fxc.program.program import state_names

    program = _parsed(reader, text)
    names = state_names(program.module)
    if set(names) != set(reader.field("state", dict)):
        raise PlanFileError(f"{reader.name} names other tensors in its manifest than in its program", hint=AGAIN)
    program.state = _state(reader, weights, names)
    nesting = program.main.attributes.get(INPUTS)
    if reader.field("signature", dict).get("nesting") != (None if nesting is None else str(nesting)):
        raise PlanFileError(f"{reader.name} nests its inputs otherwise in its manifest than in its program", hint=AGAIN)
    signature = _signature(reader, None if nesting is None else spec_of(nesting))
    signature = replace(signature, returned=returned_of(program.main.attributes.get(RETURNS)))
    return Contents(program, signature, reader.field("training", bool))


def _parsed(reader: Reader, text: str) -> Program:
    from fxc.driver.runner import read_module
    from fxc.program.program import Program, new_context

    context = new_context()
    return Program(read_module(context, text, str(Path(reader.name) / PROGRAM)), {}, {}, context)


def _state(reader: Reader, weights: Future[Path] | None, names: Sequence[str]) -> dict[str, torch.Tensor]:
    """The tensors called ``names``, after their file is verified."""
    if bool(names) != (weights is not None):
        raise PlanFileError(f"{reader.name} names other tensors in its manifest than in its program", hint=AGAIN)
    facts, stored = reader.field("state", dict), {} if weights is None else load_state(weights.result(), names)
    made, state = dict[int, Any](), dict[str, Any]()
    for name in names:  # a tensor with several names is restored once
        if id(stored[name]) not in made:
            made[id(stored[name])] = _restored(reader, name, stored[name], facts[name])
        state[name] = made[id(stored[name])]
    return state


def _kernels(reader: Reader) -> Mapping[str, KernelCode]:
    """The machine code of the file; empty if it is missing or damaged, then kernels are compiled again."""
    try:
        return reader.kernels()
    except (PlanFileError, KeyError, TypeError):
        return {}


def _nesting_text(nesting: TreeSpec | None) -> str | None:
    """``nesting`` as JSON, empty for no nesting; None if JSON cannot represent it, such as tuples as keys."""
    from torch.utils._pytree import treespec_dumps

    try:
        text = "" if nesting is None else treespec_dumps(nesting)
        return text if _nesting_of(text) == nesting else None
    except Exception:  # user-defined classes may raise any error
        return None


def _nesting_of(text: str) -> TreeSpec | None:
    """The nesting in ``text``. This imports the classes that the text names."""
    from torch.utils._pytree import treespec_loads

    register_inputs()
    return treespec_loads(text) if text else None


def _ready(reader: Reader, text: str, weights: Future[Path] | None, kernels: Mapping[str, KernelCode]) -> Ready | None:
    """The plan as an executable host program; None if this part of the file is missing, damaged or not for this CPU."""
    try:
        signature = _signature(reader, _nesting_of(reader.field("nesting", str)))
        state = _state(reader, weights, list(reader.field("state", dict)))
        host = program_of(reader.host(), state, kernels[""])
        return Ready(host, lambda: replace(_parsed(reader, text), state=state), signature, reader.field("training", bool))
    except Exception:  # any error: the caller reads the IR instead, which contains the same and reports its errors
        return None


def _signature(reader: Reader, nesting: TreeSpec | None) -> Signature:
    try:
        return signature_from(reader.field("signature", dict), nesting)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise PlanFileError(f"{reader.name} has a signature that cannot be read: {error}", hint=AGAIN) from error


def _tensor_json(tensor: torch.Tensor, device: str | None) -> dict[str, Any]:
    import torch

    return {
        "parameter": isinstance(tensor, torch.nn.Parameter),
        "requires_grad": tensor.requires_grad,
        "device": device or str(tensor.device),
        "strides": None if tensor.is_contiguous() else list(tensor.stride()),
    }


def _restored(reader: Reader, name: str, tensor: torch.Tensor, facts: Any) -> torch.Tensor:
    """``tensor`` with its saved device, memory layout and kind (parameter or plain tensor)."""
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
        raise PlanFileError(f"{reader.name} has a manifest with wrong entries for {name}", hint=AGAIN) from error
    except (RuntimeError, AssertionError) as error:
        message = f"{reader.name}: {name} cannot be put on {facts['device']}: {error}"
        raise PlanFileError(message, hint="load the plan where PyTorch has this device") from error


def _is_dense(sizes: Any, strides: list[int]) -> bool:
    """Whether strides cover memory without gaps or overlaps, like those of a permuted contiguous tensor."""
    step = 1
    for stride, size in sorted(zip(strides, sizes, strict=True)):
        if size != 1:
            if stride != step:
                return False
            step *= size
    return True


def signature_json(signature: Signature) -> dict[str, Any]:
    """``signature`` as JSON. PlanFileError for a constant that JSON cannot represent."""
    return {
        "inputs": [_input_json(spec) for spec in signature.inputs],
        "bounds": {name: list(bounds) for name, bounds in signature.bounds.items()},
        "autocast": [list(entry) for entry in signature.autocast],
        "conditions": list(signature.conditions),
        "reads": [list(read) for read in signature.reads],
        "ordered": list(signature.ordered),
    }


def signature_from(facts: Mapping[str, Any], nesting: TreeSpec | None) -> Signature:
    """The signature in ``facts``.

    KeyError, TypeError, ValueError or AttributeError if ``facts`` are not a signature; PlanFileError for invalid inputs.
    """
    inputs = facts["inputs"]
    if not isinstance(inputs, list):
        raise ValueError("its inputs are no list")
    bounds = {name: (int(low), None if high is None else int(high)) for name, (low, high) in facts["bounds"].items()}
    autocast = tuple((str(kind), str(dtype)) for kind, dtype in facts["autocast"])
    conditions, reads = tuple(map(str, facts["conditions"])), tuple((str(name), was) for name, was in facts["reads"])
    if not all(name in READS and isinstance(was, int) for name, was in reads):
        raise ValueError("it compares state that this version does not know")
    ordered = tuple(map(str, facts["ordered"]))
    taken = tuple(map(_input, cast(list[Any], inputs)))
    return Signature(taken, nesting, bounds, autocast, conditions, reads=reads, ordered=ordered)


def _input_json(spec: TensorInput | OtherInput) -> dict[str, Any]:
    if isinstance(spec, TensorInput):
        return {"tensor" if key == "name" else key: value for key, value in vars(spec).items()}
    entry: dict[str, Any] = {"other": spec.name, "types": list(spec.types), "symbol": spec.symbol}
    if spec.constant is not ANY:
        entry["constant"] = _constant_json(spec.name, spec.constant)
    return entry


def _input(entry: Mapping[str, Any]) -> TensorInput | OtherInput:
    if "tensor" in entry:
        dims = [*entry["sizes"], *(entry["strides"] or ()), *(entry["values"] or ())]
        if not all(type(dim) in (int, str) for dim in dims):
            raise ValueError(f"{dims} are no sizes")
        facts: dict[str, Any] = {
            key: tuple(cast(Sequence[Any], value)) if isinstance(value, list) else value
            for key, value in entry.items()
            if key != "tensor"
        }
        return TensorInput(entry["tensor"], **facts)
    constant = _constant(entry["constant"]) if "constant" in entry else ANY
    return OtherInput(entry["other"], tuple(entry["types"]), constant, entry["symbol"])


def _constant_json(name: str, value: Any) -> list[Any]:
    """[type, value]; floats are hexadecimal text, since JSON has no nan and may lose digits."""
    if value is None or type(value) in (bool, int, str):
        return [type(value).__name__, value]
    if type(value) is float:
        return ["float", value.hex()]
    if type(value) is complex:
        return ["complex", value.real.hex(), value.imag.hex()]
    message = f"input {name} was baked in as a {type(value).__name__}, which a plan file cannot hold"
    raise PlanFileError(message, hint="pass it as a tensor or a number, or make it an attribute of the model")


def _constant(entry: list[Any]) -> Any:
    match entry:
        case ["float", str(text)]:
            return float.fromhex(text)
        case ["complex", str(real), str(imag)]:
            return complex(float.fromhex(real), float.fromhex(imag))
        case ["NoneType" | "bool" | "int" | "str" as name, value] if type(value).__name__ == name:
            return value
        case _:
            raise ValueError(f"{entry} is no constant")
