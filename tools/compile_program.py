"""The implementation of ``fxc compile``: run the stages of a pipeline and write the IR of each to a folder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType

from fxc.api import pipeline_for, with_machine
from fxc.artifact import plan_file
from fxc.bridge.tensors import has_autograd
from fxc.codegen.contract import is_interpreted, machine_of, target_named
from fxc.codegen.triton.ahead_of_time import compile_kernels
from fxc.codegen.triton.device import compile_target
from fxc.codegen.triton.printer import print_kernels
from fxc.compilation.passes import Passes
from fxc.dialects.target import CpuAttr, GpuAttr, TargetAttr, target_of
from fxc.dialects.text.diagnostics import to_stderr
from fxc.dialects.tile import KernelOp
from fxc.driver.pipeline import Flow
from fxc.driver.pipeline_text import PassSpec, Spec, parse, to_text
from fxc.errors import PipelineError, PlanFileError
from fxc.options import AUTO, Options
from fxc.passes.rewriting.remarks import remarking
from fxc.pipelines import INFERENCE, NAMED, TRAINING, parse_pipeline
from fxc.program.program import SHARED_WEIGHTS, Program
from fxc.program.program_signature import signature_of, with_constants
from fxc.program.weights import save_state
from fxc.runtime.signature import Signature
from fxc.tools.capture_commands import capture_source
from fxc.tools.command_line import progress, say, write_output, writing
from fxc.tools.emit_fx import python_text
from fxc.tools.emit_kernels import emit_llvm
from fxc.tools.emitters import EmitOptions

STAGES: Mapping[str, str] = MappingProxyType(
    {
        "lower-to-torch": "torch",
        "optimize": "fused",
        "torchscript": "fused",
        "convert-fusion-to-linalg": "linalg",
        "schedule": "scheduled",
        "tile": "tile",
        "lower-to-plan": "plan",
    }
)
"""Pass or named pipeline -> stage name of the IR after it. Other stages have the name of the pass."""

CAPTURED = "captured"

EXPLAINED = ("fuse", "convert-to-plan")
"""The passes whose remarks ``--remarks`` prints."""


@dataclass(frozen=True)
class CompileStage:
    """``pipeline``: the passes from the previous stage to this one; empty for the first."""

    name: str
    pipeline: tuple[Spec, ...] = ()


def stages_of(pipeline: str) -> list[CompileStage]:
    """The stages of a compilation, from the capture on. A named pipeline is one stage or several."""
    return [CompileStage(CAPTURED), *(stage for spec in parse(pipeline) for stage in _stages(spec))]


def _stages(spec: Spec) -> Iterator[CompileStage]:
    """Split a named pipeline after each pass with a stage name. Other passes belong to the next stage."""
    inner = NAMED[spec.name].specs(spec.name, spec.options) if isinstance(spec, PassSpec) and spec.name in NAMED else ()
    if _name(spec) in STAGES.values() or not any(_name(each) in STAGES.values() for each in inner):
        yield CompileStage(_name(spec), (spec,))
        return
    passes = list[Spec]()
    for each in inner:
        passes.append(each)
        if _name(each) in STAGES.values():
            yield CompileStage(_name(each), tuple(passes))
            passes = []
    if passes:
        yield CompileStage(_name(passes[-1]), tuple(passes))


def _name(spec: Spec) -> str:
    return STAGES.get(spec.name, spec.name) if isinstance(spec, PassSpec) else spec.op_name


@dataclass(frozen=True)
class Request:
    """The arguments of the command line; None and False mean the options of the environment."""

    source: str
    route: str
    dynamic_shapes: tuple[str, ...]
    train: bool
    pipeline: str | None = None
    target: str | None = None
    check_numerics: bool = False
    remarks: bool = False
    device: str | None = None


def compile_program(request: Request, folder: Path | None) -> Program:
    """The program after the last stage; writes every stage to ``folder`` if there is one."""
    flow, options = checked_options(request)
    program, args = capture_source(request.source, request.route, request.dynamic_shapes, request.train)
    if request.device is not None:
        Passes(str(PassSpec.of("move-to-device", device=request.device)), options).compile(program, lambda _: None)
    options = with_machine(options, flow, program)
    program.group_limit = options.group_limit
    stages = stages_of(pipeline_for(flow, options))
    signature = with_constants(signature_of(program), args, {})
    if folder is not None:
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
    digits = len(str(len(stages)))
    for number, stage in enumerate(stages, 1):
        shown = progress(f"stage {number} of {len(stages)}: {stage.name}")
        with shown, remarking(EXPLAINED if request.remarks else (), to_stderr):
            Passes(to_text(stage.pipeline), options).compile(program, lambda _: None)
        if folder is not None:
            _write(folder / f"{number:0{digits}}-{stage.name}.mlir", program.text(debuginfo=stage.name == CAPTURED))
    if folder is not None:
        _write_results(program, folder, options, signature, request.train)
    return program


def checked_options(request: Request) -> tuple[Flow, Options]:
    """The flow and the options of a request. PipelineError for an unknown pass, pass option or machine."""
    options = Options.from_env()
    options = replace(
        options,
        pipeline=request.pipeline or options.pipeline,
        target=request.target or options.target,
        check_numerics=request.check_numerics or options.check_numerics,
    )
    flow = TRAINING if request.train else INFERENCE
    parse_pipeline(pipeline_for(flow, options))
    machine = None if options.target in (None, AUTO) else target_named(options.target)
    _check_device(request, machine, options.target)
    return flow, options


def _check_device(request: Request, machine: TargetAttr | None, target: str | None) -> None:
    """PipelineError for a device that PyTorch has no name for, that is not of the target, or without derivatives here."""
    if (name := request.device) is None:
        return
    import torch

    try:
        kind = torch.device(name).type
    except RuntimeError as error:
        raise PipelineError(f"there is no device {name}", hint="name one as PyTorch does: cuda, cuda:1, cpu") from error
    expected = "cuda" if isinstance(machine, GpuAttr) else "cpu"
    if machine is not None and kind != expected:
        message = f"the device is {name}, but the target {target} has its memory on {expected}"
        raise PipelineError(message, hint=f"give --device={expected}, or another target")
    if request.train and not has_autograd(kind):
        message = f"this PyTorch is built without {kind}, and has no derivatives there"
        raise PipelineError(message, hint=f"leave out --train, or install a PyTorch that is built for {kind}")


def _write(path: Path, text: str) -> None:
    write_output(path, text)
    say(f"wrote {path}")


def _write_results(program: Program, folder: Path, options: Options, signature: Signature, train: bool) -> None:
    if program.state:
        with writing(folder / SHARED_WEIGHTS), progress("writing the weights"):
            save_state(program.state, folder / SHARED_WEIGHTS)
        say(f"wrote {folder / SHARED_WEIGHTS}")
    _write(folder / "graph.py", python_text(program))
    if options.target is not None:
        write_kernels(program, folder)
    try:
        with progress("writing the plan"):
            plan_file.write(folder / "plan.zip", plan_file.Contents(program, signature, train))
        say(f"wrote {folder / 'plan.zip'}")
        if isinstance(target_of(program.module), GpuAttr) and machine_of(program.module) is not None:
            say("its tensors are on the CPU: give --device=cuda for a plan that runs on the GPU")
    except PlanFileError as error:
        say(f"wrote no plan.zip: {error.message}")


# kernels of a compiled program as files: Triton sources and binaries, or one file of LLVM IR


def write_kernels(program: Program, folder: Path) -> None:
    """``kernels.ll`` for a CPU; ``kernels/NAME.py`` and its binary for a GPU, the binary where Triton is installed."""
    if not any(isinstance(op, KernelOp) for op in program.module.ops):
        say("no kernels: every operator is a call of ATen")
    elif is_interpreted(target_of(program.module)):
        say("no code is generated: the reference interpreter runs the kernels")
    elif isinstance(target_of(program.module), CpuAttr):
        write_output(folder / "kernels.ll", emit_llvm(program.module, EmitOptions()))
        say(f"wrote {folder / 'kernels.ll'}")
    elif isinstance(machine := target_of(program.module), GpuAttr):
        _write_triton(program, machine, folder / "kernels")


def _write_triton(program: Program, machine: GpuAttr, folder: Path) -> None:

    folder.mkdir(parents=True, exist_ok=True)
    sources = print_kernels(program.module)
    for source in sources:
        write_output(folder / f"{source.name}.py", source.source)
    say(f"wrote {len(sources)} kernel{'s' if len(sources) != 1 else ''} to {folder}")
    if find_spec("triton") is None:
        say("Triton is not installed: install fxc[triton] to compile the kernels")
        return
    target = compile_target(machine)
    with progress(f"compiling {len(sources)} kernels for {target}"):
        compiled = compile_kernels(sources, target)
    for source, kernel in zip(sources, compiled, strict=True):
        suffix = "hsaco" if target.startswith("rocm") else "cubin"
        (folder / f"{source.name}.{suffix}").write_bytes(kernel.binary)
        used = kernel.resources
        warps = f"{used.warps} warp{'s' if used.warps != 1 else ''}"
        say(f"{source.name}: {used.registers} registers, {used.spilled} bytes spilled, {warps}")
